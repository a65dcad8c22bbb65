// Who must leave the batch, and for whom?
//
// Displacing a running job for a waiting one costs: its context is computed again, its reader
// waits, its memory was held for nothing. So a policy's order alone does not preempt; the gain must
// beat these limits as well. A job that is displaced has come further by at least the quantum since
// it was admitted, so every exchange of places lets the work advance and every run ends. Pure
// functions of what they are given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/core/strong.h"

namespace tailrace::schedule {

/// What is unset is chosen by the policy (preemption_limits).
struct PreemptionOptions {
  bool enabled = true;  ///< false: only memory preempts
  std::optional<std::uint64_t> review_iterations;
  std::optional<std::uint64_t> max_per_job;
  std::optional<double> hysteresis;
  std::optional<std::uint64_t> quantum;
};

struct PreemptionLimits {
  /// Engine iterations from one review to the next; 0: no review.
  std::int64_t review_iterations = 8;
  /// A job that was preempted so often, by a review or for want of memory, stays.
  std::int64_t max_per_job = 1;
  /// A waiting job displaces a running one only if its rank is below this share of the other's.
  double hysteresis = 0.25;
  /// Tokens that a job generates, from its admission on, before it may be displaced. At least 1.
  std::int64_t quantum = 16;
};

/// The limits for a policy: those of gittins are the outcome of docs/beyond-tie.md; the published
/// policies have those of their own studies (facts/scheduling.md 4), which preempt as they rank.
/// Errors: kInvalidArgument naming the option, its value and what it may be.
Result<PreemptionLimits> preemption_limits(std::string_view policy,
                                           const PreemptionOptions& options);

struct RunningJob {
  double key = 0;                ///< a logarithm (Policy::age_key), at its present age
  int priority = 0;              ///< higher is more urgent and goes before any key
  std::int64_t served = 0;       ///< tokens generated since it was admitted
  std::int64_t preemptions = 0;  ///< so far
  std::int64_t blocks = 0;       ///< KV blocks that its leaving would free
  bool stays = false;            ///< its policy protects it, or its context is not computed yet
};

struct WaitingJob {
  double key = 0;
  int priority = 0;
  std::int64_t blocks = 0;  ///< KV blocks that its admission would take
};

struct BatchRoom {
  std::int64_t free_slots = 0;
  std::int64_t free_blocks = 0;
};

/// Whether a job with this key and priority may take the place of another, with the hysteresis.
bool displaces(const WaitingJob& waiting, const RunningJob& running,
               const PreemptionLimits& limits);

/// The running jobs to preempt, as indices, worst first. Each waiting job in turn (`waiting` is in
/// the order of admission) takes free room, else the places of the worst running jobs that it
/// displaces. Where it needs the memory of several, their ranks count as those of servers in
/// parallel: what they lose together must be less than what it gains. It ends with the first that
/// finds no place, since none may overtake it. O(running · log + waiting).
std::vector<std::size_t> choose_preemptions(std::span<const RunningJob> running,
                                            std::span<const WaitingJob> waiting, BatchRoom room,
                                            const PreemptionLimits& limits);

/// Memory is short: the running job to preempt, as an index. The worst by (priority, key) of those
/// that may leave, else the worst of all; the later in the batch among equals. `running` is not
/// empty.
std::size_t choose_victim(std::span<const RunningJob> running);

}  // namespace tailrace::schedule
