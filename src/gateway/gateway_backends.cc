// Backends come, go, fall ill and recover.
#include <algorithm>
#include <map>
#include <utility>

#include "gateway/gateway_impl.h"
#include "tailrace/core/log.h"
#include "tailrace/core/text.h"

namespace tailrace::gateway {

Result<void> Gateway::Impl::put_backend(const BackendConfig& config_in) {
  auto backend = std::make_shared<Backend>();
  backend->name = config_in.name;
  backend->url = config_in.url;
  backend->models = config_in.models;
  backend->slots = config_in.slots;
  backend->api_key = config_in.api_key;
  backend->health_path = config_in.health_path;
  backend->ask_usage = config_in.usage == UsageRequest::kAuto;
  const MonoTime now = loop.now();
  if (auto put = dispatcher.put_backend({backend->name, backend->models, backend->slots}, now);
      !put) {
    return put;
  }
  // What was known of a backend at another address says nothing about this one.
  const auto before = backends.find(backend->name);
  if (before && before->url.endpoint == backend->url.endpoint) {
    backend->healthy = before->healthy;
    backend->confirmed = before->confirmed;
    backend->models_json = before->models_json;
  } else if (before) {
    client->forget(before->url.endpoint);
  }
  backend->pace = backends.pace_of(backend->name, backend->url.endpoint);
  (void)dispatcher.set_health(backend->name, backend->healthy, now);
  metrics.add_backend(backend->name);
  for (const auto& model : backend->models) metrics.add_model(model);
  backends.put(backend);
  log::info("backend_put", {{"backend", backend->name},
                            {"address", net::to_string(backend->url.endpoint)},
                            {"slots", backend->slots},
                            {"models", static_cast<std::uint64_t>(backend->models.size())}});
  if (config.health.enabled) health->watch(backend);
  context->pump();
  tell_waiting();
  return {};
}

Result<void> Gateway::Impl::remove_backend(std::string_view name) {
  const auto backend = backends.find(name);
  if (!backend) {
    return fail(ErrorCode::kNotFound, "no backend is named " + core::quoted(name));
  }
  health->unwatch(name);
  backends.remove(name);
  // An engine that holds the last jobs of its pool stays known to the dispatcher until they end.
  (void)dispatcher.remove_backend(name, loop.now());
  client->forget(backend->url.endpoint);
  log::info("backend_removed", {{"backend", name}});
  tell_waiting();
  return {};
}

/// Nobody waits for ever: what no backend that is left can take is answered now.
void Gateway::Impl::tell_waiting() {
  const auto generation = requests;  // some end and leave the map
  for (const auto& [id, request] : generation) request->backends_changed();
}

void Gateway::Impl::health_changed(const Backend& backend) {
  (void)dispatcher.set_health(backend.name, backend.healthy, loop.now());
  pump();
}

bool Gateway::Impl::ready() const {
  if (leaving) return false;
  const bool any = config.health.enabled ? backends.any_ready() : !backends.all().empty();
  // Where engines are brought by what waits, turning clients away would bring none.
  return any || !config.dispatch.awaited_models.empty();
}

void Gateway::Impl::refresh_gauges() {
  const MonoTime now = loop.now();
  struct Predicted {
    double tokens = 0;
    std::size_t requests = 0;
  };
  std::map<std::string_view, Predicted> predicted;
  for (const auto& [id, request] : requests) {
    if (!request->waits() || !request->predicted_tokens()) continue;
    auto& sum = predicted[request->model()];
    sum.tokens += *request->predicted_tokens();
    ++sum.requests;
  }
  metrics.zero_gauges();  // what has gone has none, and several may be "other"
  for (const auto& pool : dispatcher.pools(now)) {
    auto& gauges = metrics.model(pool.model);
    const auto& known = predicted[pool.model];
    gauges.queue_output_tokens.add(known.requests == 0
                                       ? 0
                                       : known.tokens / static_cast<double>(known.requests) *
                                             static_cast<double>(pool.waiting));
    gauges.queue_jobs.add(static_cast<double>(pool.waiting));
    gauges.queue_bytes.add(static_cast<double>(pool.queued_bytes));
    gauges.running_jobs.add(static_cast<double>(pool.running));
    gauges.slots.add(pool.slots);
  }
  for (const auto& view : dispatcher.backends()) {
    auto& gauges = metrics.backend(view.name);
    gauges.running.add(view.running);
    gauges.slots.add(view.slots);
    gauges.healthy.add(view.healthy ? 1 : 0);
  }
  for (const auto& backend : backends.all()) {
    metrics.backend(backend->name).streams.add(static_cast<double>(backend->pace->streams));
  }
  metrics.set_paces([&](std::string_view name) -> std::optional<TokenPace> {
    const auto backend = backends.find(name);
    return backend ? backend->pace->meter.at(now) : std::nullopt;
  });
  metrics.connections.set(static_cast<double>(public_server->connections()));
  metrics.exchanges.set(static_cast<double>(public_server->exchanges()));
  metrics.admin_connections.set(
      static_cast<double>(admin_server ? admin_server->connections() : 0));
  if (prediction) {
    const std::uint64_t dropped = prediction->dropped();
    metrics.predictions_dropped.add(
        static_cast<double>(dropped - std::exchange(dropped_seen, dropped)));
    metrics.predictions_pending.set(
        static_cast<double>(std::count_if(requests.begin(), requests.end(), [](const auto& entry) {
          return entry.second->awaits_law();
        })));
  }
  metrics.calibrated.set(law_trusted ? 1 : 0);
  metrics.ready.set(ready() ? 1 : 0);
}

}  // namespace tailrace::gateway
