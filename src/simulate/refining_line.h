// What if the length of an answer were predicted again while it is written (TRAIL, ELIS)?
//
// Stands between an engine and its PolicyScheduler, passes everything on, and before each review
// asks the predictor anew for those that have written `refine_every` tokens more. A prediction
// matters only where somebody acts on it, so a policy that never reviews is never told. One thread.
#pragma once

#include <memory>

#include "simulate/live_table.h"
#include "tailrace/engine/policy_scheduler.h"
#include "tailrace/simulate/predictor.h"

namespace tailrace::simulate {

/// `predictor` and `live` outlive it.
std::unique_ptr<engine::BatchScheduler> make_refining_line(
    std::unique_ptr<engine::PolicyScheduler> inner, std::int64_t refine_every,
    LengthPredictor& predictor, LiveTable& live);

}  // namespace tailrace::simulate
