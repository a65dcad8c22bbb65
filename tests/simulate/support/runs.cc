#include "runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tailrace/length/sample.h"

namespace tailrace::simulate::testing {
namespace {

template <class T>
T pick(Rng& rng, std::initializer_list<T> values) {
  return values.begin()[rng.below(values.size())];
}

engine::EngineConfig varied_engine(Rng& rng) {
  engine::EngineConfig config;
  config.max_num_seqs = pick<std::int64_t>(rng, {1, 2, 4, 16, 64});
  config.max_batched_tokens = pick<std::int64_t>(rng, {64, 256, 2048});
  config.kv_blocks = pick<std::int64_t>(rng, {60, 120, 400, 5'000});
  config.chunked_prefill = true;
  config.prefix_caching = rng.below(2) == 0;
  config.reserve_full_sequence = rng.below(2) == 0;
  config.watermark_blocks = pick<std::int64_t>(rng, {0, 2});
  config.long_prefill_tokens = pick<std::int64_t>(rng, {0, 32});
  return config;
}

void vary_fleet(Rng& rng, FleetSpec& fleet) {
  fleet.engine = varied_engine(rng);
  fleet.engines = static_cast<int>(1 + rng.below(4));
  fleet.line =
      pick(rng, {FleetSpec::Line::kFcfs, FleetSpec::Line::kPriority, FleetSpec::Line::kPolicy});
  fleet.scheduler.policy = pick<const char*>(rng, {"fcfs", "tie", "mean", "median", "ratio"});
}

void vary_front(Rng& rng, int engines, FrontSpec& front) {
  front.queue = rng.below(2) == 0;
  front.choice = pick(rng, {FrontSpec::Choice::kRoundRobin, FrontSpec::Choice::kLeastOutstanding,
                            FrontSpec::Choice::kLeastPredictedWork,
                            FrontSpec::Choice::kPrefixAffinity, FrontSpec::Choice::kLeastReported});
  front.dispatch.policy = pick<const char*>(rng, {"fcfs", "tie", "mean"});
  front.dispatch.choice =
      pick<const char*>(rng, {"least-outstanding", "round-robin", "least-work", "prefix"});
  front.dispatch.queued_jobs_max = pick<std::size_t>(rng, {5, 50, 10'000});
  front.dispatch.waiting_bound = std::nullopt;
  if (rng.below(2) == 0) front.dispatch.waiting_bound = from_seconds(1);
  front.slots_per_engine = pick(rng, {0, 1, 8});
  if (!front.queue && front.choice == FrontSpec::Choice::kLeastReported) {
    front.staleness = from_seconds(pick(rng, {0.0, 0.05, 1.0}));
    front.corrected_reports = rng.below(2) == 0;
    front.frozen_engine = static_cast<int>(rng.below(static_cast<std::uint64_t>(engines) + 1)) - 1;
  }
}

std::vector<Request> varied_requests(Rng& rng) {
  std::vector<Request> requests;
  const std::uint64_t count = 1 + rng.below(120);
  const double rate = pick(rng, {5.0, 40.0, 1'000.0});
  double now = 0;
  for (std::uint64_t id = 0; id < count; ++id) {
    if (rng.below(4) != 0) now += rng.exponential() / rate;  // some arrive together
    Request r;
    r.id = id;
    r.arrival = MonoTime{from_seconds(now)};
    r.prompt = Tokens(static_cast<std::int64_t>(1 + rng.below(400)));
    // One after the other: compilers differ in which argument they evaluate first.
    const double sigma = 0.3 + rng.uniform();
    const double mu = 2 + 2 * rng.uniform();
    r.truth = length::LengthLaw::log_t(mu, sigma).value();
    r.cap = Tokens(static_cast<std::int64_t>(1 + rng.below(300)));
    const double length =
        std::min(std::ceil(length::sample(*r.truth, rng)), static_cast<double>(r.cap.count()));
    r.output = Tokens(std::max<std::int64_t>(1, static_cast<std::int64_t>(length)));
    r.tenant = pick<const char*>(rng, {"", "a", "a tenant whose name is long"});
    r.priority = pick(rng, {0, 0, 0, 1, -1});
    r.session = rng.below(3) == 0 ? 1 + rng.below(5) : 0;
    if (rng.below(2) == 0) {
      const std::uint64_t family = rng.below(3);
      r.prefix.tokens_per_id = 32;
      for (std::int64_t at = 0; at < r.prompt.count(); at += 32) {
        r.prefix.ids.push_back(family * 1'000 + static_cast<std::uint64_t>(at / 32));
      }
    }
    requests.push_back(std::move(r));
  }
  return requests;
}

std::string text(const std::optional<MonoTime>& time) {
  return time ? fmt::format("{}", time->time_since_epoch().count()) : "-";
}

}  // namespace

Request request(std::uint64_t id, double arrival_s, std::int64_t prompt, std::int64_t output) {
  Request r;
  r.id = id;
  r.arrival = MonoTime{from_seconds(arrival_s)};
  r.prompt = Tokens(prompt);
  r.output = Tokens(output);
  r.cap = Tokens(std::max<std::int64_t>(2048, output));
  return r;
}

VariedRun varied_run(std::uint64_t seed) {
  Rng rng = Rng(seed).fork("varied run");
  VariedRun run;
  run.spec.seed = seed;
  vary_fleet(rng, run.spec.fleet);
  vary_front(rng, run.spec.fleet.engines, run.spec.front);
  run.spec.predictor.kind =
      pick(rng, {PredictorSpec::Kind::kNone, PredictorSpec::Kind::kOracleLaw,
                 PredictorSpec::Kind::kNoisyLaw, PredictorSpec::Kind::kTrueLength});
  run.spec.predictor.r2_mu = 0.8;
  run.spec.predictor.r2_sigma = 0.7;
  run.spec.predictor.delay = from_millis(pick(rng, {0.0, 0.0, 3.0, 500.0}));
  run.spec.predictor.blocking = from_millis(pick(rng, {0.0, 0.0, 2.0}));
  if (rng.below(3) == 0) run.spec.horizon_s = pick(rng, {0.0, 0.1, 1.0, 10.0});
  run.requests = varied_requests(rng);
  return run;
}

Ran run_given(const RunSpec& spec, std::vector<Request> requests) {
  Ran ran;
  GivenWorkload workload(std::move(requests));
  const auto totals =
      run(spec, workload, [&ran](const RequestRecord& r) { ran.records.push_back(r); });
  if (!totals) {
    ADD_FAILURE() << totals.error().message;
    return ran;
  }
  ran.totals = *totals;
  return ran;
}

std::uint64_t fingerprint(const Ran& ran) {
  std::uint64_t hash = 0;
  for (const RequestRecord& r : ran.records) {
    const PredictedPlace place = r.predicted_place.value_or(PredictedPlace{-1, -1});
    hash =
        stable_hash(fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {:.9f} {:.9f}", r.id,
                                static_cast<int>(r.end), r.arrival.time_since_epoch().count(),
                                text(r.dispatched), text(r.admitted), text(r.first_token),
                                text(r.finished), r.prompt.count(), r.cached.count(),
                                r.output.count(), r.cap.count(), r.engine, r.preemptions, r.tenant,
                                r.predicted_median.value_or(-1), place.below, place.up_to),
                    hash);
  }
  const RunTotals& t = ran.totals;
  return stable_hash(
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", t.offered, t.completed,
                  t.refused, t.unfinished, t.preemptions, t.iterations, t.computed_tokens,
                  t.prefix_asked, t.prefix_hit, t.output_tokens,
                  t.last_arrival.time_since_epoch().count(), t.end.time_since_epoch().count(),
                  t.busy_s, t.mean_waiting, t.mean_running, t.mean_kv_share,
                  t.mean_report_age_s.value_or(-1), t.max_report_age_s.value_or(-1)),
      hash);
}

std::vector<std::string> fingerprints(std::uint64_t first, std::uint64_t end) {
  std::vector<std::string> prints;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    const VariedRun run = varied_run(seed);
    prints.push_back(
        fmt::format("{} {:016x}", seed, fingerprint(run_given(run.spec, run.requests))));
  }
  return prints;
}

}  // namespace tailrace::simulate::testing
