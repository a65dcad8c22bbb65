// Who must leave the batch, and for whom?
//
// Displacing a running job for a waiting one costs: its context is computed again, its reader
// waits, its memory was held for nothing. So a policy's order alone does not preempt; it must beat
// these limits as well. Pure functions of what they are given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/core/strong.h"

namespace tailrace::schedule {

struct PreemptionOptions {
  bool enabled = true;                 ///< false: only memory preempts
  std::int64_t review_iterations = 8;  ///< engine iterations from one review to the next
  std::int64_t max_per_job = 2;        ///< preemptions that one job suffers at most by review
};

}  // namespace tailrace::schedule
