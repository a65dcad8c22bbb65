// Which series does the gateway export? The one list of them.
#pragma once

#include <cstddef>

namespace tailrace::gateway {

/// Index of a family in metric_catalogue().
enum class MetricId : std::size_t {
  kBuildInfo,
  kReady,
  kConnections,
  kAdminConnections,
  kExchanges,
  kArrivals,
  kRelayed,
  kRequests,
  kRefusals,
  kLeft,
  kRequestBytes,
  kResponseBytes,
  kQueueEntries,
  kQueueJobs,
  kQueueOutputTokens,
  kQueueBytes,
  kRunningJobs,
  kSlots,
  kOverdue,
  kRequeued,
  kWait,
  kTtft,
  kItl,
  kE2e,
  kPromptTokens,
  kPromptTokensSquared,
  kOutputTokens,
  kAnswerTokens,
  kAnswerTokensSquared,
  kUsageEventsDropped,
  kPredictions,
  kPredictionsPending,
  kPredictionsDropped,
  kCalibrated,
  kLogError,
  kScored,
  kCovered,
  kLearned,
  kBackendRunning,
  kBackendSlots,
  kBackendHealthy,
  kBackendRequests,
  kBackendErrors,
  kBackendBackoffs,
  kBackendStreams,
  kBackendItl,
  kBackendItlPerStream,
  kBackendItlPerStreamError,
  kCount,
};

}  // namespace tailrace::gateway
