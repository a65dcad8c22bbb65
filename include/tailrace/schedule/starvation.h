// Which jobs has an engine left idle for too many iterations?
//
// An IdleCounter follows the jobs of one engine under a policy's StarvationRule (Policy::
// starvation_rule): a job's idle iterations add up while it waits, over all its stays in the line.
// At the rule's limit it is promoted: its owner puts it before all others (a higher priority) and
// does not preempt it. Its count starts again from zero, and once it has run for the rule's
// iterations it is demoted. The counter acts on nothing; no clock. O(log n) a call, and advance()
// O(log n) for each job that it names, none for those that merely go on waiting.
#pragma once

#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tailrace/core/strong.h"
#include "tailrace/schedule/policy.h"

namespace tailrace::schedule {

class IdleCounter {
 public:
  explicit IdleCounter(const StarvationRule& rule) : rule_(rule) {}

  // `iteration` is the number of the one about to begin; it never falls from call to call.

  /// A job joins the waiting line, or returns to it.
  void waits(JobId id, std::int64_t iteration);
  /// It is in the batch from this iteration on. Unknown ids begin here.
  void runs(JobId id, std::int64_t iteration);
  /// Forgets it.
  void ended(JobId id);

  struct Changes {
    std::vector<JobId> promoted, demoted;  ///< the earlier due first, then the smaller id
  };
  /// Who has changed by the beginning of this iteration.
  Changes advance(std::int64_t iteration);

  bool promoted(JobId id) const;

 private:
  struct State {
    bool running = false;
    bool promoted = false;
    std::int64_t since = 0;  // the iteration at which it began to wait or to run
    std::int64_t idle = 0;   // iterations, before `since`
    std::int64_t left = 0;   // iterations to run, from `since` on, while promoted
    std::int64_t due = kNever;
  };
  static constexpr std::int64_t kNever = INT64_MAX;

  /// The state with what has passed since it last changed accounted for.
  State& settled(JobId id, std::int64_t iteration);
  void set_due(JobId id, State& state, std::int64_t due);

  StarvationRule rule_;
  std::unordered_map<JobId, State> states_;          // looked up, never iterated
  std::set<std::pair<std::int64_t, JobId>> by_due_;  // of those that will change by themselves
};

}  // namespace tailrace::schedule
