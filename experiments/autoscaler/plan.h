// What must processes be told to live through a scenario?
#pragma once

#include <cstdint>
#include <string>

#include "autoscaler/scenario.h"

namespace tailrace::scenario {

/// One JSON document: load, variants with their engines' times, targets, and the clairvoyant.
/// All in the scenario's own seconds and milliseconds.
std::string plan_json(const Scenario& scenario);

/// The requests, one line each as `tailrace load --requests` reads them: `warm_up_s` seconds of the
/// base load, then the scenario.
std::string plan_requests(const Scenario& scenario, double warm_up_s, std::uint64_t seed);

}  // namespace tailrace::scenario
