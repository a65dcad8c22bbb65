// Which numbers does the specification fix (section 8), and which do we add?
//
// Times in milliseconds unless the name says otherwise.
#pragma once

#include <cstdint>

namespace tailrace::capacity {

inline constexpr double kDefaultSloMultiplier = 3.0;  ///< k: utilisation 1 − 1/k = 0.67
inline constexpr std::int64_t kDefaultMaxBatchSize = 256;
inline constexpr std::int64_t kDefaultMaxQueueSize = 100;
inline constexpr double kDefaultFallbackHeadroom = 1.5;  ///< on observed latency, cold start
inline constexpr double kDefaultMaxFallbackTtftMs = 10000;
inline constexpr double kDefaultMaxFallbackItlMs = 500;
inline constexpr double kDefaultMaxNis = 7.378;  ///< the 97.5 % quantile of chi-square, two degrees
inline constexpr double kDefaultAlphaMs = 5.0;   ///< where the bootstrap fails
inline constexpr double kDefaultBetaMs = 0.05;
inline constexpr double kDefaultGammaMs = 0.00005;
inline constexpr double kBaseFactor = 0.9;  ///< of ITL that the bootstrap takes for alpha
inline constexpr double kTransientDelaySeconds = 120;

// Ours.
inline constexpr double kDefaultScaleUpThreshold = 0.85;    ///< of anticipated supply
inline constexpr double kDefaultScaleDownThreshold = 0.70;  ///< of present supply
inline constexpr double kDefaultDrainSeconds = 60;          ///< in which a backlog should be gone

}  // namespace tailrace::capacity
