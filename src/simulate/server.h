// Where does one engine of a simulated fleet stand, and what came out of it?
//
// A Server runs its engine ahead of the simulation's clock, as far as its owner allows, and keeps
// what ended there until the clock gets to it: whatever the owner reads of it is true at the time
// of its last settled end, not of the engine's head start. One thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "simulate/live_table.h"
#include "tailrace/engine/batch_engine.h"
#include "tailrace/engine/policy_scheduler.h"

namespace tailrace::simulate {

inline constexpr MonoTime kNever{Duration::max()};

/// Sums of stays: a hundred thousand requests for a day are more nanoseconds than 64 bits hold.
using Nanoseconds = __int128;

/// What all servers of a run share.
struct Books {
  LiveTable live;
  Nanoseconds waiting = 0;  ///< over requests: time in lines, up to their last change
  Nanoseconds running = 0;  ///< time in batches
};

class Server final : public engine::LifeSink {
 public:
  struct End {
    MonoTime at;
    std::uint64_t key = 0;
  };

  /// `predictor` is asked where predictions are made again (PredictorSpec::r2_refined). Errors:
  /// those of PolicyScheduler::make.
  static Result<std::unique_ptr<Server>> make(const RunSpec& spec, MonoTime horizon,
                                              LengthPredictor& predictor, Books& books);

  /// Hands over a request. Errors: kInvalidArgument, as EngineCore::add.
  Result<void> add(Live& live, Duration blocking, MonoTime now);
  /// Its law has arrived, or a better one.
  void set_law(const Live& live, MonoTime now);

  /// Runs all iterations that begin before `until`; with `stop_at_finish` no further than the first
  /// end that is not settled.
  void advance(MonoTime until, bool stop_at_finish);

  /// The first end that is not settled yet, or null.
  const End* front() const { return head_ < ends_.size() ? &ends_[head_] : nullptr; }
  /// Settles it.
  void pop();
  std::size_t unsettled() const { return ends_.size() - head_; }

  std::int64_t outstanding() const { return outstanding_; }  ///< added, and no end settled
  /// Shows every request in its batch and what is written of its answer at `now`, at least: the
  /// token of an iteration under way is not. It has been advanced to `now`.
  void each_running(MonoTime now, const std::function<void(const Live&, Tokens)>& see) const;
  /// Of its usable blocks, what sequences hold at `now`; it has been advanced to `now`.
  double kv_share(MonoTime now) const;

  // Until the horizon:
  Duration busy() const;            ///< time in iterations
  double kv_share_seconds() const;  ///< kv_share integrated
  engine::EngineState state() const { return core_->state(); }

 private:
  explicit Server(Books& books) : books_(books) {}

  bool in_iteration(MonoTime now) const { return next_ ? *next_ > now : last_end_ > now; }
  void on_admitted(engine::SequenceId id, MonoTime at, Tokens cached) override;
  void on_first_token(engine::SequenceId id, MonoTime at) override;
  void on_finished(engine::SequenceId id, MonoTime at) override;
  void on_preempted(engine::SequenceId id, MonoTime at, Tokens generated) override;

  Books& books_;
  std::unique_ptr<engine::BatchEngine> core_;
  engine::PolicyScheduler* scheduler_ = nullptr;  // the core's, where the fleet has policies
  MonoTime horizon_ = kNever;
  std::optional<MonoTime> next_;  // when its next iteration may begin; nothing: it has no work
  MonoTime reached_;              // no iteration has begun at this time or later
  MonoTime last_end_;             // of its last iteration with an end in it
  MonoTime busy_since_;
  Duration busy_{0};  // of closed busy periods
  std::int64_t outstanding_ = 0;
  std::vector<End> ends_;  // from head_ on: not settled, in order
  std::size_t head_ = 0;
};

}  // namespace tailrace::simulate
