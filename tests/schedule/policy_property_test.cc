// What holds of every policy, whatever the jobs.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "tailrace/schedule/policy.h"
#include "tailrace/schedule/starvation.h"

namespace tailrace::schedule {
namespace {

using std::chrono::milliseconds;

double between(double low, double high) {
  return low + (high - low) * *rc::gen::inRange(0, 1'000'001) * 1e-6;
}

length::LengthLaw simple_law() {
  using length::LengthLaw;
  switch (*rc::gen::inRange(0, 7)) {
    case 0:
      return LengthLaw::log_t(between(-20, 20), std::exp(between(-7, 3)), between(0.3, 30)).value();
    case 1:
      return LengthLaw::log_normal(between(-20, 20), std::exp(between(-7, 3))).value();
    case 2:
      return LengthLaw::gamma(std::exp(between(-2, 5)), std::exp(between(-3, 8))).value();
    case 3:
      return LengthLaw::weibull(std::exp(between(-1, 2)), std::exp(between(-3, 8))).value();
    case 4:
      return LengthLaw::lomax(std::exp(between(-1, 2)), std::exp(between(-3, 8))).value();
    case 5: {
      const std::vector<double> edges = {1, 5, 70, 900, 5000};
      std::vector<double> masses;
      for (int i = 0; i < 6; ++i) masses.push_back(*rc::gen::element(0.0, 0.1, 1.0, 5.0));
      masses[*rc::gen::inRange<std::size_t>(0, 6)] += 1;
      return LengthLaw::binned(edges, masses).value();
    }
    default:
      return LengthLaw::log_t(between(1, 9), between(0.03, 2.5)).value();
  }
}

length::LengthLaw any_law() {
  if (*rc::gen::inRange(0, 5) > 0) return simple_law();
  return length::LengthLaw::mixture(between(0.01, 0.99), simple_law(), simple_law()).value();
}

Job any_job() {
  Job job;
  job.id = JobId{*rc::gen::inRange<std::uint64_t>(0, 1000)};
  job.arrival = MonoTime{milliseconds(*rc::gen::inRange(0, 100'000'000))};
  job.prompt_tokens = Tokens{*rc::gen::inRange<std::int64_t>(0, 100'000)};
  job.cap = Tokens{*rc::gen::element<std::int64_t>(1, 2, 17, 256, 2048, 32'768, 1 << 30)};
  job.attained = Tokens{*rc::gen::element<std::int64_t>(0, 0, 1, 16, 50, 333, 2047, 1 << 20)};
  job.weight = *rc::gen::element(0.25, 1.0, 10.0);
  if (*rc::gen::arbitrary<bool>()) job.deadline = job.arrival + milliseconds(1500);
  if (*rc::gen::inRange(0, 6) > 0) job.law = any_law();
  return job;
}

PolicyOptions any_options() {
  PolicyOptions options;
  options.gittins_quantum = Tokens{*rc::gen::element<std::int64_t>(1, 16, 32)};
  options.gittins_context_weight = *rc::gen::element(0.0, 1e-3);
  options.gittins_length_exponent = *rc::gen::element(0.0, 0.7);
  options.gittins_prefill_weight = 0;  // a waiting job owes its prefill, a running one does not
  options.gittins_decay = *rc::gen::element(1.0, 0.9);
  options.uncapped_mean = *rc::gen::arbitrary<bool>();
  options.ltr_preemptive = *rc::gen::arbitrary<bool>();
  return options;
}

std::vector<std::string_view> all_names() {
  std::vector<std::string_view> names = policy_names();
  for (const auto name : batch_policy_names()) names.push_back(name);
  return names;
}

RC_GTEST_PROP(PolicyProperty, EveryKeyIsANumber, ()) {
  const PolicyOptions options = any_options();
  const Job job = any_job();
  for (const auto name : all_names()) {
    // E[1/L] of an untabulated law at a large cap takes long.
    if (name == "ratio" && job.cap > Tokens{32'768}) continue;
    const auto policy = make_policy(name, options).value();
    policy->set_load(*rc::gen::inRange<std::size_t>(0, 1000), 32);
    const double key = policy->key_of(job);
    RC_LOG() << name << " of " << (job.law ? job.law->describe() : "no law") << ", cap "
             << job.cap.count() << ", attained " << job.attained.count() << ": " << key << '\n';
    RC_ASSERT(std::isfinite(key));
    const auto age_key = policy->age_key(job);
    if (!age_key) continue;
    for (const std::int64_t age : {0, 1, 49, 50, 1000, 100'000}) {
      RC_ASSERT(std::isfinite(age_key->at(Tokens{age})));
    }
    // The grid of ranks at age 0 is coarser than a table.
    const double allowed = job.attained == Tokens{0} && name == "gittins" ? 0.03 : 1e-9;
    RC_ASSERT(std::abs(age_key->at(job.attained) - key) <= allowed);
  }
}

RC_GTEST_PROP(PolicyProperty, OrderDoesNotDependOnWhenTheClockWasStarted, ()) {
  PolicyOptions options = any_options();
  Job a = any_job();
  Job b = any_job();
  const auto later = milliseconds(*rc::gen::inRange(1, 10'000'000));
  for (const auto name : all_names()) {
    if (name == "ratio") continue;
    const auto policy = make_policy(name, options).value();
    const auto difference = [&] { return policy->key_of(a) - policy->key_of(b); };
    const double before = difference();
    for (Job* job : {&a, &b}) {
      job->arrival += later;
      if (job->deadline) *job->deadline += later;
    }
    const double after = difference();
    const bool dated = name == "edf" && a.deadline.has_value() != b.deadline.has_value();
    if (!dated) RC_ASSERT(std::abs(after - before) <= 1e-6 + 1e-9 * std::abs(before));
    for (Job* job : {&a, &b}) {
      job->arrival -= later;
      if (job->deadline) *job->deadline -= later;
    }
  }
}

RC_GTEST_PROP(PolicyProperty, WhatIsLeftLiesBetweenOneTokenAndTheCap, ()) {
  Job job = any_job();
  job.cap = Tokens{*rc::gen::element<std::int64_t>(64, 2048, 32'768)};
  job.attained = Tokens{*rc::gen::inRange<std::int64_t>(0, job.cap.count())};
  PolicyOptions options;
  options.gittins_quantum = Tokens{1};
  options.gittins_length_exponent = 0;
  options.gittins_decay = 1;
  const auto left = [&](std::string_view name) {
    return std::exp(make_policy(name, options).value()->age_key(job)->at(job.attained));
  };
  const auto at_most = static_cast<double>((job.cap - job.attained).count());
  const double rank = left("gittins");
  RC_ASSERT(rank >= 1 - 1e-3 && rank <= at_most * (1 + 1e-9));
  options.trail_preemptible = 1e18;
  const double mean = left("trail");
  RC_ASSERT(mean >= 1 - 1e-9 && mean <= at_most * (1 + 1e-9));
  // Serving to the end is one of the services that a rank chooses among.
  RC_ASSERT(rank <= mean * (1 + 1e-3));
}

RC_GTEST_PROP(PolicyProperty, AttainingMoreNeverHelpsUnderLasAndMlfq, ()) {
  Job job = any_job();
  PolicyOptions options;
  options.mlfq_quantum = Tokens{*rc::gen::inRange<std::int64_t>(1, 200)};
  options.mlfq_growth = between(1.1, 4);
  for (const auto name : {"las", "mlfq"}) {
    const auto policy = make_policy(name, options).value();
    const double key = policy->key_of(job);
    Job older = job;
    older.attained += Tokens{*rc::gen::inRange<std::int64_t>(0, 5000)};
    RC_ASSERT(policy->key_of(older) >= key);
  }
}

RC_GTEST_PROP(PolicyProperty, WeightsOrderByTheirRatiosAlone, ()) {
  const auto wspt = make_policy("wspt").value();
  Job a = any_job();
  Job b = any_job();
  const double before = wspt->key_of(a) / wspt->key_of(b);
  a.weight *= 7;
  b.weight *= 7;
  RC_ASSERT(std::abs(wspt->key_of(a) / wspt->key_of(b) / before - 1) <= 1e-9);
}

/// Counts every idle iteration of every job.
class PlainCounter {
 public:
  explicit PlainCounter(const StarvationRule& rule) : rule_(rule) {}

  struct State {
    enum { kAbsent, kWaiting, kRunning } where = kAbsent;
    bool promoted = false;
    std::int64_t idle = 0;
    std::int64_t left = 0;
  };
  State& operator[](std::size_t job) { return states_[job]; }

  /// One iteration has passed.
  void step() {
    for (State& s : states_) {
      if (s.where == State::kWaiting && !s.promoted && ++s.idle == rule_.idle_iterations) {
        s = {State::kWaiting, true, 0, rule_.run_iterations};
      } else if (s.where == State::kRunning && s.promoted && --s.left == 0) {
        s.promoted = false;
      }
    }
  }

 private:
  StarvationRule rule_;
  std::array<State, 6> states_;
};

RC_GTEST_PROP(IdleCounterProperty, AgreesWithCountingEachIterationOfEachJob, ()) {
  const StarvationRule rule{*rc::gen::inRange<std::int64_t>(1, 12),
                            *rc::gen::inRange<std::int64_t>(1, 6)};
  IdleCounter counter(rule);
  PlainCounter plain(rule);
  const auto iterations = *rc::gen::inRange<std::int64_t>(0, 120);
  for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
    (void)counter.advance(iteration);
    const auto job = *rc::gen::inRange<std::size_t>(0, 6);
    const JobId id{job};
    PlainCounter::State& state = plain[job];
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
        counter.waits(id, iteration);
        state.where = PlainCounter::State::kWaiting;
        break;
      case 1:
        counter.runs(id, iteration);
        state.where = PlainCounter::State::kRunning;
        break;
      case 2:
        counter.ended(id);
        state = {};
        break;
      default:
        break;
    }
    for (std::size_t i = 0; i < 6; ++i) {
      RC_ASSERT(counter.promoted(JobId{i}) == plain[i].promoted);
    }
    plain.step();
  }
}

}  // namespace
}  // namespace tailrace::schedule
