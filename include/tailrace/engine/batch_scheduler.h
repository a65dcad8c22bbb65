// Whom does an engine admit next, and who leaves its batch?
//
// What vLLM's loop leaves open to its scheduler class. BatchEngine owns the running batch and its
// memory; a BatchScheduler owns the waiting line. It learns nothing of true lengths: what it sees
// is what a scheduler inside an engine sees. FcfsScheduler and PriorityScheduler are vLLM's two;
// PolicyScheduler (policy_scheduler.h) puts tailrace's policies inside the engine. One thread, no
// clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tailrace/engine/engine_core.h"

namespace tailrace::engine {

/// What a scheduler may know of a sequence.
struct SequenceView {
  SequenceId id;
  MonoTime arrival;
  int priority = 0;
  Tokens prompt_tokens{0};
  Tokens generated{0};           ///< kept over a preemption
  Tokens computed{0};            ///< context in KV: what a preemption throws away
  std::int64_t blocks = 0;       ///< KV blocks that only it holds: what a preemption would free
  std::int64_t preemptions = 0;  ///< so far
};

/// What the batch could still take.
struct Room {
  std::int64_t free_blocks = 0;
  std::int64_t usable_blocks = 0;
  std::int64_t block_tokens = 16;
  std::size_t free_slots = 0;
};

class BatchScheduler {
 public:
  virtual ~BatchScheduler() = default;

  /// A sequence waits: it is new, or it was preempted (`preemptions` > 0).
  virtual void push(const SequenceView& sequence, MonoTime now) = 0;
  /// Who would be admitted next. Nothing if nobody waits. Asked only when somebody waits and there
  /// is a slot, token budget and a free block for one more.
  virtual std::optional<SequenceId> head(MonoTime now) = 0;
  /// The head has been admitted.
  virtual void pop_head() = 0;
  /// Takes out one that waits. False if it does not.
  virtual bool remove(SequenceId id) = 0;
  virtual std::size_t size() const = 0;

  /// Memory is short: whom to preempt, as an index into `running` (batch order, never empty). So
  /// that a workload ends, somebody must be spared until he has finished.
  virtual std::size_t victim(std::span<const SequenceView> running, MonoTime now) {
    (void)now;
    return running.size() - 1;
  }

  /// Iterations from one review to the next; 0: the batch is never reviewed. Reviews are due at
  /// iterations whose number, from the engine's start, is a multiple of it.
  virtual std::int64_t review_interval() const { return 0; }
  /// Before an iteration: ids to preempt now, in favour of those that wait. The memory that they
  /// free may be admitted into in the same iteration.
  virtual void review(std::span<const SequenceView> running, const Room& room, MonoTime now,
                      std::vector<SequenceId>& preempt) {
    (void)running;
    (void)room;
    (void)now;
    (void)preempt;
  }

  /// A sequence ended (finished or aborted) while running.
  virtual void ended(SequenceId id) { (void)id; }
};

/// First come, first served; a preempted one returns to the front. vLLM's default.
std::unique_ptr<BatchScheduler> make_fcfs_scheduler();
/// vLLM's `--scheduling-policy priority`: by (priority, arrival, id), lower first; the victim is
/// the greatest of them; a preempted one is simply put back in its place.
std::unique_ptr<BatchScheduler> make_priority_scheduler();

}  // namespace tailrace::engine
