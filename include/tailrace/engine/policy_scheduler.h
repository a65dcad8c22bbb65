// What if an engine's own waiting line followed tailrace's policies?
//
// PolicyScheduler is to BatchEngine what a scheduler class is to vLLM: it keeps the waiting line in
// a schedule::WaitingQueue, the one that the gateway uses, and where the policy is age-aware it
// reviews the running batch and sends back those whose place others deserve more. Whom it sends
// back is decided by schedule::choose_preemptions (preemption.h). Jobs are described to it before
// the engine's add(); one that is not has no law and counts by its view alone. One thread, no
// clock.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tailrace/engine/batch_scheduler.h"
#include "tailrace/schedule/job.h"
#include "tailrace/schedule/policy.h"
#include "tailrace/schedule/preemption.h"

namespace tailrace::engine {

struct PolicySchedulerOptions {
  std::string policy = "tie";
  schedule::PolicyOptions policy_options;
  schedule::PreemptionOptions preemption;
  std::optional<Duration> waiting_bound;
  std::size_t slots = 256;  ///< the engine's max_num_seqs: what TIE's adaptive beta divides by
};

class PolicyScheduler : public BatchScheduler {
 public:
  /// Errors: kInvalidArgument (unknown policy, an option out of range).
  static Result<std::unique_ptr<PolicyScheduler>> make(const PolicySchedulerOptions& options);

  /// What is known of a sequence that add() will bring: `job.id` is the sequence's id. Forgotten
  /// when the sequence ends.
  virtual void describe(schedule::Job job) = 0;
  /// A prediction has arrived, or a better one. Unknown ids are ignored.
  virtual void set_law(SequenceId id, const length::LengthLaw& law, MonoTime now) = 0;
};

}  // namespace tailrace::engine
