// Which requests does a recorded trace hold, at the speed and as often as asked?
#pragma once

#include <memory>

#include "tailrace/simulate/workload.h"

namespace tailrace::simulate {

/// `spec.trace` is given. Ends at the trace's end alone. Errors: kInvalidArgument naming the field,
/// its value and what it may be; those of TraceReader. Files are opened, and read up to their first
/// request, at once.
Result<std::unique_ptr<Workload>> make_trace_workload(const WorkloadSpec& spec, const Rng& rng);

}  // namespace tailrace::simulate
