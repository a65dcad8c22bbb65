// What of a job decides its place?
//
// Kept by slot beside the jobs, 32 bytes a job, so that comparing and re-keying never touch a Job.
#pragma once

#include <compare>

#include "tailrace/core/strong.h"
#include "tailrace/core/time.h"
#include "tailrace/schedule/policy.h"

namespace tailrace::schedule {

/// What breaks ties.
struct Birth {
  MonoTime arrival;
  JobId id;
  friend auto operator<=>(const Birth&, const Birth&) = default;
};

struct Standing {
  Birth birth;
  Appraisal appraisal;
};

}  // namespace tailrace::schedule
