#include "tailrace/gateway/gateway.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/forward_headers.h"
#include "gateway/gateway_impl.h"
#include "gateway/models.h"
#include "gateway/offline_prediction.h"
#include "tailrace/core/log.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/text.h"

namespace tailrace::gateway {
namespace {

std::unique_ptr<PredictionRunner> make_prediction(const PredictConfig& config,
                                                  net::EventLoop& loop) {
  if (config.mode == PredictMode::kOff) return nullptr;
  auto predictor = make_predictor(config);
  PredictionThreadOptions options;
  options.batcher = config.batcher;
  options.model_file = config.model_file;
  options.save_every = config.save_every;
  return make_threaded_prediction_runner(loop, std::move(predictor), std::move(options));
}

/// Of administrators' bodies, all together; a backend's description has a few hundred bytes.
constexpr std::size_t kAdminReceivingBytesMax = std::size_t{16} << 20;

void respond_json(net::Exchange& exchange, int status, std::string body) {
  net::ResponseHead head;
  head.status = status;
  head.headers.add("content-type", "application/json");
  exchange.respond(std::move(head), std::move(body));
}

void respond_text(net::Exchange& exchange, int status, std::string body) {
  net::ResponseHead head;
  head.status = status;
  head.headers = {{"content-type", "text/plain"}, {"cache-control", "no-store"}};
  exchange.respond(std::move(head), std::move(body));
}

void respond_error(net::Exchange& exchange, const ErrorAnswer& answer) {
  respond_json(exchange, answer.status, answer.body);
}

void not_allowed(net::Exchange& exchange, std::string_view methods) {
  const auto answer =
      error_answer(405, "use " + std::string(methods) + " here", "method_not_allowed");
  net::ResponseHead head;
  head.status = answer.status;
  head.headers = {{"content-type", "application/json"}, {"allow", std::string(methods)}};
  exchange.respond(std::move(head), answer.body);
}

}  // namespace

Gateway::Impl::Impl(Config config_in, net::EventLoop& loop_in, net::Network& network,
                    dispatch::Dispatcher dispatcher_in, GatewayParts parts)
    : config(std::move(config_in)),
      loop(loop_in),
      client(net::HttpClient::make(loop_in, network)),
      dispatcher(std::move(dispatcher_in)),
      metrics(parts.version),
      big_bodies(parts.read_large_bodies_inline ? make_inline_body_reader(loop_in)
                                                : make_threaded_body_reader(loop_in)),
      prediction(config.predict.mode == PredictMode::kOff ? nullptr
                 : parts.prediction                       ? std::move(parts.prediction)
                                    : make_prediction(config.predict, loop_in)),
      configured_policy(config.dispatch.policy),
      effective_policy(config.dispatch.policy),
      law_trusted(config.predict.accept_given_laws) {
  health = std::make_unique<HealthChecker>(
      loop, *client,
      HealthOptions{config.health.interval, config.health.timeout, config.health.unhealthy_after,
                    config.health.healthy_after},
      [this](const Backend& backend) { health_changed(backend); });
  context = std::make_unique<Context>(Context{.config = config,
                                              .loop = loop,
                                              .client = *client,
                                              .dispatcher = dispatcher,
                                              .backends = backends,
                                              .health = *health,
                                              .metrics = metrics,
                                              .big_bodies = *big_bodies,
                                              .history = history,
                                              .prediction = prediction.get()});
  context->pump = [this] { pump(); };
  context->forget = [this](JobId id) { forget(id); };
  context->saw_prediction = [this](bool calibrated) { saw_prediction(calibrated); };
  admin = std::make_unique<AdminApi>(*context, *this,
                                     parts.environment ? parts.environment : process_environment());
  if (prediction) {
    prediction->on_result(
        [this](JobId id, const predict::Prediction& result) { prediction_arrived(id, result); });
    prediction->on_explained(
        [this](JobId id, const ExplainedPrediction& result) { explanation_arrived(id, result); });
  }
  apply_policy();
}

Gateway::Impl::~Impl() {
  // Requests first, so that closing connections finds nobody who would answer.
  requests.clear();
  passthroughs.clear();
  asked_predictions.clear();
  public_server.reset();
  admin_server.reset();
}

Result<void> Gateway::Impl::listen(net::Network& network) {
  net::ServerLimits open_limits = config.server;
  open_limits.receiving_bytes_max = config.dispatch.queued_bytes_max;
  auto server = net::HttpServer::listen(
      loop, network, config.listen, open_limits,
      [this](std::shared_ptr<net::Exchange> exchange) { handle(std::move(exchange)); });
  if (!server) return fail(server.error().with_context("listen"));
  public_server = std::move(*server);
  if (!config.admin.enabled) return {};
  net::ServerLimits limits = config.server;
  limits.receiving_bytes_max = kAdminReceivingBytesMax;
  limits.connections_max = std::min<std::size_t>(limits.connections_max, 256);
  auto admin_listener = net::HttpServer::listen(
      loop, network, config.admin.listen, limits,
      [this](const std::shared_ptr<net::Exchange>& exchange) { admin->handle(exchange); });
  if (!admin_listener) return fail(admin_listener.error().with_context("admin.listen"));
  admin_server = std::move(*admin_listener);
  return {};
}

std::string Gateway::Impl::request_id_for(const net::Exchange& exchange, JobId id) {
  std::string given = sane_request_id(exchange.head().headers);
  if (!given.empty()) return given;
  // Unlike across restarts and replicas, so that logs of several can be searched together.
  const auto start = static_cast<std::uint64_t>(loop.now().time_since_epoch().count());
  return fmt::format("tr-{:016x}", stable_hash(exchange.peer(), start ^ (id.count() << 32)));
}

void Gateway::Impl::handle(std::shared_ptr<net::Exchange> exchange) {
  const std::string path(exchange->head().path());
  const std::string& method = exchange->head().method;
  if (path == "/healthz") return respond_text(*exchange, 200, "ok\n");
  // "/health" is where probes of the engines themselves look, another gateway's among them.
  if (path == "/readyz" || path == "/health") {
    return ready() ? respond_text(*exchange, 200, "ready\n")
                   : respond_text(*exchange, 503, leaving ? "draining\n" : "no healthy backend\n");
  }
  if (path == "/v1/models" || path.starts_with("/v1/models/")) {
    if (method == "GET" || method == "HEAD") return models(*exchange);
    return not_allowed(*exchange, "GET, HEAD");
  }
  if (!path.starts_with("/v1/")) {
    return respond_error(
        *exchange,
        error_answer(404, "no such endpoint: " + core::quoted(path) + "; the API is below /v1",
                     "not_found"));
  }
  // What an engine might take for a generation, or for something outside /v1, is not passed on.
  if (const std::string plain = plain_path(path);
      plain != path && (route_of(plain) || !plain.starts_with("/v1/"))) {
    return respond_error(*exchange, error_answer(400,
                                                 "the path " + core::quoted(path) +
                                                     " is not in its plain form; write " +
                                                     core::quoted(plain.empty() ? "/" : plain),
                                                 "ambiguous_path"));
  }
  const JobId id = next_id();
  std::string request_id = request_id_for(*exchange, id);
  if (const auto route = route_of(path)) {
    if (method != "POST") return not_allowed(*exchange, "POST");
    auto request = std::make_shared<GenerationRequest>(*context, id, *route, std::move(request_id),
                                                       std::move(exchange));
    requests.emplace(id, request);
    request->start();
    return;
  }
  auto request =
      std::make_shared<Passthrough>(*context, id, std::move(request_id), std::move(exchange));
  passthroughs.emplace(id, request);
  request->start();
}

void Gateway::Impl::models(net::Exchange& exchange) {
  constexpr std::string_view kList = "/v1/models";
  std::string_view rest = exchange.head().path().substr(kList.size());
  if (rest.empty() || rest == "/") {
    return respond_json(exchange, 200,
                        merged_models(backends.all(), config.dispatch.awaited_models));
  }
  rest.remove_prefix(1);
  if (auto entry = merged_model(backends.all(), config.dispatch.awaited_models, rest)) {
    return respond_json(exchange, 200, std::move(*entry));
  }
  respond_error(exchange, error_answer(404, "model " + core::quoted(rest) + " is not served here",
                                       "model_not_found", "model"));
}

void Gateway::Impl::pump() {
  // A job that runs may fail at once and ask for another round; the loop below takes it up.
  if (pumping) {
    pump_again = true;
    return;
  }
  pumping = true;
  do {
    pump_again = false;
    while (const auto assignment = dispatcher.next(loop.now())) {
      const auto it = requests.find(assignment->job.id);
      if (it == requests.end()) {
        dispatcher.cancel(assignment->job.id, loop.now());
        continue;
      }
      const auto request = it->second;
      request->run(*assignment);
    }
  } while (pump_again);
  pumping = false;
  wake_timer.reset();
  if (const auto at = dispatcher.wake_at(loop.now())) {
    wake_timer = loop.at(*at, [this] { pump(); });
  }
}

void Gateway::Impl::forget(JobId id) {
  if (requests.erase(id) == 0) passthroughs.erase(id);
  if (context->draining && active() == 0) watch_drain();
}

Gateway::Gateway(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Gateway::~Gateway() = default;

Result<std::unique_ptr<Gateway>> Gateway::start(Config config, net::EventLoop& loop,
                                                net::Network& network, GatewayParts parts) {
  for (const auto& [name, model] : config.models) {
    if (!model.awaited) continue;
    config.dispatch.awaited_models.push_back(name);
    if (model.slots > 0) config.dispatch.awaited_slots[name] = model.slots;
  }
  auto dispatcher = dispatch::Dispatcher::make(config.dispatch);
  if (!dispatcher) return fail(dispatcher.error());
  const std::vector<BackendConfig> configured = config.backends;
  auto impl = std::make_unique<Impl>(std::move(config), loop, network, std::move(*dispatcher),
                                     std::move(parts));
  for (const auto& model : impl->config.dispatch.awaited_models) impl->metrics.add_model(model);
  for (const auto& backend : configured) {
    auto put = impl->put_backend(backend);
    if (!put) return fail(put.error().with_context("backend " + core::quoted(backend.name)));
  }
  auto listening = impl->listen(network);
  if (!listening) return fail(listening.error());
  return std::unique_ptr<Gateway>(new Gateway(std::move(impl)));
}

net::Endpoint Gateway::public_endpoint() const {
  return impl_->public_server->local();
}

std::optional<net::Endpoint> Gateway::admin_endpoint() const {
  if (!impl_->admin_server) return std::nullopt;
  return impl_->admin_server->local();
}

void Gateway::begin_drain(UniqueFunction<void(bool)> done) {
  impl_->begin_drain(std::move(done));
}
void Gateway::cut_everything() {
  impl_->cut_everything();
}
std::size_t Gateway::active_requests() const {
  return impl_->active();
}
const dispatch::Dispatcher& Gateway::dispatcher() const {
  return impl_->dispatcher;
}

}  // namespace tailrace::gateway
