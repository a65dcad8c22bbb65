// Does a recommendation of this moment stand long enough, and how far may replicas move at once?
//
// Windows are over raw recommendations, not a pause after the last change: a decrease takes the
// largest recommendation of its window, an increase the smallest of its own. Step caps are over
// changes of replicas that were observed, by whoever made them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "tailrace/capacity/decision.h"
#include "tailrace/core/result.h"

namespace tailrace::capacity {

/// How far replicas may move within `period_s`. Where both are set the larger one holds; where
/// neither is, any distance.
struct StepCap {
  std::optional<std::int64_t> pods;
  std::optional<double> percent;  ///< of the replicas at the period's beginning; rounded up
  double period_s = 60;
};

struct StabilisationConfig {
  double down_window_s = 300, up_window_s = 0;
  StepCap up{.pods = 4, .percent = 100, .period_s = 60};
  StepCap down;

  /// Errors: kInvalidArgument naming the field, its value and what it may be.
  Result<void> check() const;
};

/// Keeps the recommendations and changes of one writer's variants: a bounded number each, of
/// variants seen within the windows. A variant seen for the first time is taken to have been
/// recommended its observed replicas, so a restart shrinks nothing before its window has passed.
class Stabiliser {
 public:
  /// `config` as check() accepts it.
  explicit Stabiliser(StabilisationConfig config);

  /// One cycle's decisions of all models. `now_s` does not decrease. Decisions that are not
  /// `informed` hold and leave no recommendation behind.
  void apply(double now_s, std::span<Decision> decisions);

  /// What it remembers holds on: a longer window reaches no further back than the one before did.
  void configure(const StabilisationConfig& config) { config_ = config; }

  struct Mark {
    double time_s = 0;
    std::int64_t replicas = 0;
  };
  struct History {
    std::deque<Mark> largest, smallest;  ///< candidates of a window's maximum and minimum
    std::deque<Mark> grown, shrunk;      ///< observed changes
    std::int64_t observed = 0;
    double seen_s = 0;
  };
  using Histories = std::map<std::tuple<ModelKey, std::string>, History>;
  /// All that it goes on from.
  const Histories& histories() const { return histories_; }
  void restore(Histories histories) { histories_ = std::move(histories); }

 private:
  void observe(History& history, const Decision& decision);
  void stabilise(History& history, Decision& decision) const;
  void cap_step(const History& history, Decision& decision) const;

  StabilisationConfig config_;
  double now_s_ = 0;
  Histories histories_;
};

}  // namespace tailrace::capacity
