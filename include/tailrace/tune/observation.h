// What did one pod report over one interval, as far as learning its iteration time is concerned?
#pragma once

#include <optional>
#include <string>

#include "tailrace/queueing/service_model.h"

namespace tailrace::tune {

/// Unknown is empty, never 0. Numbers come from outside: they may be anything, NaN included.
struct Observation {
  double time_s = 0;  ///< end of the interval, on the caller's time line
  std::string pod;
  std::optional<double> rate_per_s, input_tokens, output_tokens, ttft_ms, itl_ms;  ///< means
  std::optional<double> running;    ///< mean batch size, where the engine exports it
  std::optional<double> requests;   ///< completed in the interval: how much the means are worth
  std::optional<double> output_cv;  ///< coefficient of variation of the answers' lengths
  std::optional<double> input_cv;
  std::optional<double> prefix_hit;  ///< share of prompt tokens found in the cache
  std::optional<double> waiting;     ///< requests waiting inside the engine at the interval's end
  /// By which a gap between tokens grows with one more sequence in the batch, at the same number of
  /// prompts, and its standard error as a share of it (core/token_pace.h).
  std::optional<double> itl_per_sequence_ms, itl_per_sequence_error;
};

/// Why an observation cannot teach anything; empty if it can. Rate, lengths, TTFT and ITL must be
/// finite and above 0 (specification 4.2; facts: a zero or a NaN is a missing metric).
std::optional<std::string> unusable(const Observation& observation);

/// Lengths and rate as the model takes them; unknown coefficients of variation count as 0.
/// `observation` must be usable.
queueing::Workload workload_of(const Observation& observation);

}  // namespace tailrace::tune
