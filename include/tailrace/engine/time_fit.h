// Which alpha, beta and knee describe the iteration times that somebody measured?
//
// A GPU that waits for its weights takes the same time for few tokens as for one, then time grows
// by beta a token: ms = alpha + beta · max(0, tokens − knee). The fit has the least squares of
// relative errors, so that a short iteration counts as much as a long one.
#pragma once

#include <span>

#include "tailrace/core/result.h"

namespace tailrace::engine {

struct IterationSample {
  double tokens = 0;  ///< computed in the iteration, ≥ 1
  double ms = 0;      ///< > 0
};

struct TimeFit {
  double alpha_ms = 0;
  double beta_ms = 0;       ///< ≥ 0
  double knee_tokens = 0;   ///< at most the second largest of the tokens measured
  double rms_error = 0;     ///< root mean square of fitted / measured − 1
  double worst_error = 0;   ///< the largest |fitted / measured − 1| …
  double worst_tokens = 0;  ///< … and where it is
};

/// `samples` in any order. Errors: kInvalidArgument when there are fewer than three, more than
/// 1,000, two for one number of tokens, or a number that is not in 1 to 1e9 (ms: 1e-6 to 1e9).
Result<TimeFit> fit_iteration_times(std::span<const IterationSample> samples);

}  // namespace tailrace::engine
