// Public reports about simulators and emulated engines: runs that never ended, victims and waits
// that no engine has, times that did not add up. Names carry the repository and the number. Splits
// of prefill and decode over engines are not simulated, so the parts of
// inference-sim#1510 and vidur#79 that are about them have no test.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "engine/support/engines.h"
#include "issues/support/given_workload.h"
#include "tailrace/core/rng.h"
#include "tailrace/engine/batch_engine.h"

namespace tailrace::simulate {
namespace {

using engine::BatchEngine;
using engine::EngineConfig;
using engine::SequenceId;
using engine::SequenceSpec;

constexpr MonoTime kNever{Duration::max()};

/// One token a block and ten milliseconds an iteration, so that a reader can count along.
EngineConfig plain(std::int64_t seqs, std::int64_t budget, std::int64_t kv_tokens) {
  return engine::token_engine(engine::linear_cost(10, 0, 0, 0), seqs, budget, kv_tokens);
}

struct Log final : engine::LifeSink {
  void on_admitted(SequenceId id, MonoTime at, Tokens) override { admitted[id.count()] = at; }
  void on_first_token(SequenceId, MonoTime) override {}
  void on_finished(SequenceId id, MonoTime at) override { finished[id.count()] = at; }
  void on_preempted(SequenceId id, MonoTime, Tokens) override { preempted.push_back(id.count()); }
  std::map<std::uint64_t, MonoTime> admitted, finished;
  std::vector<std::uint64_t> preempted;
};

// A request that needs more KV blocks than there are was preempted and admitted for ever, with a
// warning each time.
TEST(InferenceSim963, ARequestLargerThanTheKvCacheIsRefusedAndTheOthersGoOn) {
  RunSpec spec;
  spec.fleet.engine.kv_blocks = 41;  // 640 tokens
  std::vector<Request> requests;
  for (std::uint64_t id = 0; id < 100; ++id) {
    requests.push_back(request(id, 0.001 * static_cast<double>(id), 100, 100));
  }
  requests[3] = request(3, 0.003, 600, 41);
  RunTotals totals;
  const auto records = records_of(spec, requests, &totals);
  ASSERT_EQ(records.size(), 100u);
  EXPECT_EQ(totals.refused, 1u);
  EXPECT_EQ(totals.completed, 99u);
  EXPECT_EQ(records.front().id, 3u) << "at once, not after everybody else";
  EXPECT_EQ(records.front().end, End::kRefused);
}

// With memory for hardly more than one request the engine thrashed without getting on.
TEST(InferenceSim963, MemoryForOneRequestAtATimeStillMakesProgress) {
  RunSpec spec;
  spec.fleet.engine.kv_blocks = 14;  // 208 tokens for requests of 200
  spec.fleet.engine.reserve_full_sequence = false;
  std::vector<Request> requests;
  for (std::uint64_t id = 0; id < 60; ++id) requests.push_back(request(id, 0, 50, 150));
  RunTotals totals;
  ASSERT_EQ(records_of(spec, requests, &totals).size(), 60u);
  EXPECT_EQ(totals.completed, 60u);
  EXPECT_GT(totals.preemptions, 0u);
  EXPECT_LE(totals.preemptions, totals.iterations);
  EXPECT_LE(totals.iterations, 60u * 150u) << "no more than one request after the other takes";
}

// Stuck after 858 of 5000 requests.
TEST(InferenceSim1057, EveryRunTerminatesAndLosesNobody) {
  Rng rng(1057);
  const auto between = [&rng](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(high - low + 1)));
  };
  for (int round = 0; round < 150; ++round) {
    RunSpec spec;
    EngineConfig& e = spec.fleet.engine;
    e.max_num_seqs = between(1, 12);
    e.max_batched_tokens = between(1, 300);
    e.kv_blocks = between(4, 60);
    e.max_model_len = between(20, 2000);
    e.long_prefill_tokens = rng.below(2) == 0 ? 0 : between(1, 64);
    e.chunked_prefill = rng.below(4) != 0;
    e.reserve_full_sequence = rng.below(2) == 0;
    e.prefix_caching = rng.below(2) == 0;
    e.watermark_blocks = between(0, 3);
    spec.fleet.engines = static_cast<int>(between(1, 3));
    spec.fleet.line = rng.below(2) == 0 ? FleetSpec::Line::kFcfs : FleetSpec::Line::kPriority;
    std::vector<Request> requests;
    double at = 0;
    for (std::uint64_t id = 0; id < 60; ++id) {
      at += rng.exponential() * 0.02;
      Request r = request(id, at, between(1, 300), between(1, 120));
      r.priority = static_cast<int>(between(-2, 2));
      for (std::int64_t k = 0; k * 16 < r.prompt.count(); ++k) {
        r.prefix.ids.push_back(static_cast<std::uint64_t>(between(0, 1) * 1000 + k));
        if (r.prefix.ids.back() >= 1000) break;  // from here on like no other
      }
      r.prefix.tokens_per_id = 16;
      requests.push_back(r);
    }
    RunTotals totals;
    const auto records = records_of(spec, requests, &totals);
    ASSERT_EQ(records.size(), 60u) << "round " << round;
    EXPECT_EQ(totals.offered, 60u);
    EXPECT_EQ(totals.completed + totals.refused, 60u) << "round " << round;
    std::int64_t asked = 0;
    for (const RequestRecord& r : records) {
      if (r.end == End::kCompleted) asked += requests[r.id].output.count();
    }
    EXPECT_EQ(totals.output_tokens, asked) << "what was not refused came out whole";
  }
}

struct Asked {
  std::uint64_t id;
  int priority;
  int arrival_us;
};

/// Three requests, of which the first is in the batch before the engine hears of the others. Their
/// second tokens need one block more than there is: whom memory throws out.
std::uint64_t victim(std::unique_ptr<engine::BatchScheduler> scheduler,
                     const std::array<Asked, 3>& asked) {
  BatchEngine engine(plain(8, 1000, 13), std::move(scheduler));
  Log log;
  const auto add = [&engine](const Asked& a) {
    EXPECT_TRUE(engine.add({SequenceId(a.id), Tokens(4), Tokens(4), a.priority},
                           MonoTime{std::chrono::microseconds(a.arrival_us)}));
  };
  add(asked[0]);
  const MonoTime start{std::chrono::milliseconds(1)};
  const auto next = engine.advance(start, start + std::chrono::milliseconds(1), false, log);
  add(asked[1]);
  add(asked[2]);
  engine.advance(*next, kNever, false, log);
  EXPECT_EQ(log.finished.size(), 3u);
  return log.preempted.empty() ? 0 : log.preempted.front();
}

// Victims were taken from the wrong end of the batch.
TEST(InferenceSim1086, VictimsAreTheOnesThatVllmTakes) {
  const std::array<Asked, 3> asked{{{1, 9, 1}, {2, 0, 2}, {3, 5, 3}}};
  EXPECT_EQ(victim(engine::make_fcfs_scheduler(), asked), 3u)
      << "first come, first served: the last of the batch";
  EXPECT_EQ(victim(engine::make_priority_scheduler(), asked), 1u)
      << "priority: the least urgent wherever it stands, even if it is the one that asks";
}

TEST(InferenceSim1321, AmongEquallyUrgentOnesTheLatestArrivalIsTheVictim) {
  // Number 3 came last and is in the batch first, as after a preemption of the others.
  const std::array<Asked, 3> asked{{{3, 7, 30}, {1, 7, 10}, {2, 7, 20}}};
  EXPECT_EQ(victim(engine::make_priority_scheduler(), asked), 3u);
  EXPECT_EQ(victim(engine::make_fcfs_scheduler(), asked), 2u) << "not the last of the batch";
}

/// Two prompts of 64 equal tokens, computed 16 at a time; the second arrives `later`.
std::int64_t computed_for_two(Duration later) {
  EngineConfig config;
  config.cost = engine::linear_cost(10, 0, 0, 0);
  config.prefix_caching = true;
  config.long_prefill_tokens = 16;
  BatchEngine engine(config);
  Log log;
  SequenceSpec spec{SequenceId(1), Tokens(64), Tokens(1)};
  spec.prefix = {{101, 102, 103, 104}, 16};
  EXPECT_TRUE(engine.add(spec, MonoTime{}));
  std::optional<MonoTime> next = MonoTime{};
  if (later.count() > 0) next = engine.advance(MonoTime{}, MonoTime{later}, false, log);
  spec.id = SequenceId(2);
  EXPECT_TRUE(engine.add(spec, MonoTime{later}));
  engine.advance(next.value_or(MonoTime{later}), kNever, false, log);
  EXPECT_EQ(log.finished.size(), 2u);
  return engine.state().computed.count();
}

// Running requests ignore blocks that were cached meanwhile. So do vLLM and we, by decision
// (docs/decisions/0010-engine-rules.md): a sequence looks once, when it is admitted.
TEST(InferenceSim1087, ASequenceLooksIntoTheCacheWhenItIsAdmittedAndNotAgain) {
  EXPECT_EQ(computed_for_two(Duration{0}), 64 + 48)
      << "side by side it finds the first chunk and computes the rest a second time";
  EXPECT_EQ(computed_for_two(std::chrono::milliseconds(25)), 64 + 16)
      << "admitted when three chunks are there it computes the last alone";
  EXPECT_EQ(computed_for_two(std::chrono::seconds(1)), 64 + 16)
      << "one after the other it finds all but the block of the last token, whose output it needs";
}

// Reported times to first token left out stages and counted others twice.
TEST(InferenceSim1510, TheStagesOfARequestAddUpToItsEndToEndTime) {
  RunSpec spec;
  spec.fleet.engines = 2;
  spec.fleet.engine.max_num_seqs = 4;
  spec.fleet.engine.kv_blocks = 40;
  spec.front.queue = true;
  spec.predictor.kind = PredictorSpec::Kind::kNoisyLaw;
  spec.predictor.delay = std::chrono::milliseconds(7);
  spec.workload.arrivals.rate = 30;
  spec.workload.arrivals.count = 300;
  spec.workload.lengths.cap = 256;
  int completed = 0;
  Duration queued{0}, waited{0}, prefilled{0}, decoded{0}, end_to_end{0};
  const auto totals = run(spec, [&](const RequestRecord& r) {
    if (r.end != End::kCompleted) return;
    ++completed;
    for (const Duration stage : {*r.dispatched - r.arrival, *r.admitted - *r.dispatched,
                                 *r.first_token - *r.admitted, *r.finished - *r.first_token}) {
      EXPECT_GE(stage, Duration{0}) << "request " << r.id;
    }
    queued += *r.dispatched - r.arrival;
    waited += *r.admitted - *r.dispatched;
    prefilled += *r.first_token - *r.admitted;
    decoded += *r.finished - *r.first_token;
    end_to_end += *r.finished - r.arrival;
  });
  ASSERT_TRUE(totals) << totals.error().message;
  EXPECT_EQ(completed, 300);
  EXPECT_EQ(queued + waited + prefilled + decoded, end_to_end) << "to the nanosecond";
  EXPECT_GT(queued, Duration{0});
  EXPECT_GT(prefilled, Duration{0});
  EXPECT_GT(totals->preemptions, 0u) << "a preempted request's second wait is in its decoding";
}

// Output cost was counted twice: here a request's time in the batch is the sum of the iterations
// that ran meanwhile, counted by their own clock.
TEST(InferenceSim930, TimeInTheBatchIsTheSumOfTheIterationsThatRan) {
  EngineConfig config;
  config.max_num_seqs = 3;
  BatchEngine engine(config);
  Rng rng(930);
  std::map<std::uint64_t, Duration> present;
  std::map<std::uint64_t, MonoTime> admitted;
  int finished = 0;
  for (std::uint64_t id = 1; id <= 30; ++id) {
    ASSERT_TRUE(engine.add({SequenceId(id), Tokens(static_cast<std::int64_t>(1 + rng.below(500))),
                            Tokens(static_cast<std::int64_t>(1 + rng.below(50)))},
                           MonoTime{}));
  }
  MonoTime now{};
  while (const auto iteration = engine.begin_iteration(now)) {
    for (const engine::SequenceView& s : engine.running()) {
      admitted.emplace(s.id.count(), iteration->begins);
      present[s.id.count()] += iteration->ends - iteration->begins;
    }
    now = iteration->ends;
    for (const engine::TokenEvent& event : engine.end_iteration()) {
      if (!event.finished) continue;
      ++finished;
      EXPECT_EQ(now - admitted.at(event.id.count()), present.at(event.id.count()));
    }
  }
  EXPECT_EQ(finished, 30);
}

/// Eight conversations of six turns; a turn's prompt is all that was said before and 256 tokens.
std::vector<Request> conversations() {
  constexpr std::int64_t kIdTokens = 64;
  std::vector<Request> requests;
  for (std::uint64_t turn = 0; turn < 6; ++turn) {
    for (std::uint64_t session = 1; session <= 8; ++session) {
      const std::uint64_t id = requests.size();
      Request r = request(id, 2.0 * static_cast<double>(id), 256 * static_cast<int>(turn + 1), 32);
      r.session = session;
      for (std::int64_t k = 0; k * kIdTokens < r.prompt.count(); ++k) {
        r.prefix.ids.push_back(session * 1000 + static_cast<std::uint64_t>(k));
      }
      r.prefix.tokens_per_id = kIdTokens;
      requests.push_back(r);
    }
  }
  return requests;
}

// A cold cache, and sessions whose turns share nothing, make first tokens late on paper.
TEST(InferenceSim1274, ATurnOfASessionFindsWhatWasSaidBefore) {
  RunSpec spec;
  spec.fleet.engine.prefix_caching = true;
  const auto records = records_of(spec, conversations());
  ASSERT_EQ(records.size(), 48u);
  for (const RequestRecord& r : records) {
    EXPECT_EQ(r.cached, r.prompt - Tokens(256)) << "request " << r.id;
  }
}

TEST(InferenceSim1273, AColdCacheShowsAndAWarmUpShareTakesItOut) {
  RunSpec spec;
  spec.fleet.engine.cost.beta_ms = 1;  // prefill is what first tokens wait for
  spec.fleet.engine.prefix_caching = true;
  // Everybody asks about one document of 2048 tokens, and 64 of his own.
  std::vector<Request> requests;
  for (std::uint64_t id = 0; id < 100; ++id) {
    Request r = request(id, 5.0 * static_cast<double>(id), 2112, 8);
    for (std::uint64_t k = 0; k < 32; ++k) r.prefix.ids.push_back(k);
    r.prefix.ids.push_back(1000 + id);
    r.prefix.tokens_per_id = 64;
    requests.push_back(r);
  }
  const auto records = records_of(spec, requests);
  ASSERT_EQ(records.size(), 100u);
  const auto mean_ttft_ms = [&records](std::size_t from, std::size_t to) {
    double sum = 0;
    for (std::size_t i = from; i < to; ++i) {
      sum += to_millis(*records[i].first_token - records[i].arrival);
    }
    return sum / static_cast<double>(to - from);
  };
  const double warm = mean_ttft_ms(1, 100);
  EXPECT_GT(mean_ttft_ms(0, 10), 5 * warm) << "the first one's prefill fills a short run's mean";
  EXPECT_NEAR(mean_ttft_ms(10, 100), warm, 1e-6) << "a tenth as warm-up leaves no bias";
}

// The emulated scheduler was another one than the engine's, prefill first: running answers stood
// still while a prompt was computed.
TEST(Vidur17, RunningAnswersGoOnWhileALongPromptIsComputed) {
  BatchEngine engine(plain(8, 16, 10'000));
  ASSERT_TRUE(engine.add({SequenceId(1), Tokens(4), Tokens(50)}, MonoTime{}));
  MonoTime now = engine.begin_iteration(MonoTime{})->ends;
  engine.end_iteration();
  ASSERT_TRUE(engine.add({SequenceId(2), Tokens(300), Tokens(1)}, now));
  int iterations = 0;
  bool second_done = false;
  while (!second_done) {
    ++iterations;
    const auto iteration = engine.begin_iteration(now);
    ASSERT_TRUE(iteration);
    EXPECT_EQ(iteration->batch_tokens, Tokens(16));
    now = iteration->ends;
    const auto& events = engine.end_iteration();
    ASSERT_FALSE(events.empty());
    EXPECT_EQ(events.front().id, SequenceId(1)) << "a token of the running one each time";
    second_done = events.size() == 2;
  }
  EXPECT_EQ(iterations, 20) << "15 of the 16 tokens are the prompt's";
}

// CPU time was left out, and with it most of the time of a large batch of a small model.
TEST(Vidur51, CpuTimeIsATermOfItsOwn) {
  engine::IterationCost cost = engine::linear_cost(6, 0, 0, 0);
  cost.cpu_ms = 1;
  cost.cpu_per_request_ms = 0.05;
  const auto ms = [&cost](std::int64_t sequences) {
    return to_millis(cost.of(Tokens(sequences), Tokens(0), sequences));
  };
  cost.async_scheduling = false;
  EXPECT_DOUBLE_EQ(ms(20), 6 + 1 + 1);
  EXPECT_DOUBLE_EQ(ms(256), 6 + 1 + 12.8) << "one after the other";
  cost.async_scheduling = true;
  EXPECT_DOUBLE_EQ(ms(20), 6) << "hidden behind the GPU";
  EXPECT_DOUBLE_EQ(ms(256), 13.8) << "until it takes longer";

  RunSpec spec;
  spec.fleet.engine.cost = cost;
  std::vector<Request> requests;
  for (std::uint64_t id = 0; id < 256; ++id) requests.push_back(request(id, 0, 1, 11));
  const auto records = records_of(spec, requests);
  ASSERT_EQ(records.size(), 256u);
  EXPECT_DOUBLE_EQ(to_millis(*records[0].finished - *records[0].first_token), 138);
}

// A lost reference count crashed the simulator: after every event the pool must hold what the
// sequences hold, and in the end nothing.
TEST(LlmServingSim35, BlocksAreConservedAfterEveryEvent) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    EngineConfig config;
    config.max_num_seqs = 6;
    config.max_batched_tokens = 96;
    config.kv_blocks = 41;
    config.prefix_caching = true;
    config.long_prefill_tokens = 48;
    BatchEngine engine(config);
    MonoTime now{};
    std::uint64_t next_id = 1;
    const auto check = [&] {
      std::int64_t exclusive = 0, with_copies = 0, largest = 0;
      for (const engine::SequenceView& s : engine.running()) {
        const std::int64_t held = (s.computed.count() + 15) / 16;
        exclusive += s.blocks;
        with_copies += held;
        largest = std::max(largest, held);
        ASSERT_LE(s.blocks, held);
      }
      const std::int64_t used = engine.state().kv_used.count() / 16;
      ASSERT_LE(used, 40);
      ASSERT_GE(used, exclusive) << "what one alone holds is held";
      ASSERT_LE(used, with_copies) << "nothing is held that nobody holds";
      ASSERT_GE(used, largest);
    };
    for (int event = 0; event < 400; ++event) {
      const std::uint64_t kind = rng.below(5);
      if (kind < 2) {
        const auto blocks = static_cast<std::int64_t>(1 + rng.below(12));
        SequenceSpec spec{SequenceId(next_id++), Tokens(16 * blocks - 3),
                          Tokens(static_cast<std::int64_t>(1 + rng.below(60)))};
        const std::uint64_t document = rng.below(3) * 100;
        for (std::int64_t k = 0; k < blocks; ++k) {
          spec.prefix.ids.push_back(document + static_cast<std::uint64_t>(k));
        }
        spec.prefix.tokens_per_id = 16;
        ASSERT_TRUE(engine.add(spec, now));
      } else if (kind == 2 && next_id > 1) {
        engine.abort(SequenceId(1 + rng.below(next_id - 1)));
      } else if (const auto iteration = engine.begin_iteration(now)) {
        check();
        if (rng.below(4) == 0) engine.abort(SequenceId(1 + rng.below(next_id - 1)));
        now = iteration->ends;
        engine.end_iteration();
      }
      check();
    }
    for (std::uint64_t id = 1; id < next_id; ++id) engine.abort(SequenceId(id));
    ASSERT_EQ(engine.state().kv_used, Tokens(0)) << "seed " << seed;
    // All 40 blocks can be had again.
    Log log;
    ASSERT_TRUE(engine.add({SequenceId(next_id), Tokens(600), Tokens(40)}, now));
    engine.advance(now, kNever, false, log);
    EXPECT_EQ(log.finished.size(), 1u);
    EXPECT_TRUE(log.preempted.empty());
  }
}

}  // namespace
}  // namespace tailrace::simulate
