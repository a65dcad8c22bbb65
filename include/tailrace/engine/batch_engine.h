// How does a vLLM-like engine batch its sequences when memory and slots are scarce?
//
// BatchEngine follows vLLM's scheduler loop: running sequences first, in admission order; then
// waiting ones, first come first served, as long as the token budget, the sequence limit and the KV
// tokens allow, stopping at the first that does not fit. Long prompts are computed in chunks. When
// a running sequence cannot get KV, the one admitted last is preempted: its KV is dropped, its
// tokens are kept, and it goes back to the front of the queue to be recomputed; an iteration that
// preempted admits nobody. A sequence is admitted only if its whole context fits. KV counts single
// tokens, not blocks, and there is no prefix cache. An iteration costs O(running) and allocates
// nothing in the steady state.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "tailrace/engine/engine_core.h"

namespace tailrace::engine {

/// alpha + beta · max(0, batch tokens − knee) + gamma · KV tokens, in milliseconds. Below the knee
/// a GPU waits for its weights and more tokens cost nothing; 0 makes the time linear from the first
/// token.
struct IterationCost {
  double alpha_ms = 6.0;
  double beta_ms = 0.0205;
  double gamma_ms = 7.6e-5;
  double knee_tokens = 200;

  Duration of(Tokens batch_tokens,
              Tokens kv_tokens) const;  ///< at least 1 ns, so that time advances
};

struct EngineConfig {
  IterationCost cost;
  std::int64_t max_num_seqs = 256;         ///< sequences in the batch
  std::int64_t max_batched_tokens = 8192;  ///< tokens computed in one iteration
  std::int64_t kv_tokens = 467'280;        ///< context tokens that fit in memory

  /// Errors: kInvalidArgument naming the field, its value and what it may be.
  Result<void> check() const;
};

class BatchEngine final : public EngineCore {
 public:
  /// `config` must have passed check().
  explicit BatchEngine(const EngineConfig& config);

  Result<void> add(const SequenceSpec& spec) override;
  bool abort(SequenceId id) override;
  std::optional<Iteration> begin_iteration(MonoTime now) override;
  const std::vector<TokenEvent>& end_iteration() override;
  EngineState state() const override;

 private:
  struct Sequence {
    SequenceId id;
    std::int64_t prompt = 0;
    std::int64_t output = 0;
    std::int64_t generated = 0;
    std::int64_t computed = 0;   // context tokens in KV, those of the iteration under way included
    std::int64_t scheduled = 0;  // of them, tokens of the iteration under way
    bool running = false;

    std::int64_t known() const { return prompt + generated; }
  };
  using Queue = std::list<Sequence>;
  struct Batch {
    std::int64_t tokens = 0;
    std::int64_t kv = 0;
    bool preempted = false;
  };

  void schedule_running(Batch& batch);
  void admit_waiting(Batch& batch);
  bool make_room_for(Queue::iterator sequence, std::int64_t tokens, Batch& batch);
  void preempt_last(Batch& batch);
  void schedule(Sequence& sequence, std::int64_t tokens, Batch& batch);
  void unschedule(Sequence& sequence, Batch& batch);

  EngineConfig config_;
  Queue running_;
  Queue waiting_;
  std::unordered_map<SequenceId, Queue::iterator> by_id_;
  std::int64_t kv_used_ = 0;
  std::uint64_t preemptions_ = 0;
  std::uint64_t iterations_ = 0;
  bool under_way_ = false;
  std::vector<TokenEvent> events_;
};

}  // namespace tailrace::engine
