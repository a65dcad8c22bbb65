// Can this run be simulated at all?
#pragma once

#include <cstdint>

#include "tailrace/simulate/simulation.h"

namespace tailrace::simulate {

/// Errors: kInvalidArgument naming the field, its value and what it may be. Workload, predictor and
/// policies are checked by those who make them.
Result<void> check_run_spec(const RunSpec& spec);

/// Job::prefix of a request whose prefix is known down to `depth` ids.
std::uint64_t prefix_key(const Request& request, int depth);

}  // namespace tailrace::simulate
