// Which requests would the clients that ServeGen describes have sent?
#pragma once

#include <memory>

#include "tailrace/simulate/workload.h"

namespace tailrace::simulate {

/// `spec.servegen` is given. Ends with the last window alone. Errors: kInvalidArgument naming the
/// field, its value and what it may be; those of read_servegen.
Result<std::unique_ptr<Workload>> make_servegen_workload(const WorkloadSpec& spec, const Rng& rng);

}  // namespace tailrace::simulate
