#include "gateway/admin.h"

#include <boost/json.hpp>
#include <utility>

#include "gateway/admin_json.h"
#include "gateway/error_body.h"
#include "gateway/offline_prediction.h"
#include "tailrace/core/text.h"

namespace tailrace::gateway {
namespace {

constexpr std::size_t kBodyBytesMax = std::size_t{4} << 20;
constexpr std::size_t kQueueJobsShown = 100;
constexpr std::string_view kPrefix = "/tailrace/v1/";

void respond(net::Exchange& exchange, int status, std::string body,
             std::string_view type = "application/json") {
  net::ResponseHead head;
  head.status = status;
  head.headers.add("content-type", std::string(type));
  head.headers.add("cache-control", "no-store");
  exchange.respond(std::move(head), std::move(body));
}

void respond_error(net::Exchange& exchange, const ErrorAnswer& answer) {
  respond(exchange, answer.status, answer.body);
}

/// Why a body could not be read: one that is too large stays so, however often it is sent.
ErrorAnswer body_error(const Error& error) {
  if (error.code == ErrorCode::kResourceExhausted) return error_answer(413, error.message);
  return error_answer(error);
}

void not_allowed(net::Exchange& exchange, std::string_view methods) {
  auto answer = error_answer(405, "use " + std::string(methods) + " here", "method_not_allowed");
  net::ResponseHead head;
  head.status = 405;
  head.headers = {{"content-type", "application/json"}, {"allow", std::string(methods)}};
  exchange.respond(std::move(head), std::move(answer.body));
}

/// Takes as long for a wrong token as for a right one, so that it cannot be guessed byte by byte.
bool same_secret(std::string_view given, std::string_view wanted) {
  unsigned difference = given.size() == wanted.size() ? 0U : 1U;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = wanted.empty() ? '\0' : wanted[i % wanted.size()];
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

/// Does the Host field name an address, or this machine? A page in a browser on this machine can
/// make its own name point here, but the name then stands in the field.
bool names_no_site(const net::Headers& headers) {
  std::string_view host = core::trim(headers.find("host").value_or(""));
  if (host.starts_with('[')) return true;
  host = host.substr(0, host.find(':'));
  return host.empty() || core::iequals(host, "localhost") ||
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

/// The value of a string member of a JSON object.
Result<std::string> string_member(const std::string& body, std::string_view name) {
  boost::system::error_code error;
  const auto value = boost::json::parse(body, error);
  const auto* object = error ? nullptr : value.if_object();
  const auto* member = object ? object->if_contains(name) : nullptr;
  const auto* text = member ? member->if_string() : nullptr;
  if (!text) {
    return fail(ErrorCode::kInvalidArgument,
                "the body must be a JSON object with a string \"" + std::string(name) + "\"");
  }
  return std::string(text->data(), text->size());
}

}  // namespace

AdminApi::AdminApi(Context& context, AdminActions& actions, Environment environment)
    : context_(context), actions_(actions), environment_(std::move(environment)) {}

bool AdminApi::authorized(const net::RequestHead& head) const {
  const Secret& token = context_.config.admin.token;
  if (token.empty()) return true;
  constexpr std::string_view kScheme = "Bearer ";
  const auto value = head.headers.find("authorization");
  if (!value || value->size() < kScheme.size()) return false;
  return core::iequals(value->substr(0, kScheme.size()), kScheme) &&
         same_secret(core::trim(value->substr(kScheme.size())), token.reveal());
}

void AdminApi::handle(const std::shared_ptr<net::Exchange>& exchange) {
  const std::string_view path = exchange->head().path();
  if (path == "/healthz") {
    respond(*exchange, 200, "ok\n", "text/plain");
    return;
  }
  if (!authorized(exchange->head())) {
    auto answer = error_answer(401, "the admin listener wants \"Authorization: Bearer <token>\"",
                               "unauthorized");
    net::ResponseHead head;
    head.status = 401;
    head.headers = {{"content-type", "application/json"}, {"www-authenticate", "Bearer"}};
    exchange->respond(std::move(head), std::move(answer.body));
    return;
  }
  if (context_.config.admin.token.empty() && !names_no_site(exchange->head().headers)) {
    return respond_error(
        *exchange, error_answer(403,
                                "without a token the admin listener is asked by address or as "
                                "localhost only; set admin.token_env or admin.token_file",
                                "foreign_host"));
  }
  route(exchange, path);
}

void AdminApi::route(const std::shared_ptr<net::Exchange>& exchange, std::string_view path) {
  const std::string& method = exchange->head().method;
  if (path == "/metrics") {
    if (method != "GET") return not_allowed(*exchange, "GET");
    actions_.refresh_gauges();
    return respond(*exchange, 200, context_.metrics.exposition(),
                   "text/plain; version=0.0.4; charset=utf-8");
  }
  if (!path.starts_with(kPrefix)) {
    return respond_error(*exchange, error_answer(404, "no such admin page: " + core::quoted(path) +
                                                          "; see docs/admin-api.md"));
  }
  std::string_view rest = path.substr(kPrefix.size());
  const std::size_t slash = rest.find('/');
  const std::string_view page = rest.substr(0, slash);
  const std::string_view item = slash == std::string_view::npos ? "" : rest.substr(slash + 1);
  if (page == "queue" && item.empty()) {
    if (method != "GET") return not_allowed(*exchange, "GET");
    return queue(*exchange);
  }
  if (page == "backends") return backends(exchange, item);
  if (page == "policy" && item.empty()) return policy(exchange);
  if (page == "explain" && !item.empty()) {
    if (method != "GET") return not_allowed(*exchange, "GET");
    return explain(*exchange, item);
  }
  if (page == "predict" && item.empty()) return predict(exchange);
  respond_error(*exchange, error_answer(404, "no such admin page: " + core::quoted(path) +
                                                 "; see docs/admin-api.md"));
}

void AdminApi::queue(net::Exchange& exchange) {
  respond(exchange, 200,
          queue_json(context_.dispatcher, actions_.policy(), context_.loop.now(), kQueueJobsShown));
}

void AdminApi::backends(const std::shared_ptr<net::Exchange>& exchange, std::string_view name) {
  const std::string& method = exchange->head().method;
  const auto show = [this, exchange](std::string_view which) {
    auto json = backend_json(context_.dispatcher, context_.backends, which, context_.loop.now());
    if (json) {
      respond(*exchange, 200, std::move(*json));
    } else {
      respond_error(*exchange, error_answer(404, "no backend is named " + core::quoted(which)));
    }
  };
  if (name.empty()) {
    if (method != "GET") return not_allowed(*exchange, "GET");
    return respond(*exchange, 200,
                   backends_json(context_.dispatcher, context_.backends, context_.loop.now()));
  }
  if (method == "GET") return show(name);
  if (method == "DELETE") {
    const auto removed = actions_.remove_backend(name);
    if (!removed) return respond_error(*exchange, error_answer(removed.error()));
    return respond(*exchange, 200, "{\"removed\":true}");
  }
  if (method != "PUT") return not_allowed(*exchange, "GET, PUT, DELETE");
  exchange->read_body(
      kBodyBytesMax, [this, exchange, show, name = std::string(name)](Result<std::string> body) {
        if (!body) return respond_error(*exchange, body_error(body.error()));
        const bool may_name_secrets = !context_.config.admin.token.empty();
        const auto backend = parse_backend(name, *body, environment_, may_name_secrets);
        if (!backend) return respond_error(*exchange, error_answer(backend.error()));
        const auto put = actions_.put_backend(*backend);
        if (!put) return respond_error(*exchange, error_answer(put.error()));
        show(name);
      });
}

void AdminApi::policy(const std::shared_ptr<net::Exchange>& exchange) {
  const std::string& method = exchange->head().method;
  if (method == "GET") return respond(*exchange, 200, policy_json(actions_.policy()));
  if (method != "PUT") return not_allowed(*exchange, "GET, PUT");
  exchange->read_body(kBodyBytesMax, [this, exchange](Result<std::string> body) {
    if (!body) return respond_error(*exchange, body_error(body.error()));
    const auto name = string_member(*body, "policy");
    if (!name) return respond_error(*exchange, error_answer(name.error()));
    const auto set = actions_.set_policy(*name);
    if (!set) return respond_error(*exchange, error_answer(set.error()));
    respond(*exchange, 200, policy_json(actions_.policy()));
  });
}

void AdminApi::explain(net::Exchange& exchange, std::string_view request_id) {
  const auto record = context_.history.find(request_id);
  if (!record) {
    return respond_error(exchange,
                         error_answer(404, "no request with id " + core::quoted(request_id) +
                                               " is running or ended recently; the id is the "
                                               "answer's x-tailrace-request-id"));
  }
  const MonoTime now = context_.loop.now();
  respond(
      exchange, 200,
      explain_json(*record, context_.dispatcher.explain(record->job, now), actions_.policy(), now));
}

void AdminApi::predict(const std::shared_ptr<net::Exchange>& exchange) {
  if (exchange->head().method != "POST") return not_allowed(*exchange, "POST");
  exchange->read_body(kBodyBytesMax, [this, exchange](Result<std::string> body) {
    if (!body) return respond_error(*exchange, body_error(body.error()));
    const auto hints = read_hints(exchange->head().headers, false);
    if (!hints) return respond_error(*exchange, error_answer(hints.error()));
    const auto features = features_of(*body, hints->tenant, context_.config);
    if (!features) return respond_error(*exchange, error_answer(features.error()));
    actions_.predict(*features, [this, exchange, features](Result<ExplainedPrediction> answer) {
      if (!answer) return respond_error(*exchange, error_answer(answer.error()));
      const bool orders =
          answer->prediction.calibrated && context_.config.predict.mode == PredictMode::kOn;
      respond(*exchange, 200, prediction_json(*features, *answer, orders));
    });
  });
}

}  // namespace tailrace::gateway
