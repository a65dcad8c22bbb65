// Where in the catalogue is a series?
#pragma once

#include <cstddef>

namespace tailrace::autoscaler {

enum class SeriesId : std::size_t {
  kWvaDesired,
  kWvaCurrent,
  kWvaRatio,
  kWvaScaling,
  kWvaDuration,
  kWvaModels,
  kWvaLimited,
  kWvaEnforced,
  kWvaRequired,
  kWvaSpare,
  kWvaInterval,
  kBuild,
  kLeader,
  kCycles,
  kCycleTime,
  kCycleDuration,
  kBlind,
  kConditions,
  kDropped,
  kDesired,
  kCurrent,
  kPending,
  kInformed,
  kDecision,
  kAlpha,
  kBeta,
  kGamma,
  kIdentified,
  kCondition,
  kNis,
  kHoldout,
  kRate,
  kRateBounds,
  kUtilization,
  kDataAge,
  kActive,
  kSlo,
  kDemand,
  kBacklog,
  kSupply,
  kRequired,
  kSpare,
  kCount,
};

}  // namespace tailrace::autoscaler
