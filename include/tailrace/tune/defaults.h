// With which constants does the published tuner learn (specification, section 8)?
//
// Those of sizing and of SLO resolution stand where they are used: batch and queue limits in
// queueing/service_model.h, the others in `capacity`.
#pragma once

#include <cstdint>

#include "tailrace/queueing/service_model.h"

namespace tailrace::tune {

/// DefaultMaxNIS: an update whose normalised innovation squared reaches it is rejected. It is the
/// 97.5 % quantile of chi-square with 2 degrees of freedom; the specification calls it the 95 %
/// one, which is 5.991.
inline constexpr double kMaxNis = 7.378;

/// DefaultAlpha, DefaultBeta, DefaultGamma: where the filter starts if the first observation allows
/// no guess.
inline constexpr queueing::IterationModel kDefaultStart{
    .alpha_ms = 5.0, .beta_ms = 0.05, .gamma_ms = 0.00005};

/// BaseFactor: the share of the first ITL that the published bootstrap takes for alpha.
inline constexpr double kBaseFactor = 0.9;

/// TransientDelaySeconds: how long after it was added a replica's latencies still tell of the
/// transition rather than of the hardware.
inline constexpr double kTransientDelaySeconds = 120;

/// Who may queue beside the batch in the filter's chain, for each sequence of the batch. Sizing
/// takes DefaultMaxQueueSize, 100, whatever the batch.
inline constexpr std::int64_t kFilterQueuePerSequence = 10;

/// gamma/beta where nothing is known: fits to real H100 engines lie at 1.4e-3 and 2.3e-3.
inline constexpr double kGammaPerBeta = 2e-3;

}  // namespace tailrace::tune
