// The estimators behind make_estimator(). Callers have checked the configuration.
#pragma once

#include <memory>

#include "tailrace/tune/estimator.h"

namespace tailrace::tune {

std::unique_ptr<Estimator> make_kalman(const TuneConfig& config);
std::unique_ptr<Estimator> make_windowed(const TuneConfig& config);

}  // namespace tailrace::tune
