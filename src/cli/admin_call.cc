#include "cli/admin_call.h"

#include <fmt/core.h>

#include <cstdlib>
#include <memory>

#include "cli/commands.h"
#include "tailrace/core/printable.h"
#include "tailrace/net/event_loop.h"
#include "tailrace/net/http_client.h"
#include "tailrace/net/stream.h"

namespace tailrace::cli {
namespace json = boost::json;
namespace {

constexpr std::chrono::seconds kTimeout{5};
constexpr std::chrono::seconds kTimeoutWhole{15};  // an answer that drips must end too
constexpr std::size_t kAnswerBytesMax = std::size_t{16} << 20;

struct Answer {
  int status = 0;
  std::string body;
};

net::RequestHead head_of(const AdminQuestion& question, const net::Url& url) {
  net::RequestHead head;
  head.method = question.body.empty() ? "GET" : "POST";
  head.target = url.prefix + question.path;
  const char* token = std::getenv(question.token_env.c_str());
  if (token != nullptr && *token != 0) {
    head.headers.add("authorization", std::string("Bearer ") + token);
  }
  if (!question.body.empty()) head.headers.add("content-type", "application/json");
  if (!question.tenant.empty()) head.headers.add("x-tailrace-tenant", question.tenant);
  return head;
}

/// One call, waited for.
Result<Answer> call(const AdminQuestion& question, const net::Url& url) {
  const auto loop = net::make_event_loop();
  const auto network = net::make_socket_network(*loop);
  const auto client = net::HttpClient::make(*loop, *network);
  Result<Answer> result = Answer{};
  net::CallHandlers handlers;
  handlers.on_head = [&](net::ResponseHead h) { result->status = h.status; };
  handlers.on_body = [&](std::string_view bytes) {
    if (result && result->body.size() + bytes.size() > kAnswerBytesMax) {
      result = fail(ErrorCode::kUnavailable, "the answer is too large for an admin listener's");
      loop->stop();
    }
    if (result) result->body.append(bytes);
  };
  handlers.on_end = [&] { loop->stop(); };
  handlers.on_error = [&](net::CallError error) {
    result = fail(std::move(error.error));
    loop->stop();
  };
  const auto body =
      question.body.empty() ? nullptr : std::make_shared<const std::string>(question.body);
  const auto deadline = loop->after(kTimeoutWhole, [&] {
    result = fail(ErrorCode::kDeadlineExceeded,
                  fmt::format("no whole answer within {} s", kTimeoutWhole.count()));
    loop->stop();
  });
  const auto running = client->start(
      url.endpoint, head_of(question, url), body,
      {.connect = kTimeout, .first_byte = kTimeout, .idle = kTimeout}, std::move(handlers));
  loop->run();
  return result;
}

tl::unexpected<Error> refused(const AdminQuestion& question, const Answer& answer,
                              const json::object& document) {
  const auto* details = at(document, "error").if_object();
  std::string message =
      details ? text(at(*details, "message")) : fmt::format("answered {}", answer.status);
  if (answer.status == 401) {
    message += "; put the token into the environment variable " + question.token_env +
               ", or name another one with --token-env";
  }
  return fail(answer.status == 400 ? ErrorCode::kInvalidArgument : ErrorCode::kUnavailable,
              std::move(message));
}

}  // namespace

Result<AdminAnswer> call_admin(const AdminQuestion& question) {
  const auto url = net::parse_url(question.admin);
  if (!url) return fail(url.error().with_context("--admin"));
  const auto answer = call(question, *url);
  if (!answer) {
    return fail(
        ErrorCode::kUnavailable,
        fmt::format("no answer from {}: {}; is the {} running, and is this its {} address?",
                    question.admin, answer.error().message, question.server, question.listener));
  }
  boost::system::error_code error;
  const auto document = json::parse(answer->body, error);
  const bool ours = !error && document.is_object() &&
                    (answer->status != 200 || document.get_object().contains(question.wanted));
  if (!ours) {
    return fail(ErrorCode::kUnavailable,
                question.admin + " did not answer as an admin listener does; is it one?");
  }
  if (answer->status != 200) return refused(question, *answer, document.get_object());
  return AdminAnswer{answer->body, document.get_object()};
}

int exit_code_of(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument ? kExitUsage : kExitFailed;
}

const json::value& at(const json::object& object, std::string_view name) {
  static const json::value kNull;
  const auto* value = object.if_contains(json::string_view(name.data(), name.size()));
  return value ? *value : kNull;
}

const json::object& object_of(const json::value& value) {
  static const json::object kEmpty;
  const auto* object = value.if_object();
  return object ? *object : kEmpty;
}

std::optional<double> number_of(const json::value& value) {
  if (!value.is_number()) return std::nullopt;
  return value.to_number<double>();
}

std::string text(const json::value& value) {
  if (const auto* s = value.if_string()) return core::printable({s->data(), s->size()});
  if (value.is_null()) return "-";
  if (value.is_double()) return fmt::format("{:.4g}", value.get_double());
  return json::serialize(value);
}

}  // namespace tailrace::cli
