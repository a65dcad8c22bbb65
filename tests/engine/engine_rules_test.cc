// The rules of docs/decisions/0010-engine-rules.md, one by one, on engines small enough to follow.
#include <gtest/gtest.h>

#include <string>

#include "engine/support/engines.h"
#include "tailrace/engine/batch_engine.h"

namespace tailrace::engine {
namespace {

/// Blocks of four tokens, ten milliseconds an iteration.
EngineConfig blocks_of_four(std::int64_t usable_blocks) {
  EngineConfig config = token_engine(linear_cost(10, 0, 0, 0), 8, 1000, usable_blocks);
  config.block_tokens = 4;
  return config;
}

EngineConfig caching(std::int64_t usable_blocks) {
  EngineConfig config = blocks_of_four(usable_blocks);
  config.prefix_caching = true;
  return config;
}

SequenceSpec spec(std::uint64_t id, std::int64_t prompt, std::int64_t output,
                  std::vector<std::uint64_t> prefix = {}) {
  SequenceSpec s{SequenceId(id), Tokens(prompt), Tokens(output)};
  s.prefix = {std::move(prefix), 4};
  return s;
}

void add(BatchEngine& engine, const SequenceSpec& s, MonoTime now = {}) {
  const auto added = engine.add(s, now);
  ASSERT_TRUE(added) << added.error().message;
}

/// Tokens of each sequence that runs, as "id:computed+blocks", while the next iteration is under
/// way; then ends it.
std::string iterate(BatchEngine& engine, MonoTime now = {}) {
  if (!engine.begin_iteration(now)) return "idle";
  std::string text;
  for (const SequenceView& s : engine.running()) {
    text += std::to_string(s.id.count()) + ":" + std::to_string(s.computed.count()) + "+" +
            std::to_string(s.blocks) + " ";
  }
  engine.end_iteration();
  return text;
}

TEST(KvBlocks, AreTakenWhenTheFirstTokenOfTheNextOneIsComputed) {
  BatchEngine engine(blocks_of_four(10));
  add(engine, spec(1, 7, 9));
  EXPECT_EQ(iterate(engine), "1:7+2 ");
  EXPECT_EQ(iterate(engine), "1:8+2 ");
  EXPECT_EQ(iterate(engine), "1:9+3 ");
  EXPECT_EQ(engine.state().kv_used, Tokens(12));
}

TEST(PrefixCache, FindsFullBlocksButAlwaysComputesTheLastToken) {
  BatchEngine engine(caching(20));
  add(engine, spec(1, 8, 1, {10, 11}));
  EXPECT_EQ(iterate(engine), "1:8+2 ");
  add(engine, spec(2, 8, 1, {10, 11}));  // its second block is known, but its last token is in it
  EXPECT_EQ(engine.begin_iteration(MonoTime{})->batch_tokens, Tokens(4));
  engine.end_iteration();
  add(engine, spec(3, 9, 1, {10, 11}));
  EXPECT_EQ(engine.begin_iteration(MonoTime{})->batch_tokens, Tokens(1));
  engine.end_iteration();
  EXPECT_EQ(engine.state().prefix_asked, Tokens(25));
  EXPECT_EQ(engine.state().prefix_hit, Tokens(12));
}

TEST(PrefixCache, EqualPromptsOfOneIterationShareTheirBlocks) {
  BatchEngine engine(caching(20));
  add(engine, spec(1, 9, 2, {10, 11}));
  add(engine, spec(2, 9, 2, {10, 11}));
  EXPECT_EQ(engine.begin_iteration(MonoTime{})->batch_tokens, Tokens(9 + 1));
  EXPECT_EQ(engine.state().kv_used, Tokens(4 * 4));  // two shared, one own block each
  EXPECT_EQ(engine.running()[0].blocks, 1);          // what a preemption of one would free
}

TEST(PrefixCache, RunningSequencesDoNotLookUpWhatOthersCachedMeanwhile) {
  EngineConfig config = caching(40);
  config.long_prefill_tokens = 4;
  BatchEngine engine(config);
  add(engine, spec(1, 17, 1, {10, 11, 12, 13}));
  EXPECT_EQ(iterate(engine), "1:4+1 ");
  add(engine, spec(2, 17, 1, {10, 11, 12, 13}));
  // The second finds two blocks and caches the third, of which the first then computes a copy.
  EXPECT_EQ(iterate(engine), "1:8+0 2:12+1 ");
  EXPECT_EQ(iterate(engine), "1:12+1 2:16+2 ");
  EXPECT_EQ(engine.state().prefix_hit, Tokens(8));
}

TEST(PrefixCache, EvictsTheOldestFirstAndTailsBeforePrefixes) {
  BatchEngine engine(caching(4));
  add(engine, spec(1, 12, 1, {10, 11, 12}));
  iterate(engine);                 // three blocks stay known
  add(engine, spec(2, 5, 1, {}));  // takes the fourth and the tail of the three
  iterate(engine);
  add(engine, spec(3, 12, 1, {10, 11, 12}));
  EXPECT_EQ(engine.begin_iteration(MonoTime{})->batch_tokens, Tokens(4));
}

TEST(PrefixCache, APreemptionFreesOnlyWhatNobodyElseHolds) {
  BatchEngine engine(caching(6));
  add(engine, spec(1, 9, 12, {10, 11}));
  add(engine, spec(2, 9, 12, {10, 11}));
  for (int i = 0; i < 4; ++i) iterate(engine);
  EXPECT_EQ(engine.state().kv_used, Tokens(16));
  iterate(engine);  // both need a block: all six are in use
  for (int i = 0; i < 4; ++i) iterate(engine);
  EXPECT_EQ(engine.state().preemptions, 1u);
  EXPECT_EQ(iterate(engine), "1:18+5 ");  // the prefix was never freed, the tail was
}

TEST(Admission, ReservesTheWholeSequenceUnlessTold) {
  EngineConfig config = blocks_of_four(6);
  config.max_batched_tokens = 8;
  for (const bool reserve : {true, false}) {
    config.reserve_full_sequence = reserve;
    BatchEngine engine(config);
    add(engine, spec(1, 6, 6));
    add(engine, spec(2, 20, 1));  // five blocks; its first chunk of two tokens needs one
    EXPECT_EQ(iterate(engine), reserve ? "1:6+2 " : "1:6+2 2:2+1 ");
  }
}

TEST(Admission, KeepsTheWatermarkFreeButNotBeforeAnEmptyBatch) {
  EngineConfig config = blocks_of_four(6);
  config.watermark_blocks = 3;
  BatchEngine engine(config);
  add(engine, spec(1, 20, 1));
  add(engine, spec(2, 1, 1));
  EXPECT_EQ(iterate(engine), "1:20+5 ");
  EXPECT_EQ(iterate(engine), "2:1+1 ");
}

TEST(Admission, WithoutChunksWaitsUntilTheBudgetHoldsThePrompt) {
  EngineConfig config = blocks_of_four(40);
  config.max_batched_tokens = 20;
  config.chunked_prefill = false;
  BatchEngine engine(config);
  add(engine, spec(1, 8, 1));
  add(engine, spec(2, 16, 1));
  add(engine, spec(3, 1, 1));  // would fit, but does not overtake
  EXPECT_EQ(iterate(engine), "1:8+2 ");
  EXPECT_EQ(iterate(engine), "2:16+4 3:1+1 ");
}

TEST(Admission, NobodyIsAdmittedInAnIterationThatPreempted) {
  BatchEngine engine(blocks_of_four(4));
  add(engine, spec(1, 8, 8));
  add(engine, spec(2, 8, 2));
  EXPECT_EQ(iterate(engine), "1:8+2 2:8+2 ");
  add(engine, spec(3, 1, 1));
  EXPECT_EQ(iterate(engine), "1:9+3 ");  // one block is free, and 3 needs one
  EXPECT_EQ(engine.state().waiting, 2u);
}

TEST(Priority, AVictimScheduledEarlierInTheIterationGivesItsTokensBack) {
  EngineConfig config = blocks_of_four(4);
  BatchEngine engine(config, make_priority_scheduler());
  SequenceSpec yielding = spec(1, 3, 5);
  yielding.priority = 9;
  add(engine, yielding);
  EXPECT_EQ(iterate(engine), "1:3+1 ");
  add(engine, spec(2, 8, 5));
  EXPECT_EQ(iterate(engine), "1:4+1 2:8+2 ");
  // Both grow: 1 gets the last block, 2 takes it away again.
  const auto iteration = engine.begin_iteration(MonoTime{});
  EXPECT_EQ(iteration->batch_tokens, Tokens(1));
  ASSERT_EQ(engine.running().size(), 1u);
  EXPECT_EQ(engine.running()[0].id, SequenceId(2));
}

TEST(Priority, AnIterationWhoseOnlyVictimWasFirstBeginsAnew) {
  EngineConfig config = blocks_of_four(4);
  BatchEngine engine(config, make_priority_scheduler());
  SequenceSpec yielding = spec(1, 7, 5);
  yielding.priority = 9;
  add(engine, yielding);
  EXPECT_EQ(iterate(engine), "1:7+2 ");
  add(engine, spec(2, 7, 5));
  EXPECT_EQ(iterate(engine), "1:8+2 2:7+2 ");
  EXPECT_EQ(iterate(engine), "2:8+2 ");  // 1 needs a third block, and itself is the victim
}

class SendsBack final : public BatchScheduler {
 public:
  SendsBack() : line_(make_fcfs_scheduler()) {}
  void push(const SequenceView& s, MonoTime now) override {
    SequenceView as_new = s;
    as_new.preemptions = 0;  // to the end of the line
    line_->push(as_new, now);
  }
  std::optional<SequenceId> head(MonoTime now) override { return line_->head(now); }
  void pop_head() override { line_->pop_head(); }
  bool remove(SequenceId id) override { return line_->remove(id); }
  std::size_t size() const override { return line_->size(); }
  std::int64_t review_interval() const override { return 3; }
  void review(std::span<const SequenceView> running, const Room&, MonoTime,
              std::vector<SequenceId>& preempt) override {
    preempt.push_back(running[0].id);
  }

 private:
  std::unique_ptr<BatchScheduler> line_;
};

TEST(Review, MakesRoomThatIsFilledInTheSameIteration) {
  EngineConfig config = blocks_of_four(40);
  config.max_num_seqs = 1;
  BatchEngine engine(config, std::make_unique<SendsBack>());
  add(engine, spec(1, 4, 9));
  add(engine, spec(2, 4, 9));
  EXPECT_EQ(iterate(engine), "1:4+1 ");
  EXPECT_EQ(iterate(engine), "1:5+2 ");
  EXPECT_EQ(iterate(engine), "1:6+2 ");
  EXPECT_EQ(iterate(engine), "2:4+1 ");
  EXPECT_EQ(iterate(engine), "2:5+2 ");
  EXPECT_EQ(iterate(engine), "2:6+2 ");
  EXPECT_EQ(iterate(engine), "1:7+2 ");  // its three tokens were kept, and are computed again
}

TEST(Refusals, NameWhatCouldNeverFinish) {
  EngineConfig config = caching(100);
  config.max_model_len = 50;
  config.max_batched_tokens = 30;
  config.chunked_prefill = false;
  BatchEngine engine(config);
  const auto message = [&](const SequenceSpec& s) {
    const auto added = engine.add(s, MonoTime{});
    return added ? std::string() : added.error().message;
  };
  EXPECT_NE(message(spec(1, 390, 11)).find("KV capacity"), std::string::npos);
  EXPECT_NE(message(spec(1, 40, 11)).find("model's length"), std::string::npos);
  EXPECT_NE(message(spec(1, 30, 2)).find("max_batched_tokens"), std::string::npos);
  SequenceSpec odd = spec(1, 4, 1, {1});
  odd.prefix.tokens_per_id = 6;
  EXPECT_NE(message(odd).find("tokens_per_id is 6"), std::string::npos);
  EXPECT_EQ(message(spec(1, 30, 1)), "");
}

TEST(Time, StopsAtItsEndInsteadOfWrappingAround) {
  BatchEngine engine(token_engine(linear_cost(1e9, 1e9, 0, 0), 1, 1000, 1000));
  add(engine, spec(1, 900, 50));
  MonoTime now{};
  while (const auto iteration = engine.begin_iteration(now)) {
    EXPECT_GE(iteration->ends, now);
    now = iteration->ends;
    engine.end_iteration();
  }
  EXPECT_EQ(engine.state().running, 0u);
}

}  // namespace
}  // namespace tailrace::engine
