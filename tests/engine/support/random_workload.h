// Random engines, requests and schedulers for the conformance test; a seed reproduces each.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tailrace/core/rng.h"
#include "tailrace/engine/batch_scheduler.h"
#include "tailrace/engine/engine_config.h"

namespace tailrace::engine {

/// What an engine asked its scheduler and told its sink, as numbers: equal logs, equal schedules.
using Log = std::vector<std::int64_t>;

/// Small engines with little memory, and now and then one that is wide enough for long decodes.
class RandomWorkload {
 public:
  explicit RandomWorkload(std::uint64_t seed);

  const EngineConfig& config() const { return config_; }
  /// Two calls give two schedulers that decide alike as long as they are asked alike.
  std::unique_ptr<BatchScheduler> scheduler(Log& log) const;
  /// May be one that the engine must refuse.
  SequenceSpec request(std::uint64_t id);
  int actions() { return wide_ ? 60 : 40; }

  std::int64_t between(std::int64_t low, std::int64_t high);
  bool chance(double share) { return rng_.uniform() < share; }

 private:
  PrefixIds prefix(std::int64_t tokens);

  Rng rng_;
  EngineConfig config_;
  bool wide_ = false;
  int line_ = 0;
  std::uint64_t line_seed_ = 0;
  std::int64_t review_interval_ = 0;
  std::int64_t tokens_per_id_ = 1;
  std::int64_t longest_prompt_ = 1;
  std::int64_t longest_output_ = 1;
};

/// Writes down all that an engine tells.
class LoggingSink final : public LifeSink {
 public:
  explicit LoggingSink(Log& log) : log_(log) {}
  void on_admitted(SequenceId id, MonoTime at, Tokens cached) override {
    write(1, id, at, cached.count());
  }
  void on_first_token(SequenceId id, MonoTime at) override { write(2, id, at, 0); }
  void on_finished(SequenceId id, MonoTime at) override {
    write(3, id, at, 0);
    ++finished;
  }
  void on_preempted(SequenceId id, MonoTime at, Tokens generated) override {
    write(4, id, at, generated.count());
  }

  std::size_t finished = 0;

 private:
  void write(std::int64_t kind, SequenceId id, MonoTime at, std::int64_t value) {
    log_.insert(log_.end(), {kind, static_cast<std::int64_t>(id.count()),
                             at.time_since_epoch().count(), value});
  }
  Log& log_;
};

}  // namespace tailrace::engine
