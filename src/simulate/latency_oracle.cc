#include "tailrace/simulate/latency_oracle.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tailrace/simulate/replica_run.h"

namespace tailrace::simulate {
namespace {

using queueing::Latency;
using queueing::ServiceModel;
using queueing::Workload;

constexpr std::int64_t kUnlimited = 1'000'000'000'000;
constexpr std::int64_t kBlock = 16;
/// Saturation needs fewer requests than percentiles: what is measured hardly varies.
constexpr std::size_t kSaturationShare = 10;
/// Below so many, standard errors say little.
constexpr std::size_t kFewestRequests = 10'000;

/// Plus the iteration that the published forms count beside the tokens.
LengthTables lengths_for(const ServiceModel& model, const Workload& workload) {
  LengthTables tables = tables_for(workload);
  if (model.mode != queueing::Mode::kCorrected ||
      model.iterations == queueing::Iterations::kOutputPlusOne) {
    for (std::int64_t& tokens : tables.outputs) ++tokens;
  }
  return tables;
}

queueing::Percentiles times(queueing::Percentiles p, double factor) {
  return {p.p50 * factor, p.p90 * factor, p.p95 * factor, p.p99 * factor};
}

/// Requests came a little faster or slower than asked for, which near saturation is most of what
/// the simulation is off by. The formula says what that makes.
struct ByChance {
  double ttft = 1, itl = 1, e2e = 1;

  ByChance(const ServiceModel& model, const Workload& workload, const Latency& formula,
           const Saturation& limit, double came_per_s, double asked_per_s) {
    // At the same shares of the largest rate, about which the two need not agree.
    Workload at = workload;
    const auto ask = [&](double rate) {
      at.rate_per_s = rate * formula.max_rate_per_s / limit.rate_per_s;
      return queueing::latency_unchecked(model, at, queueing::Detail::kMeans);
    };
    const Latency asked = ask(asked_per_s), came = ask(came_per_s);
    const auto ratio = [](const std::optional<double>& a, const std::optional<double>& b) {
      constexpr double kMost = 1.25;
      return a && b && *b > 0 ? std::clamp(*a / *b, 1 / kMost, kMost) : 1.0;
    };
    ttft = ratio(asked.ttft_ms, came.ttft_ms);
    itl = ratio(asked.itl_ms, came.itl_ms);
    e2e = ratio(asked.e2e_ms, came.e2e_ms);
  }
};

class Oracle final : public queueing::LatencyOracle {
 public:
  explicit Oracle(const OracleOptions& options) : options_(options) {}

  Result<Latency> latency(const ServiceModel& model, const Workload& workload) const override {
    if (auto ok = model.check(); !ok) return fail(ok.error());
    if (auto ok = queueing::check(workload); !ok) return fail(ok.error());
    auto engine = engine_of(model);
    if (!engine) return fail(engine.error());
    ReplicaSpec spec;
    spec.engine = *engine;
    spec.lengths = lengths_for(model, workload);
    // A prompt's last token is always computed.
    spec.prefix_hit = workload.prefix_hit;
    spec.seed = options_.seed;
    spec.requests_max = options_.requests_max / kSaturationShare;
    const auto limit = saturate_replica(spec);
    if (!limit) return fail(limit.error());

    const ServiceModel own{.mode = queueing::Mode::kCorrected,
                           .iteration = model.iteration,
                           .limits = model.limits,
                           .iterations = model.iterations,
                           .oracle = nullptr};
    const Latency formula = queueing::latency_unchecked(own, workload, queueing::Detail::kMeans);
    Latency out;
    out.from_oracle = true;
    out.max_rate_per_s = limit->rate_per_s;
    out.binding = formula.binding;
    out.delta_ms = formula.delta_ms;
    out.rho = workload.rate_per_s / limit->rate_per_s;
    out.stable = workload.rate_per_s < limit->rate_per_s;
    if (!out.stable) return out;

    // At no rate at all, a request is alone.
    spec.rate_per_s = std::max(workload.rate_per_s, limit->rate_per_s * 1e-3);
    spec.requests_min = kFewestRequests;
    spec.requests_max = options_.requests_max;
    spec.precision = options_.precision;
    spec.p99_precision = options_.p99_precision;
    const double busy = formula.concurrency.value_or(limit->running * out.rho);
    spec.begin_with = static_cast<std::int64_t>(std::clamp(busy, 0.0, limit->running));
    const auto run = run_replica(spec);
    if (!run) return fail(run.error());
    const ByChance chance(own, workload, formula, *limit, run->rate_per_s, spec.rate_per_s);
    out.iteration_ms = run->iteration_ms * chance.itl;
    out.ttft_ms = run->ttft_ms * chance.ttft;
    // Answers of one token have no gaps; then it is what a token would take.
    out.itl_ms = (run->itl_ms > 0 ? run->itl_ms : run->iteration_ms) * chance.itl;
    out.e2e_ms = run->e2e_ms * chance.e2e;
    out.wait_ms = run->wait_ms * chance.ttft;
    out.concurrency = run->concurrency * chance.e2e;
    out.throughput_per_s = workload.rate_per_s;
    out.ttft_percentiles_ms = times(run->ttft_percentiles_ms, chance.ttft);
    out.itl_percentiles_ms = times(run->itl_percentiles_ms, chance.itl);
    out.e2e_percentiles_ms = times(run->e2e_percentiles_ms, chance.e2e);
    return out;
  }

 private:
  OracleOptions options_;
};

}  // namespace

Result<engine::EngineConfig> engine_of(const ServiceModel& model) {
  engine::EngineConfig config;
  config.cost.alpha_ms = model.iteration.alpha_ms;
  config.cost.beta_ms = model.iteration.beta_ms;
  config.cost.gamma_ms = model.iteration.gamma_ms;
  config.cost.knee_tokens = model.iteration.knee_tokens;
  config.cost.per_request_ms = model.iteration.per_request_ms;
  config.max_num_seqs = model.limits.max_num_seqs;
  const std::int64_t budget = model.limits.max_batched_tokens;
  config.max_batched_tokens = budget > 0 ? budget : kUnlimited;
  config.block_tokens = kBlock;
  const std::int64_t kv = model.limits.kv_tokens;
  config.kv_blocks = kv > 0 ? std::max<std::int64_t>(2, kv / kBlock + 1) : kUnlimited / kBlock;
  config.max_model_len = kUnlimited;
  if (auto ok = config.check(); !ok) return fail(ok.error());
  return config;
}

std::shared_ptr<const queueing::LatencyOracle> make_latency_oracle(const OracleOptions& options) {
  return std::make_shared<Oracle>(options);
}

queueing::ServiceModel service_model_of(const engine::EngineConfig& engine) {
  queueing::ServiceModel model;
  model.iteration = {.alpha_ms = engine.cost.alpha_ms,
                     .beta_ms = engine.cost.beta_ms,
                     .gamma_ms = engine.cost.gamma_ms,
                     .knee_tokens = engine.cost.knee_tokens,
                     .per_request_ms = engine.cost.per_request_ms};
  model.limits.max_num_seqs = engine.max_num_seqs;
  model.limits.max_batched_tokens = engine.max_batched_tokens;
  model.limits.kv_tokens = engine.usable_blocks() * engine.block_tokens;
  return model;
}

}  // namespace tailrace::simulate
