// How few replicas would do, for somebody who knows the future?
//
// At each moment the cheapest mix of variants that keeps the targets at the highest rate from now
// until a replica ordered now can serve. What a mix keeps is measured, not computed: the largest
// constant rate at which 99 % of the requests meet both targets in the same simulator, behind the
// same dispatcher.
#pragma once

#include "autoscaler/scenario.h"

namespace tailrace::scenario {

struct Mix {
  int tp4 = 0, tp8 = 0;

  int replicas() const { return tp4 + tp8; }
};

/// By simulation: a few seconds.
double measure_largest_rate(const Mix& mix);
/// As measure_largest_rate() found them.
double largest_rate(const Mix& mix);

/// The cheapest; of two that cost the same the one with fewer replicas.
Mix cheapest_mix(double rate);

/// Replicas integrated over the whole profile.
double clairvoyant_engine_s(const std::vector<simulate::RatePoint>& profile, double duration_s);
/// The same in units of cost.
double clairvoyant_cost_s(const std::vector<simulate::RatePoint>& profile, double duration_s);

inline constexpr int kTp4Max = 4, kTp8Max = 6;

}  // namespace tailrace::scenario
