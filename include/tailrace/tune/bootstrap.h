// Where does an estimator start, when all it knows of a variant is its first observation?
//
// Two answers, both by inverting the closed form's TTFT and ITL (specification 9.4). The published
// one assumes an idle replica and a tenth of ITL for decode work; on real hardware that makes gamma
// 15 to 80 times too large. The load-aware one uses the measured rate instead, and assumes gamma
// per beta. Pure functions.
#pragma once

#include "tailrace/core/result.h"
#include "tailrace/queueing/service_model.h"
#include "tailrace/tune/defaults.h"

namespace tailrace::tune {

/// Specification 9.5: alpha = BaseFactor · ITL, beta and gamma from the two equations at rho = 0.
/// The workload's rate is not used. Errors: kInvalidArgument saying which parameter came out at 0
/// or below; the filter then starts at kDefaultStart.
Result<queueing::IterationModel> published_bootstrap(const queueing::Workload& workload,
                                                     double ttft_ms, double itl_ms);

struct LoadAwareGuess {
  queueing::IterationModel values;
  double iteration_ms = 0;  ///< alpha / (1 − rho)
  double rho = 0;           ///< at the measured rate, below 1
};

/// beta from TTFT − ITL, where alpha and rho cancel, with gamma = `gamma_per_beta` · beta; then the
/// iteration time from TTFT, rho from the measured rate, alpha = iteration · (1 − rho). No
/// assumption of light load. Errors: kInvalidArgument where TTFT is not above ITL, the prompt is
/// too short (i ≤ 1 + r(o + 1)/2), or the guess saturates below the measured rate.
Result<LoadAwareGuess> load_aware_bootstrap(const queueing::Workload& workload, double ttft_ms,
                                            double itl_ms, double gamma_per_beta = kGammaPerBeta);

}  // namespace tailrace::tune
