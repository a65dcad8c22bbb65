// Which numbers does the specification fix (section 8), and which do we add?
//
// Times in milliseconds unless the name says otherwise.
#pragma once

#include <cstdint>

#include "tailrace/tune/defaults.h"

namespace tailrace::capacity {

inline constexpr double kDefaultSloMultiplier = 3.0;  ///< k: utilisation 1 − 1/k = 0.67
inline constexpr std::int64_t kDefaultMaxBatchSize = 256;
inline constexpr std::int64_t kDefaultMaxQueueSize = 100;
inline constexpr double kDefaultFallbackHeadroom = 1.5;  ///< on observed latency, cold start
inline constexpr double kDefaultMaxFallbackTtftMs = 10000;
inline constexpr double kDefaultMaxFallbackItlMs = 500;

// Those of the tuner are its own; here so that the whole table stands in one place.
inline constexpr double kDefaultMaxNis = tune::kMaxNis;
inline constexpr double kDefaultAlphaMs = tune::kDefaultStart.alpha_ms;
inline constexpr double kDefaultBetaMs = tune::kDefaultStart.beta_ms;
inline constexpr double kDefaultGammaMs = tune::kDefaultStart.gamma_ms;
inline constexpr double kBaseFactor = tune::kBaseFactor;
inline constexpr double kTransientDelaySeconds = tune::kTransientDelaySeconds;

// Ours.
inline constexpr double kDefaultScaleUpThreshold = 0.85;    ///< of anticipated supply
inline constexpr double kDefaultScaleDownThreshold = 0.70;  ///< of present supply
inline constexpr double kDefaultDrainSeconds = 60;          ///< in which a backlog should be gone
inline constexpr double kDefaultDemandMargin = 1;           ///< standard errors of a forecast
inline constexpr double kDefaultRetentionSeconds = 600;     ///< without a request, until zero

}  // namespace tailrace::capacity
