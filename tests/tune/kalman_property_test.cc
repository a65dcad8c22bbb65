// What must hold for the published filter whatever its pods report.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "tailrace/tune/estimator.h"
#include "tailrace/tune/kalman.h"
#include "tune/estimators.h"
#include "tune/support/chain_server.h"

namespace tailrace::tune {
namespace {

using testing::ChainServer;

std::optional<double> any_number() {
  const double limits[] = {0,
                           -0.0,
                           -1,
                           1,
                           1e-9,
                           1e9,
                           5e-324,
                           1e308,
                           std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()};
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      return std::nullopt;
    case 1:
      return limits[*rc::gen::inRange<std::size_t>(0, std::size(limits))];
    default:
      return std::pow(10.0, *rc::gen::inRange(-30, 31) / 5.0);
  }
}

/// Mostly what a replica reports, now and then anything at all.
Observation any_observation(const ChainServer& server) {
  auto o = server.at(*rc::gen::inRange(1, 120) / 100.0, 0);
  for (const auto member :
       {&Observation::rate_per_s, &Observation::input_tokens, &Observation::output_tokens,
        &Observation::ttft_ms, &Observation::itl_ms, &Observation::output_cv,
        &Observation::input_cv, &Observation::prefix_hit, &Observation::running}) {
    if (*rc::gen::inRange(0, 20) == 0) o.*member = any_number();
  }
  return o;
}

std::vector<Observation> any_cycle(const ChainServer& server) {
  std::vector<Observation> cycle;
  const int pods = *rc::gen::inRange(0, 4);
  for (int pod = 0; pod < pods; ++pod) cycle.push_back(any_observation(server));
  return cycle;
}

TuneConfig any_config(const ChainServer& server) {
  TuneConfig config;
  config.estimator = EstimatorKind::kKalman;
  config.observation_mode = *rc::gen::element(queueing::Mode::kClosedForm, queueing::Mode::kChain,
                                              queueing::Mode::kCorrected);
  config.limits = server.limits();
  config.limits.max_num_seqs = *rc::gen::element<std::int64_t>(1, 8, 64);
  if (*rc::gen::arbitrary<bool>()) config.ttft_ms = *rc::gen::inRange(0, 500);
  if (*rc::gen::arbitrary<bool>()) config.itl_ms = *rc::gen::inRange(0, 50);
  return config;
}

queueing::IterationModel bounded(queueing::IterationModel m) {
  const auto x = KalmanBounds::defaults().clamp({m.alpha_ms, m.beta_ms, m.gamma_ms});
  m.alpha_ms = x[0];
  m.beta_ms = x[1];
  m.gamma_ms = x[2];
  return m;
}

void check_finite(const ParameterEstimate& e) {
  RC_ASSERT(!e.reason.empty());
  RC_ASSERT(!e.accepted || e.values.has_value());
  RC_ASSERT(!e.identified || e.values.has_value());
  for (const auto& value :
       {e.condition, e.nis, e.rate_per_s, e.rate_low_per_s, e.rate_high_per_s}) {
    RC_ASSERT(!value || std::isfinite(*value));
  }
  if (e.rate_low_per_s) {
    RC_ASSERT(e.rate_high_per_s && e.rate_per_s);
    RC_ASSERT(*e.rate_low_per_s <= *e.rate_per_s && *e.rate_per_s <= *e.rate_high_per_s);
  }
  if (!e.values) return;
  for (const double value : {e.values->alpha_ms, e.values->beta_ms, e.values->gamma_ms}) {
    RC_ASSERT(std::isfinite(value) && value > 0);
  }
  for (const double value : *e.covariance) RC_ASSERT(std::isfinite(value));
}

RC_GTEST_PROP(KalmanProperty, EverythingReportedIsFiniteWhateverPodsSay, ()) {
  const auto server = ChainServer::granite();
  const auto estimator = make_kalman(any_config(server));
  for (int cycle = 0; cycle < 8; ++cycle) check_finite(estimator->update(any_cycle(server)));
}

RC_GTEST_PROP(KalmanProperty, OnlyAnAcceptedCycleMovesTheParameters, ()) {
  const auto server = ChainServer::granite();
  const auto estimator = make_kalman(any_config(server));
  for (int cycle = 0; cycle < 8; ++cycle) {
    const auto before = estimator->current();
    const auto after = estimator->update(any_cycle(server));
    if (before.values && !after.accepted) {
      // Bounds hold from the second cycle on, so a guess beyond them may be drawn to them.
      RC_ASSERT(*after.values == *before.values || *after.values == bounded(*before.values));
      RC_ASSERT(*after.covariance == *before.covariance);
    }
  }
}

RC_GTEST_PROP(KalmanProperty, ASavedStateIsRestoredToTheSameBytesAndGoesOnAlike, ()) {
  const auto server = ChainServer::granite();
  const auto config = any_config(server);
  const auto saved = make_kalman(config);
  for (int cycle = 0; cycle < 4; ++cycle) saved->update(any_cycle(server));
  const auto restored = make_kalman(config);
  const auto done = restored->restore(saved->save());
  RC_ASSERT(done.has_value());
  RC_ASSERT(restored->save() == saved->save());
  for (int cycle = 0; cycle < 4; ++cycle) {
    const auto next = any_cycle(server);
    const auto a = saved->update(next), b = restored->update(next);
    RC_ASSERT(a.values == b.values);
    RC_ASSERT(a.reason == b.reason);
    RC_ASSERT(a.rate_high_per_s == b.rate_high_per_s);
  }
}

RC_GTEST_PROP(KalmanProperty, ADamagedDocumentNeverChangesAnything, ()) {
  const auto server = ChainServer::granite();
  const auto estimator = make_kalman(any_config(server));
  for (int cycle = 0; cycle < 4; ++cycle)
    estimator->update({{server.at(0.1 + 0.1 * cycle, cycle)}});
  const std::string good = estimator->save();
  std::string bad = good;
  const int edits = *rc::gen::inRange(1, 4);
  for (int edit = 0; edit < edits; ++edit) {
    bad[*rc::gen::inRange<std::size_t>(0, bad.size())] = *rc::gen::arbitrary<char>();
  }
  if (!estimator->restore(bad)) RC_ASSERT(estimator->save() == good);
  check_finite(estimator->current());
  check_finite(estimator->update({{server.at(0.3, 9)}}));
}

}  // namespace
}  // namespace tailrace::tune
