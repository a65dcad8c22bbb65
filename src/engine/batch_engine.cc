#include "tailrace/engine/batch_engine.h"

#include "engine/batch_core.h"
#include "tailrace/core/check.h"

namespace tailrace::engine {

BatchEngine::BatchEngine(const EngineConfig& config, std::unique_ptr<BatchScheduler> scheduler)
    : impl_(std::make_unique<Impl>(config, std::move(scheduler))) {
  TAILRACE_CHECK(config.check().has_value());
}
BatchEngine::~BatchEngine() = default;

Result<void> BatchEngine::add(const SequenceSpec& spec, MonoTime now) {
  return impl_->add(spec, now);
}

bool BatchEngine::abort(SequenceId id) {
  return impl_->abort(id);
}

std::optional<Iteration> BatchEngine::begin_iteration(MonoTime now) {
  return impl_->begin(now);
}

const std::vector<TokenEvent>& BatchEngine::end_iteration() {
  impl_->end();
  return impl_->events;
}

std::optional<MonoTime> BatchEngine::advance(MonoTime now, MonoTime until, bool stop_at_finish,
                                             LifeSink& sink) {
  impl_->sink = &sink;
  const auto next = impl_->advance(now, until, stop_at_finish);
  impl_->sink = nullptr;
  return next;
}

EngineState BatchEngine::state() const {
  const Impl& e = *impl_;
  const std::int64_t block = e.config.block_tokens;
  return {e.running.size(),
          e.scheduler->size(),
          Tokens((e.kv.usable() - e.kv.free()) * block),
          Tokens(e.kv.usable() * block),
          Tokens(e.blocks_during * block),
          static_cast<double>(e.block_time) * static_cast<double>(block) * 1e-9,
          e.preemptions,
          e.iterations,
          Tokens(e.computed),
          Tokens(e.prefix_asked),
          Tokens(e.prefix_hit)};
}

std::vector<SequenceView> BatchEngine::running() const {
  return impl_->views();
}

}  // namespace tailrace::engine
