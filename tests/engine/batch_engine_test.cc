#include "tailrace/engine/batch_engine.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/support/engines.h"

namespace tailrace::engine {
namespace {

/// Ten milliseconds an iteration and nothing else: time counts iterations.
EngineConfig plain(std::int64_t seqs, std::int64_t budget, std::int64_t kv) {
  return token_engine(linear_cost(10.0, 0, 0, 0), seqs, budget, kv);
}

SequenceSpec spec(std::uint64_t id, std::int64_t prompt, std::int64_t output) {
  return {SequenceId(id), Tokens(prompt), Tokens(output)};
}

/// "1 2* " for a token of 1 and the last of 2; "-" for an iteration without tokens.
std::string run_iteration(BatchEngine& engine, MonoTime& now) {
  const auto iteration = engine.begin_iteration(now);
  if (!iteration) return "idle";
  now = iteration->ends;
  std::string text;
  for (const TokenEvent& event : engine.end_iteration()) {
    text += std::to_string(event.id.count()) + (event.finished ? "* " : " ");
  }
  return text.empty() ? "-" : text;
}

TEST(BatchEngine, SamplesOneTokenPerSequenceAndIteration) {
  BatchEngine engine(plain(4, 1000, 1000));
  MonoTime now{};
  ASSERT_TRUE(engine.add(spec(1, 10, 2), MonoTime{}));
  ASSERT_TRUE(engine.add(spec(2, 10, 3), MonoTime{}));
  EXPECT_EQ(run_iteration(engine, now), "1 2 ");
  EXPECT_EQ(run_iteration(engine, now), "1* 2 ");
  EXPECT_EQ(run_iteration(engine, now), "2* ");
  EXPECT_EQ(run_iteration(engine, now), "idle");
  EXPECT_EQ(to_millis(now.time_since_epoch()), 30);
  EXPECT_EQ(engine.state().kv_used, Tokens(0));
}

TEST(BatchEngine, AFreedSlotGoesToTheOldestThatWaits) {
  BatchEngine engine(plain(1, 1000, 1000));
  MonoTime now{};
  for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(engine.add(spec(id, 1, 1), MonoTime{}));
  EXPECT_EQ(run_iteration(engine, now), "1* ");
  EXPECT_EQ(run_iteration(engine, now), "2* ");
  EXPECT_EQ(run_iteration(engine, now), "3* ");
}

TEST(BatchEngine, IterationTimeIsLinearInTokensAboveTheKneeAndInContext) {
  BatchEngine engine(token_engine(linear_cost(5.0, 0.1, 0.01, 20), 4, 1000, 1000));
  ASSERT_TRUE(engine.add(spec(1, 50, 9), MonoTime{}));
  const auto prefill = engine.begin_iteration(MonoTime{});
  EXPECT_DOUBLE_EQ(to_millis(prefill->ends - prefill->begins), 5.0 + 0.1 * 30 + 0.01 * 50);
  engine.end_iteration();
  const auto decode = engine.begin_iteration(prefill->ends);
  EXPECT_DOUBLE_EQ(to_millis(decode->ends - decode->begins), 5.0 + 0.01 * 51);
}

TEST(BatchEngine, ALongPromptIsComputedInChunksWhileOthersDecode) {
  BatchEngine engine(plain(4, 8, 1000));
  MonoTime now{};
  ASSERT_TRUE(engine.add(spec(1, 4, 9), MonoTime{}));
  ASSERT_TRUE(engine.add(spec(2, 14, 9), MonoTime{}));
  EXPECT_EQ(run_iteration(engine, now), "1 ");    // 4 tokens of the second one's prompt
  EXPECT_EQ(run_iteration(engine, now), "1 ");    // 7 more
  EXPECT_EQ(run_iteration(engine, now), "1 2 ");  // and the last 3
}

TEST(BatchEngine, AdmissionStopsAtTheFirstThatDoesNotFitInMemory) {
  BatchEngine engine(plain(8, 1000, 30));
  MonoTime now{};
  ASSERT_TRUE(engine.add(spec(1, 10, 3), MonoTime{}));
  ASSERT_TRUE(engine.add(spec(2, 25, 1), MonoTime{}));
  ASSERT_TRUE(engine.add(spec(3, 1, 1), MonoTime{}));  // would fit, but it came later
  EXPECT_EQ(run_iteration(engine, now), "1 ");
  EXPECT_EQ(engine.state().waiting, 2u);
  EXPECT_EQ(run_iteration(engine, now), "1 ");
  EXPECT_EQ(run_iteration(engine, now), "1* ");
  EXPECT_EQ(run_iteration(engine, now), "2* 3* ");
}

TEST(BatchEngine, PreemptsTheLastAdmittedWhenMemoryRunsOutAndRecomputesIt) {
  BatchEngine engine(plain(8, 1000, 10));
  MonoTime now{};
  ASSERT_TRUE(engine.add(spec(1, 4, 4), MonoTime{}));
  ASSERT_TRUE(engine.add(spec(2, 4, 4), MonoTime{}));
  EXPECT_EQ(run_iteration(engine, now), "1 2 ");  // 8 of 10 in use
  EXPECT_EQ(run_iteration(engine, now), "1 2 ");  // 10
  EXPECT_EQ(run_iteration(engine, now), "1 ");    // no room for both: the second goes
  EXPECT_EQ(engine.state().preemptions, 1u);
  EXPECT_EQ(engine.state().waiting, 1u);
  EXPECT_EQ(run_iteration(engine, now), "1* ");
  EXPECT_EQ(run_iteration(engine, now), "2 ");  // its two tokens were kept: this is the third
  EXPECT_EQ(run_iteration(engine, now), "2* ");
  EXPECT_EQ(engine.state().kv_used, Tokens(0));
}

TEST(BatchEngine, AnAbortFreesItsSlotAtOnceEvenDuringAnIteration) {
  BatchEngine engine(plain(1, 1000, 1000));
  ASSERT_TRUE(engine.add(spec(1, 10, 100), MonoTime{}));
  ASSERT_TRUE(engine.add(spec(2, 10, 1), MonoTime{}));
  const auto iteration = engine.begin_iteration(MonoTime{});
  EXPECT_TRUE(engine.abort(SequenceId(1)));
  EXPECT_FALSE(engine.abort(SequenceId(1)));
  EXPECT_EQ(engine.state().running, 0u);
  EXPECT_EQ(engine.state().kv_used, Tokens(0));
  EXPECT_TRUE(engine.end_iteration().empty());
  MonoTime now = iteration->ends;
  EXPECT_EQ(run_iteration(engine, now), "2* ");
}

TEST(BatchEngine, RefusesWhatCouldNeverFinish) {
  BatchEngine engine(plain(1, 1000, 100));
  EXPECT_EQ(engine.add(spec(1, 90, 11), MonoTime{}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine.add(spec(1, 0, 1), MonoTime{}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(engine.add(spec(1, 90, 10), MonoTime{}));
  EXPECT_EQ(engine.add(spec(1, 1, 1), MonoTime{}).error().code, ErrorCode::kAlreadyExists);
}

TEST(EngineConfig, NamesTheFieldThatIsWrong) {
  EngineConfig config;
  config.cost.gamma_ms = -1;
  EXPECT_NE(config.check().error().message.find("gamma"), std::string::npos);
  config = {};
  config.max_num_seqs = 0;
  EXPECT_NE(config.check().error().message.find("max_num_seqs"), std::string::npos);
}

}  // namespace
}  // namespace tailrace::engine
