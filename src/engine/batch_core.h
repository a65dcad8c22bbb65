// BatchEngine's state and rules (batch_engine.h).
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "engine/decode_set.h"
#include "engine/kv_pool.h"
#include "engine/sequence.h"
#include "engine/slot_index.h"
#include "tailrace/engine/batch_engine.h"

namespace tailrace::engine {

/// Wide enough for every block of the largest pool, for centuries.
__extension__ using BlockTime = __int128;

struct Batch {
  std::int64_t tokens = 0;
  std::int64_t kv = 0;
  std::int64_t sequences = 0;
  bool preempted = false;  // because memory was short
};

struct BatchEngine::Impl {
  Impl(const EngineConfig& config, std::unique_ptr<BatchScheduler> scheduler);

  Result<void> check(const SequenceSpec& spec) const;
  Result<void> add(const SequenceSpec& spec, MonoTime at);
  bool abort(SequenceId id);
  std::optional<Iteration> begin(MonoTime at);
  void end();
  std::optional<MonoTime> advance(MonoTime from, MonoTime until, bool stop_at_finish);
  std::vector<SequenceView>& views();

  // One iteration's parts, in order.
  void review(Batch& batch);
  void schedule_running(Batch& batch);
  void admit_waiting(Batch& batch);
  void schedule_all(Batch& batch);
  MonoTime open(const Batch& batch);

  // What advance() does without a look at those that decode (batch_advance.cc).
  void gather();
  void scatter();
  bool schedule_gathered(Batch& batch);
  std::int64_t grant(const Sequence& s, std::int64_t tokens) const;
  void end_gathered();
  bool stretch(MonoTime& next, MonoTime until);
  std::int64_t quiet_steps();
  bool report(MonoTime at);

  /// When an iteration that begins at `at` will be done. Its blocks have been allocated.
  MonoTime spend(const BatchCost& cost, std::int64_t context, MonoTime at) {
    const Duration takes = cost.with_kv(context) + blocking;
    blocking = Duration{0};
    blocks_during = kv.usable() - kv.free();
    block_time += BlockTime{blocks_during} * takes.count();
    return takes < MonoTime::max() - at ? at + takes : MonoTime::max();
  }
  std::int64_t blocks_for(std::int64_t tokens) const {
    return (tokens + config.block_tokens - 1) / config.block_tokens;
  }
  std::int64_t chunk(std::int64_t tokens) const {
    return config.long_prefill_tokens > 0 ? std::min(tokens, config.long_prefill_tokens) : tokens;
  }
  void schedule(Sequence& s, std::int64_t tokens, Batch& batch);
  void preempt(Sequence& s, Batch& batch);
  void leave_batch(Sequence& s);
  SequenceView view(const Sequence& s) const;
  Sequence* find(SequenceId id);
  void forget(Sequence& s);

  EngineConfig config;
  std::unique_ptr<BatchScheduler> scheduler;
  KvPool kv;
  std::deque<Sequence> sequences;  // never move: others point at them; unused ones are kept
  std::vector<std::uint32_t> unused;
  SlotIndex by_id;
  std::vector<Sequence*> running;  // in batch order
  DecodeSet decoding;
  bool gathered = false;              // whether those that decode are in the set
  std::vector<Sequence*> prefilling;  // if so, the others, in batch order
  std::vector<Sequence*> sampling;    // who ends or begins to decode in this iteration

  std::uint64_t admissions = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t iterations = 0;
  std::int64_t computed = 0;
  std::int64_t blocks_during = 0;  // held while the last iteration ran
  BlockTime block_time = 0;        // blocks_during times nanoseconds, over all iterations
  std::int64_t prefix_asked = 0;
  std::int64_t prefix_hit = 0;
  Duration blocking{0};
  MonoTime now;
  bool under_way = false;
  LifeSink* sink = nullptr;
  std::vector<TokenEvent> events;
  std::vector<SequenceView> views_buffer;
  std::vector<SequenceId> reviewed;
};

}  // namespace tailrace::engine
