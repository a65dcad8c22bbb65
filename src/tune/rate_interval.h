// Between which rates does one replica still keep its targets, if the parameters are only known
// with a covariance?
#pragma once

#include <array>
#include <optional>

#include "tailrace/queueing/service_model.h"

namespace tailrace::tune {

struct RateInterval {
  double rate_per_s = 0;
  std::optional<double> low_per_s, high_per_s;  ///< 90 %; empty where the slope is not known
};

/// `model.iteration` is the estimate, `covariance` that of (alpha, beta, gamma), row by row. The
/// interval is log-normal, its width by the slope of the rate at the estimate. A target of 0 is
/// none; without any, those are TTFT and ITL at 0.8 of the model's own maximum rate. Empty where no
/// rate keeps the targets.
std::optional<RateInterval> rate_interval(const queueing::ServiceModel& model,
                                          const queueing::Workload& lengths, double ttft_ms,
                                          double itl_ms,
                                          const std::optional<std::array<double, 9>>& covariance);

}  // namespace tailrace::tune
