// Whatever is asked: are the corrected mode's answers finite, ordered and monotone in the rate?
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tailrace/queueing/service_model.h"

namespace tailrace::queueing {
namespace {

/// Logarithmically uniform.
rc::Gen<double> between(double low, double high) {
  return rc::gen::map(rc::gen::inRange(0, 1'000'001),
                      [low, high](int at) { return low * std::pow(high / low, at * 1e-6); });
}

rc::Gen<double> maybe_zero(const rc::Gen<double>& gen) {
  return rc::gen::weightedOneOf<double>({{1, rc::gen::just(0.0)}, {3, gen}});
}

std::int64_t whole(double value) {
  return static_cast<std::int64_t>(value);
}

/// All that check() lets through.
ServiceModel any_model() {
  ServiceModel m;
  m.iteration = {.alpha_ms = *maybe_zero(between(1e-6, 1e9)),
                 .beta_ms = *maybe_zero(between(1e-9, 1e9)),
                 .gamma_ms = *maybe_zero(between(1e-12, 1e9)),
                 .knee_tokens = *maybe_zero(between(1e-3, 1e9)),
                 .per_request_ms = *maybe_zero(between(1e-6, 1e9))};
  m.limits = {.max_num_seqs = whole(*between(1, 1e6)),
              .max_batched_tokens = whole(*maybe_zero(between(1, 1e9))),
              .kv_tokens = whole(*maybe_zero(between(1, 1e12)))};
  m.iterations = *rc::gen::element(Iterations::kOutput, Iterations::kOutputPlusOne);
  return m;
}

Workload any_workload() {
  const double cv = 0.9 * *rc::gen::inRange(0, 101) / 100;
  Workload w = Workload::of(0, *maybe_zero(between(1e-3, 1e9)), *between(1, 1e9), cv,
                            0.9 * *rc::gen::inRange(0, 101) / 100);
  keep_possible_moments(w);
  if (*rc::gen::arbitrary<bool>()) w.cross_moment = *between(1e-9, 1e18);
  w.prefix_hit = *rc::gen::element(0.0, 0.3, 1.0);
  return w;
}

ServiceModel engine_like() {
  ServiceModel m;
  m.iteration = {.alpha_ms = *between(1, 50),
                 .beta_ms = *between(0.005, 0.2),
                 .gamma_ms = *between(1e-5, 1e-3),
                 .knee_tokens = *maybe_zero(between(50, 400))};
  m.limits = {.max_num_seqs = whole(*between(16, 2000)),
              .max_batched_tokens = whole(*maybe_zero(between(512, 16384))),
              .kv_tokens = whole(*maybe_zero(between(1e5, 1e6)))};
  return m;
}

Workload served_like() {
  return Workload::of(0, *between(16, 8192), *between(16, 2000), *rc::gen::element(0.0, 0.5, 1.0),
                      *rc::gen::element(0.0, 0.6, 1.2, 1.8));
}

constexpr std::array kShares = {0.0, 1e-6, 0.1, 0.4, 0.6, 0.75, 0.85, 0.9, 0.97, 0.9999, 1.0, 2.0};

void expect_number(double value) {
  RC_ASSERT(std::isfinite(value));
  RC_ASSERT(value >= 0);
}

void expect_ordered(const std::optional<Percentiles>& p) {
  if (!p) return;
  for (const double value : {p->p50, p->p90, p->p95, p->p99}) expect_number(value);
  RC_ASSERT(p->p50 <= p->p90 && p->p90 <= p->p95 && p->p95 <= p->p99);
}

RC_GTEST_PROP(Corrected, SaysFiniteNumbersToAnyQuestion, ()) {
  const ServiceModel m = any_model();
  Workload w = any_workload();
  RC_PRE(m.check().has_value() && check(w).has_value());
  const Latency idle = latency_unchecked(m, w, Detail::kMeans);
  const double most = idle.max_rate_per_s;
  expect_number(most);
  if (most == 0) {
    RC_ASSERT(!idle.stable && idle.binding == Binding::kKvTokens);
    return;
  }
  for (const double share : kShares) {
    w.rate_per_s = std::min(1e9, share * most);
    const Latency out = latency_unchecked(m, w, Detail::kPercentiles);
    RC_ASSERT(out.stable == (w.rate_per_s * 1e-3 / (most * 1e-3) < 1));
    expect_number(out.delta_ms);
    expect_number(out.rho);
    if (!out.stable) continue;
    for (const auto& value : {out.iteration_ms, out.ttft_ms, out.itl_ms, out.e2e_ms, out.wait_ms,
                              out.concurrency, out.throughput_per_s}) {
      RC_ASSERT(value.has_value());
      expect_number(*value);
    }
    expect_ordered(out.ttft_percentiles_ms);
    expect_ordered(out.itl_percentiles_ms);
    expect_ordered(out.e2e_percentiles_ms);
  }
}

RC_GTEST_PROP(Corrected, GrowsWithTheRate, ()) {
  const ServiceModel m = engine_like();
  Workload w = served_like();
  const double most = latency_unchecked(m, w, Detail::kMeans).max_rate_per_s;
  Latency before;
  before.ttft_ms = before.itl_ms = before.e2e_ms = 0;
  for (double share = 0; share <= 0.9; share += 0.03) {
    w.rate_per_s = share * most;
    const Latency out = latency_unchecked(m, w, Detail::kMeans);
    RC_ASSERT(out.stable);
    RC_ASSERT(*out.ttft_ms >= *before.ttft_ms * (1 - 1e-6));
    RC_ASSERT(*out.itl_ms >= *before.itl_ms * (1 - 1e-6));
    RC_ASSERT(*out.e2e_ms >= *before.e2e_ms * (1 - 1e-6));
    before = out;
  }
}

// Sums over few values do not grow in every digit; how far they fall back must stay below what
// anybody sizes by.
RC_GTEST_PROP(Corrected, HighPercentilesOfTheTimeInTheSystemGrowWithTheRate, ()) {
  const ServiceModel m = engine_like();
  Workload w = served_like();
  const double most = latency_unchecked(m, w, Detail::kMeans).max_rate_per_s;
  Percentiles highest;
  constexpr double kTolerance = 1e-3;
  for (double share = 0; share <= 0.9; share += 0.03) {
    w.rate_per_s = share * most;
    const Latency out = latency_unchecked(m, w, Detail::kPercentiles);
    RC_ASSERT(out.e2e_percentiles_ms.has_value());
    for (double Percentiles::* p : {&Percentiles::p90, &Percentiles::p95, &Percentiles::p99}) {
      const double value = (*out.e2e_percentiles_ms).*p;
      RC_ASSERT(value >= highest.*p * (1 - kTolerance));
      highest.*p = std::max(highest.*p, value);
    }
  }
}

RC_GTEST_PROP(Corrected, IsContinuousInItsParameters, ()) {
  const ServiceModel m = engine_like();
  Workload w = served_like();
  w.rate_per_s = 0.6 * latency_unchecked(m, w, Detail::kMeans).max_rate_per_s;
  const Latency here = latency_unchecked(m, w, Detail::kMeans);
  constexpr double kStep = 1e-6;
  for (double IterationModel::* field :
       {&IterationModel::alpha_ms, &IterationModel::beta_ms, &IterationModel::gamma_ms}) {
    ServiceModel near = m;
    near.iteration.*field *= 1 + kStep;
    const Latency there = latency_unchecked(near, w, Detail::kMeans);
    RC_ASSERT(std::abs(*there.ttft_ms / *here.ttft_ms - 1) < 100 * kStep);
    RC_ASSERT(std::abs(*there.itl_ms / *here.itl_ms - 1) < 100 * kStep);
  }
}

RC_GTEST_PROP(Corrected, MeansDoNotDependOnTheDetail, ()) {
  const ServiceModel m = engine_like();
  Workload w = served_like();
  w.rate_per_s = 0.7 * latency_unchecked(m, w, Detail::kMeans).max_rate_per_s;
  const Latency means = latency_unchecked(m, w, Detail::kMeans);
  const Latency both = latency_unchecked(m, w, Detail::kPercentiles);
  RC_ASSERT(*means.ttft_ms == *both.ttft_ms);
  RC_ASSERT(*means.itl_ms == *both.itl_ms);
  RC_ASSERT(!means.ttft_percentiles_ms.has_value());
}

// With a knee it may: an engine that is fast below it is slower per token in a full batch.
RC_GTEST_PROP(Corrected, AMoreGenerousLimitNeverLowersTheRateOfALinearEngine, ()) {
  ServiceModel m = engine_like();
  m.iteration.knee_tokens = 0;
  const Workload w = served_like();
  const double most = latency_unchecked(m, w, Detail::kMeans).max_rate_per_s;
  ServiceModel wider = m;
  wider.limits.max_num_seqs *= 2;
  wider.limits.max_batched_tokens *= 2;
  wider.limits.kv_tokens *= 2;
  RC_ASSERT(latency_unchecked(wider, w, Detail::kMeans).max_rate_per_s >= most * (1 - 1e-9));
}

}  // namespace
}  // namespace tailrace::queueing
