// How few replicas would do, for somebody who knows the future?
//
// At each moment the cheapest mix of variants that keeps the targets at the highest rate from now
// until a replica ordered now can serve. What a mix keeps is measured, not computed: the largest
// constant rate at which 99 % of the requests meet both targets in the same simulator, behind the
// same dispatcher.
#pragma once

#include "autoscaler/scenario.h"

namespace tailrace::scenario {

/// By simulation: a few seconds.
double measure_largest_rate(const Scenario& scenario, const Mix& mix);

/// The cheapest by scenario.largest_rates; of two that cost the same the one with fewer replicas.
Mix cheapest_mix(const Scenario& scenario, double rate);

/// Integrated over a segment.
struct Clairvoyant {
  double engine_s = 0, cost_s = 0;
};
Clairvoyant clairvoyant(const Scenario& scenario, const Segment& segment);
/// Over all of them.
Clairvoyant clairvoyant(const Scenario& scenario);

}  // namespace tailrace::scenario
