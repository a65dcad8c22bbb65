// How does a vLLM-like engine batch its sequences when memory and slots are scarce?
//
// BatchEngine follows vLLM v1's loop step by step: running sequences first, in batch order, each
// as far as the token budget goes; then waiting ones in the order of a BatchScheduler, stopping at
// the first that does not fit. Long prompts are computed in chunks. When a running sequence cannot
// get KV blocks the scheduler names a victim: its blocks are freed, its tokens are kept, and it
// waits again to be recomputed; an iteration that preempted so admits nobody. With prefix caching,
// blocks whose content is known are shared and outlive those who computed them. Every rule, and why
// it is as it is: docs/decisions/0010-engine-rules.md.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tailrace/engine/batch_scheduler.h"
#include "tailrace/engine/engine_config.h"
#include "tailrace/engine/engine_core.h"

namespace tailrace::engine {

class BatchEngine final : public EngineCore {
 public:
  /// `config` must have passed check(). Without a scheduler: first come, first served.
  explicit BatchEngine(const EngineConfig& config,
                       std::unique_ptr<BatchScheduler> scheduler = nullptr);
  ~BatchEngine() override;

  Result<void> add(const SequenceSpec& spec, MonoTime now) override;
  bool abort(SequenceId id) override;
  std::optional<Iteration> begin_iteration(MonoTime now) override;
  const std::vector<TokenEvent>& end_iteration() override;
  std::optional<MonoTime> advance(MonoTime now, MonoTime until, bool stop_at_finish,
                                  LifeSink& sink) override;
  EngineState state() const override;

  /// The running batch in batch order; for schedulers, routers and tests. Valid until the next
  /// call.
  std::vector<SequenceView> running() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tailrace::engine
