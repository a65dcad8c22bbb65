#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tailrace/tune/estimator.h"

namespace tailrace::tune {
namespace {

/// A number as a broken exporter may send it, or none.
rc::Gen<std::optional<double>> anything() {
  return rc::gen::weightedOneOf<std::optional<double>>(
      {{1, rc::gen::just(std::optional<double>())},
       {2, rc::gen::element<std::optional<double>>(0.0, -0.0, -1.0, 1e300, -1e300, 5e-324, 1e-300,
                                                   HUGE_VAL, -HUGE_VAL, std::nan(""), 1.0, 1e9)},
       {3, rc::gen::map(rc::gen::inRange(-3000, 3000),
                        [](int e) { return std::optional<double>(std::pow(10.0, e / 300.0)); })}});
}

rc::Gen<Observation> any_observation() {
  return rc::gen::exec([] {
    Observation o;
    o.pod = std::string(1, static_cast<char>('a' + *rc::gen::inRange(0, 4)));
    o.time_s = (*anything()).value_or(0);
    for (auto field :
         {&Observation::rate_per_s, &Observation::input_tokens, &Observation::output_tokens,
          &Observation::ttft_ms, &Observation::itl_ms, &Observation::running,
          &Observation::itl_per_sequence_ms, &Observation::itl_per_sequence_error,
          &Observation::requests, &Observation::output_cv, &Observation::input_cv,
          &Observation::prefix_hit, &Observation::waiting}) {
      o.*field = *anything();
    }
    return o;
  });
}

/// What an engine might report, right or wrong.
rc::Gen<Observation> plausible_observation() {
  return rc::gen::exec([] {
    const auto between = [](double low, double high) {
      return low * std::pow(high / low, *rc::gen::inRange(0, 1001) / 1000.0);
    };
    Observation o;
    o.pod = std::string(1, static_cast<char>('a' + *rc::gen::inRange(0, 4)));
    o.time_s = *rc::gen::inRange(0, 100'000);
    o.rate_per_s = between(0.01, 100);
    o.input_tokens = between(1, 100'000);
    o.output_tokens = between(1, 10'000);
    o.ttft_ms = between(0.1, 1e6);
    o.itl_ms = between(0.1, 1e4);
    if (*rc::gen::arbitrary<bool>()) o.running = between(0.01, 1000);
    if (*rc::gen::arbitrary<bool>()) o.itl_per_sequence_ms = between(1e-6, 100);
    if (*rc::gen::arbitrary<bool>()) o.itl_per_sequence_error = between(1e-6, 1);
    if (*rc::gen::arbitrary<bool>()) o.requests = between(1, 10'000);
    if (*rc::gen::arbitrary<bool>()) o.output_cv = between(0.01, 5);
    return o;
  });
}

std::vector<std::vector<Observation>> any_cycles(const rc::Gen<Observation>& one) {
  const auto cycle = rc::gen::resize(6, rc::gen::container<std::vector<Observation>>(one));
  return *rc::gen::resize(12, rc::gen::container<std::vector<std::vector<Observation>>>(cycle));
}

void expect_sane(const ParameterEstimate& e) {
  if (e.values) {
    for (const double value : {e.values->alpha_ms, e.values->beta_ms, e.values->gamma_ms}) {
      RC_ASSERT(std::isfinite(value));
      RC_ASSERT(value > 0);
    }
    RC_ASSERT(e.covariance.has_value());
    for (const double cell : *e.covariance) RC_ASSERT(std::isfinite(cell));
    for (const std::size_t variance : {0, 4, 8}) RC_ASSERT((*e.covariance)[variance] > 0);
    RC_ASSERT(std::isfinite(*e.condition));
    RC_ASSERT(*e.condition >= 1);
  }
  for (const auto& rate : {e.rate_per_s, e.rate_low_per_s, e.rate_high_per_s, e.nis}) {
    if (rate) RC_ASSERT(std::isfinite(*rate));
  }
  if (e.rate_per_s) {
    RC_ASSERT(*e.rate_low_per_s <= *e.rate_per_s);
    RC_ASSERT(*e.rate_per_s <= *e.rate_high_per_s);
  }
  RC_ASSERT(e.accepted <= e.values.has_value());
  RC_ASSERT(!e.reason.empty());
}

std::unique_ptr<Estimator> some_estimator() {
  TuneConfig config;
  config.limits.max_num_seqs = *rc::gen::element(1, 64, 256, 1'000'000);
  config.limits.kv_tokens = *rc::gen::element(0, 1000, 400'000);
  config.knee_tokens = *rc::gen::element(0.0, 200.0, 1e6);
  config.ttft_ms = *rc::gen::element(0.0, 1e-3, 200.0, 1e12);
  config.itl_ms = *rc::gen::element(0.0, 20.0);
  config.iterations =
      *rc::gen::element(queueing::Iterations::kOutput, queueing::Iterations::kOutputPlusOne);
  return make_estimator(config).value();
}

RC_GTEST_PROP(WindowedProperty, NoNumbersMakeItSayNonsense, ()) {
  const auto estimator = some_estimator();
  for (const auto& cycle : any_cycles(any_observation())) expect_sane(estimator->update(cycle));
}

RC_GTEST_PROP(WindowedProperty, ContradictingReportsKeepItSaneAndSmall, ()) {
  const auto estimator = some_estimator();
  for (const auto& cycle : any_cycles(plausible_observation())) {
    expect_sane(estimator->update(cycle));
  }
  RC_ASSERT(estimator->save().size() < 64 * 1024U);
}

RC_GTEST_PROP(WindowedProperty, SavesWhatItCanRestore, ()) {
  const auto one = some_estimator();
  const auto cycles = any_cycles(plausible_observation());
  for (const auto& cycle : cycles) one->update(cycle);
  const std::string saved = one->save();
  const auto other = make_estimator(TuneConfig{}).value();
  RC_ASSERT(other->restore(saved).has_value());
  RC_ASSERT(other->save() == saved);
  RC_ASSERT(other->current().values == one->current().values);
}

RC_GTEST_PROP(WindowedProperty, TheOrderInACycleDecidesNothing, ()) {
  const auto cycles = any_cycles(plausible_observation());
  const auto one = make_estimator(TuneConfig{}).value(),
             other = make_estimator(TuneConfig{}).value();
  for (auto cycle : cycles) {
    one->update(cycle);
    std::reverse(cycle.begin(), cycle.end());
    other->update(cycle);
  }
  RC_ASSERT(one->save() == other->save());
}

}  // namespace
}  // namespace tailrace::tune
