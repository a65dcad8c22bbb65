// What do the chain's authors say since they no longer charge a request's own work twice?
//
// For comparison only: prompts that fit into one iteration. Nothing in tailrace decides by it.
#pragma once

#include "tailrace/queueing/service_model.h"

namespace tailrace::queueing::testing {

Latency revised_chain(const ServiceModel& model, const Workload& workload);

}  // namespace tailrace::queueing::testing
