// Any replica, load and targets that the checks let through: latencies and sizes that are finite,
// ordered, and found in bounded time; anything else is refused in words.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "input_bytes.h"
#include "tailrace/core/check.h"
#include "tailrace/queueing/sizing.h"

namespace {

using namespace tailrace;
using namespace tailrace::queueing;

ServiceModel any_model(fuzz::InputBytes& in) {
  static constexpr Mode kModes[] = {Mode::kCorrected, Mode::kChain, Mode::kClosedForm};
  ServiceModel m;
  m.mode = in.one_of(kModes);
  m.iterations = in.flag() ? Iterations::kOutput : Iterations::kOutputPlusOne;
  m.iteration.alpha_ms = in.number(8);
  m.iteration.beta_ms = in.number(0.03);
  m.iteration.gamma_ms = in.number(1e-4);
  if (in.flag()) m.iteration.knee_tokens = in.number(300);
  if (in.flag()) m.iteration.per_request_ms = in.number(0.01);
  if (in.flag()) m.limits.max_num_seqs = in.whole(64);
  if (in.flag()) m.limits.max_batched_tokens = in.whole(8'192);
  if (in.flag()) m.limits.kv_tokens = static_cast<std::int64_t>(in.between(1, 1e12));
  if (in.flag()) m.limits.max_queue = in.whole(100);
  return m;
}

Workload any_workload(fuzz::InputBytes& in) {
  auto w = Workload::of(in.number(3), in.number(500), in.number(150), in.flag() ? in.number(1) : 0,
                        in.flag() ? in.number(1) : 0);
  if (in.flag()) w.cross_moment = in.number(w.input_mean * w.output_mean);
  if (in.flag()) w.prefix_hit = in.number(0.5);
  return w;
}

void check_finite(std::initializer_list<std::optional<double>> values) {
  for (const auto& value : values) TAILRACE_CHECK(!value || (std::isfinite(*value) && *value >= 0));
}

void check_ordered(const std::optional<Percentiles>& p) {
  if (!p) return;
  check_finite({p->p50, p->p90, p->p95, p->p99});
  TAILRACE_CHECK(p->p50 <= p->p90 && p->p90 <= p->p95 && p->p95 <= p->p99);
}

void check(const Latency& at) {
  check_finite({at.max_rate_per_s, at.delta_ms, at.rho, at.iteration_ms, at.ttft_ms, at.itl_ms,
                at.e2e_ms, at.wait_ms, at.concurrency, at.throughput_per_s});
  check_ordered(at.ttft_percentiles_ms);
  check_ordered(at.itl_percentiles_ms);
  check_ordered(at.e2e_percentiles_ms);
  if (!at.stable) TAILRACE_CHECK(!at.ttft_ms && !at.itl_ms && !at.e2e_ms);
}

void check(const Sizing& s, const ServiceModel& model, const Workload& workload,
           const Targets& targets) {
  check_finite(
      {s.rate_per_s, s.throughput_per_s, s.ttft_rate_per_s, s.itl_rate_per_s, s.e2e_rate_per_s});
  check(s.achieved);
  TAILRACE_CHECK(!s.reason.empty());
  TAILRACE_CHECK(s.reachable || s.rate_per_s == 0);
  // A looser target takes no less, but for where latencies rise so steeply that the search is done
  // a little below. Percentiles of a law with two modes may step down once.
  for (const auto limit : {SizingLimit::kTtft, SizingLimit::kItl, SizingLimit::kE2e}) {
    if (statistic_of(targets, limit) != Statistic::kMean) return;
  }
  Targets looser = targets;
  looser.ttft_ms *= 2, looser.itl_ms *= 2, looser.e2e_ms *= 2;
  const auto more = size(model, workload, looser);
  if (!more) return;
  TAILRACE_CHECK(!s.reachable || more->reachable);
  TAILRACE_CHECK(more->rate_per_s >= s.rate_per_s * (1 - 1e-3));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  fuzz::InputBytes in(data, size_bytes);
  const auto model = any_model(in);
  const auto workload = any_workload(in);
  const Detail detail = in.flag() ? Detail::kPercentiles : Detail::kMeans;
  if (const auto at = latency(model, workload, detail)) {
    check(*at);
  } else {
    TAILRACE_CHECK(!at.error().message.empty());
  }
  static constexpr Statistic kStatistics[] = {Statistic::kMean, Statistic::kP50, Statistic::kP90,
                                              Statistic::kP95, Statistic::kP99};
  Targets targets;
  targets.statistic = in.one_of(kStatistics);
  if (in.flag()) targets.ttft_ms = in.number(500);
  if (in.flag()) targets.itl_ms = in.number(30);
  if (in.flag()) targets.e2e_ms = in.number(5000);
  if (in.flag()) targets.ttft_statistic = in.one_of(kStatistics);
  if (in.flag()) targets.itl_statistic = in.one_of(kStatistics);
  if (const auto sizing = size(model, workload, targets)) {
    check(*sizing, model, workload, targets);
  } else {
    TAILRACE_CHECK(!sizing.error().message.empty());
  }
  const auto replicas = replicas_for(in.number(10), in.number(2));
  TAILRACE_CHECK(!replicas || (*replicas >= 1 && *replicas <= 1'000'000'000));
  return 0;
}
