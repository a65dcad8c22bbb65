#include "tailrace/autoscaler/simulated_fleet.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace tailrace::autoscaler {
namespace {

const simulate::EngineReport* find(const simulate::FleetReport& report, const std::string& name) {
  for (const auto& engine : report.engines) {
    if (engine.name == name) return &engine;
  }
  return nullptr;
}

/// Mean of what was counted; unknown where nothing was.
std::optional<double> mean(double sum, double count) {
  if (!(count > 0)) return std::nullopt;
  return sum / count;
}

std::optional<double> variation(double squares, double sum, double count) {
  if (!(count > 1)) return std::nullopt;
  const double m = sum / count;
  const double variance = std::max(0.0, squares / count - m * m);
  return m > 0 ? std::optional(std::sqrt(variance) / m) : std::nullopt;
}

int count_of(std::int64_t n) {
  return static_cast<int>(std::clamp<std::int64_t>(n, 0, 100'000));
}

}  // namespace

bool RequestTargets::met(const simulate::RequestRecord& record) const {
  if (record.end != simulate::End::kCompleted) return false;
  const double ttft = to_seconds(*record.first_token - record.arrival) * 1e3;
  if (ttft > ttft_ms) return false;
  const auto gaps = static_cast<double>(record.output.count() - 1);
  return gaps <= 0 || to_seconds(*record.finished - *record.first_token) * 1e3 <= itl_ms * gaps;
}

double FleetRun::goodput(const RequestTargets& targets, double from_s, double to_s) const {
  double offered = 0, met = 0;
  for (const auto& request : requests) {
    const double at_s = to_seconds(request.arrival);
    if (at_s < from_s || at_s >= to_s) continue;
    ++offered;
    if (targets.met(request)) ++met;
  }
  return offered > 0 ? met / offered : 1;
}

double FleetRun::engine_s() const {
  return std::accumulate(totals.engine_s.begin(), totals.engine_s.end(), 0.0);
}

FleetObserver::FleetObserver(const SimulatedFleet& fleet, capacity::ModelKey key)
    : fleet_(fleet), key_(std::move(key)) {}

tune::Observation FleetObserver::observe(const simulate::EngineReport& engine, double now_s) const {
  // Since the oldest look at it within the window, or since it began.
  simulate::EngineReport before;
  double before_s = to_seconds(engine.began);
  for (const auto& report : past_) {
    const auto* const then = find(report, engine.name);
    if (then == nullptr) continue;
    before = *then;
    before_s = to_seconds(report.now);
    break;
  }
  const auto since = [](auto now, auto then) {
    return static_cast<double>(now) - static_cast<double>(then);
  };
  tune::Observation out;
  out.time_s = now_s;
  out.pod = engine.name;
  out.waiting = static_cast<double>(engine.waiting);
  const double length_s = now_s - before_s;
  if (!(length_s > 0)) return out;
  const double completed = since(engine.completed, before.completed);
  out.rate_per_s = since(engine.received, before.received) / length_s;
  out.requests = completed;
  out.input_tokens = mean(since(engine.input_tokens, before.input_tokens), completed);
  out.output_tokens = mean(since(engine.output_tokens, before.output_tokens), completed);
  out.input_cv = variation(since(engine.input_squares, before.input_squares),
                           since(engine.input_tokens, before.input_tokens), completed);
  out.output_cv = variation(since(engine.output_squares, before.output_squares),
                            since(engine.output_tokens, before.output_tokens), completed);
  out.ttft_ms = mean(1e3 * since(engine.ttft_s, before.ttft_s),
                     since(engine.first_tokens, before.first_tokens));
  out.itl_ms = mean(1e3 * since(engine.gap_s, before.gap_s), since(engine.gaps, before.gaps));
  out.running = since(engine.running_s, before.running_s) / length_s;
  return out;
}

Snapshot FleetObserver::look(const simulate::FleetReport& report) {
  Snapshot out;
  out.time_s = to_seconds(report.now);
  std::erase_if(past_, [&](const simulate::FleetReport& then) {
    return to_seconds(then.now) < out.time_s - fleet_.window_s - 1e-9;
  });
  capacity::ModelState model;
  model.key = key_;
  capacity::Backlog gateway;
  gateway.requests = static_cast<double>(report.waiting);
  gateway.one_queue = true;
  const double since_s = past_.empty() ? 0 : to_seconds(past_.back().now);
  const auto arrived =
      static_cast<double>(report.arrived - (past_.empty() ? 0 : past_.back().arrived));
  if (out.time_s > since_s) {
    gateway.arrivals_window_s = out.time_s - since_s;
    gateway.arrivals_per_s = arrived / gateway.arrivals_window_s;
  }
  model.gateway = gateway;
  for (std::size_t v = 0; v < fleet_.variants.size(); ++v) {
    const SimulatedVariant& from = fleet_.variants[v];
    const simulate::VariantReport& there = report.variants[v];
    const engine::EngineConfig& engine = from.engines.engine;
    capacity::Variant variant;
    variant.key = key_;
    variant.name = from.engines.name;
    variant.accelerator = from.accelerator;
    variant.cost = from.cost;
    variant.min = from.min;
    variant.max = from.max;
    variant.current = there.ready;
    variant.pending = there.starting;
    variant.limits.max_num_seqs = from.engines.slots > 0 ? from.engines.slots : engine.max_num_seqs;
    variant.limits.max_batched_tokens = engine.max_batched_tokens;
    variant.limits.kv_tokens = engine.usable_blocks() * engine.block_tokens;
    variant.knee_tokens = engine.cost.knee_tokens;
    if (there.grew) variant.scaled_up_at_s = to_seconds(*there.grew);
    for (const auto& one : report.engines) {
      if (one.variant == v && !one.draining) variant.pods.push_back(observe(one, out.time_s));
    }
    model.variants.push_back(std::move(variant));
  }
  out.models.push_back(std::move(model));
  past_.push_back(report);
  return out;
}

Result<FleetRun> run_fleet(const SimulatedFleet& fleet, const Law& law) {
  simulate::ElasticSpec spec = fleet.run;
  spec.variants.clear();
  for (const auto& variant : fleet.variants) spec.variants.push_back(variant.engines);
  FleetRun out;
  FleetObserver observer(fleet, {"simulated", "model"});
  const auto scaler = [&](const simulate::FleetReport& report) {
    const Snapshot snapshot = observer.look(report);
    std::vector<int> wanted = law(snapshot);
    FleetCycle cycle;
    cycle.time_s = snapshot.time_s;
    const auto& model = snapshot.models.front();
    cycle.arrivals_per_s = model.gateway->arrivals_per_s.value_or(0);
    cycle.waiting = report.waiting;
    for (const auto& variant : report.variants) {
      cycle.ready.push_back(variant.ready);
      cycle.starting.push_back(variant.starting);
    }
    cycle.wanted.assign(wanted.begin(), wanted.end());
    out.cycles.push_back(std::move(cycle));
    return wanted;
  };
  auto totals = simulate::run_elastic(
      spec, scaler, [&](const simulate::RequestRecord& record) { out.requests.push_back(record); });
  if (!totals) return fail(totals.error());
  out.totals = std::move(*totals);
  return out;
}

Result<FleetRun> run_fleet(const SimulatedFleet& fleet, const capacity::CycleConfig& settings,
                           const std::function<void(const CycleRecord&)>& watch) {
  Brain brain(settings.models.fleet().stabilisation);
  brain.configure(settings);
  return run_fleet(fleet, [&](const Snapshot& snapshot) {
    const CycleRecord record = brain.think(snapshot);
    if (watch) watch(record);
    std::vector<int> wanted;
    wanted.reserve(record.result.decisions.size());
    for (const auto& decision : record.result.decisions)
      wanted.push_back(count_of(decision.desired));
    return wanted;
  });
}

}  // namespace tailrace::autoscaler
