// What does one engine of an elastic fleet do, iteration by iteration, and what does it report?
//
// Unlike a Server it never runs ahead of the clock: what happens in an iteration counts when that
// iteration ends, so its report is what a metrics page would show at that time. One thread.
#pragma once

#include <optional>
#include <vector>

#include "simulate/live_table.h"
#include "tailrace/engine/batch_engine.h"
#include "tailrace/simulate/elastic_run.h"

namespace tailrace::simulate {

class ElasticEngine final : public engine::LifeSink {
 public:
  ElasticEngine(const engine::EngineConfig& config, std::string name, std::size_t variant,
                MonoTime began, LiveTable& live);

  /// Errors: those of EngineCore::add.
  Result<void> add(Live& live, MonoTime now);

  /// When its iteration ends; nothing: it is idle.
  std::optional<MonoTime> next() const { return next_; }
  /// The iteration that ends at `now` counts; keys of the requests that ended in it.
  const std::vector<std::uint64_t>& end_iteration(MonoTime now);
  /// Begins the next one, if there is work.
  void begin_iteration(MonoTime now);

  std::size_t outstanding() const { return outstanding_; }
  std::size_t variant() const { return report_.variant; }
  const std::string& name() const { return report_.name; }
  bool draining() const { return report_.draining; }
  void drain() { report_.draining = true; }
  EngineReport report(MonoTime now) const;

 private:
  void count_running(MonoTime now);
  void on_admitted(engine::SequenceId id, MonoTime at, Tokens cached) override;
  void on_first_token(engine::SequenceId id, MonoTime at) override;
  void on_finished(engine::SequenceId id, MonoTime at) override;
  void on_preempted(engine::SequenceId id, MonoTime at, Tokens generated) override;

  engine::BatchEngine core_;
  LiveTable& live_;
  EngineReport report_;
  std::optional<MonoTime> next_;
  MonoTime began_iteration_;
  bool more_work_ = false;         ///< after the iteration under way
  std::size_t outstanding_ = 0;    ///< added, not ended
  std::int64_t decoding_ = 0;      ///< make a token in the next iteration
  std::int64_t in_iteration_ = 0;  ///< make one in this
  std::size_t in_batch_ = 0;
  MonoTime counted_;  ///< running_s is up to here
  std::vector<std::uint64_t> firsts_, ends_, settled_;
};

}  // namespace tailrace::simulate
