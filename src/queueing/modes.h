// What does each mode say at one point? Callers have checked the arguments.
#pragma once

#include "tailrace/queueing/service_model.h"

namespace tailrace::queueing {

Latency closed_form(const IterationModel& model, const Workload& workload);
Latency chain(const IterationModel& model, const ServiceLimits& limits, const Workload& workload);
Latency corrected(const ServiceModel& model, const Workload& workload, Detail detail);

}  // namespace tailrace::queueing
