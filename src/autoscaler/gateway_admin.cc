#include "autoscaler/gateway_admin.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace json = boost::json;
namespace {

constexpr std::size_t kBodyBytesMax = std::size_t{4} << 20;
constexpr std::string_view kBackends = "/tailrace/v1/backends";

std::string text_of(const json::object& object, const char* key) {
  const auto* value = object.if_contains(key);
  const auto* string = value ? value->if_string() : nullptr;
  return string ? std::string(string->data(), string->size()) : std::string();
}

Result<std::vector<GatewayBackend>> parse_backends(const std::string& body) {
  const auto damaged = [] {
    return fail(ErrorCode::kDataLoss,
                "the answer is no list of backends; is that the gateway's admin listener?");
  };
  boost::system::error_code error;
  const auto value = json::parse(body, error);
  const auto* object = error ? nullptr : value.if_object();
  const auto* list = object ? object->if_contains("backends") : nullptr;
  if (list == nullptr || !list->is_array()) return damaged();
  std::vector<GatewayBackend> backends;
  for (const auto& item : list->get_array()) {
    const auto* entry = item.if_object();
    if (entry == nullptr) return damaged();
    GatewayBackend backend;
    backend.name = text_of(*entry, "name");
    backend.url = text_of(*entry, "url");
    const auto* running = entry->if_contains("running");
    if (running != nullptr && running->is_int64()) backend.running = running->get_int64();
    const auto* draining = entry->if_contains("draining");
    backend.draining = draining != nullptr && draining->is_bool() && draining->get_bool();
    backends.push_back(std::move(backend));
  }
  return backends;
}

/// The message of an error answer.
Error error_of(const HttpRequests::Answer& answer) {
  boost::system::error_code error;
  const auto value = json::parse(answer.body, error);
  const auto* object = error ? nullptr : value.if_object();
  const auto* inner = object ? object->if_contains("error") : nullptr;
  std::string message =
      inner != nullptr && inner->is_object() ? text_of(inner->get_object(), "message") : "";
  const auto code = answer.status == 404   ? ErrorCode::kNotFound
                    : answer.status >= 500 ? ErrorCode::kUnavailable
                                           : ErrorCode::kInvalidArgument;
  return {code,
          fmt::format("answered {}{}{}", answer.status, message.empty() ? "" : ": ", message)};
}

}  // namespace

struct HttpRequests::Pending {
  std::uint64_t id = 0;
  Answer answer;
  UniqueFunction<void(Result<Answer>)> done;
  std::unique_ptr<net::Timer> deadline;
  std::unique_ptr<net::Call> call;
};

HttpRequests::HttpRequests(net::EventLoop& loop, net::Network& network, Duration timeout)
    : loop_(loop), client_(net::HttpClient::make(loop, network)), timeout_(timeout) {}

HttpRequests::~HttpRequests() = default;

void HttpRequests::send(const net::Endpoint& to, net::RequestHead head, std::string body,
                        UniqueFunction<void(Result<Answer>)> done) {
  auto made = std::make_unique<Pending>();
  Pending& pending = *made;
  const std::uint64_t id = next_++;
  pending.id = id;
  pending.done = std::move(done);
  pending.deadline = loop_.after(timeout_, [this, id, to] {
    finish(id, fail(ErrorCode::kDeadlineExceeded,
                    fmt::format("{} did not answer in {} s", net::to_string(to),
                                to_seconds(timeout_))));
  });
  pending_.push_back(std::move(made));
  net::CallHandlers handlers;
  handlers.on_head = [&pending](const net::ResponseHead& h) { pending.answer.status = h.status; };
  handlers.on_body = [&pending](std::string_view bytes) {
    if (pending.answer.body.size() + bytes.size() <= kBodyBytesMax) {
      pending.answer.body.append(bytes);
    }
  };
  handlers.on_end = [this, &pending] { finish(pending.id, std::move(pending.answer)); };
  handlers.on_error = [this, id, to](const net::CallError& error) {
    finish(id, fail(error.error.with_context(net::to_string(to))));
  };
  auto shared = body.empty() ? nullptr : std::make_shared<const std::string>(std::move(body));
  pending.call = client_->start(to, std::move(head), std::move(shared),
                                {.connect = timeout_, .first_byte = timeout_, .idle = timeout_},
                                std::move(handlers));
}

void HttpRequests::finish(std::uint64_t id, Result<Answer> answer) {
  const auto it = std::find_if(pending_.begin(), pending_.end(),
                               [id](const auto& pending) { return pending->id == id; });
  if (it == pending_.end()) return;
  const auto pending = std::move(*it);
  pending_.erase(it);
  // Whoever is told may end this object, and what it is told with must live on until then.
  auto done = std::move(pending->done);
  done(std::move(answer));
}

GatewayAdmin::GatewayAdmin(HttpRequests& requests, net::Url url, std::string token)
    : requests_(requests), url_(std::move(url)), token_(std::move(token)) {}

void GatewayAdmin::call(std::string method, const std::string& path, std::string body,
                        UniqueFunction<void(Result<HttpRequests::Answer>)> done) {
  net::RequestHead head;
  head.method = std::move(method);
  head.target = url_.prefix + path;
  if (!body.empty()) head.headers.add("content-type", "application/json");
  if (!token_.empty()) head.headers.add("authorization", "Bearer " + token_);
  requests_.send(url_.endpoint, std::move(head), std::move(body),
                 [done = std::move(done)](Result<HttpRequests::Answer> answer) mutable {
                   if (answer && (answer->status < 200 || answer->status > 299)) {
                     return done(fail(error_of(*answer)));
                   }
                   done(std::move(answer));
                 });
}

void GatewayAdmin::list(UniqueFunction<void(Result<std::vector<GatewayBackend>>)> done) {
  call("GET", std::string(kBackends), "",
       [done = std::move(done)](Result<HttpRequests::Answer> answer) mutable {
         if (!answer) return done(fail(answer.error()));
         done(parse_backends(answer->body));
       });
}

void GatewayAdmin::put(std::string_view name, std::string backend,
                       UniqueFunction<void(Result<void>)> done) {
  call("PUT", fmt::format("{}/{}", kBackends, name), std::move(backend),
       [done = std::move(done)](const Result<HttpRequests::Answer>& answer) mutable {
         if (!answer) return done(fail(answer.error()));
         done({});
       });
}

void GatewayAdmin::remove(std::string_view name, UniqueFunction<void(Result<void>)> done) {
  call("DELETE", fmt::format("{}/{}", kBackends, name), "",
       [done = std::move(done)](const Result<HttpRequests::Answer>& answer) mutable {
         if (!answer && answer.error().code != ErrorCode::kNotFound) {
           return done(fail(answer.error()));
         }
         done({});
       });
}

}  // namespace tailrace::autoscaler
