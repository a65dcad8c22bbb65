// What do the predictors that learn in place share?
#pragma once

#include <optional>

#include "predict/hierarchical_prior.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::predict {

/// The log length to learn from; nothing where the observation says nothing (no length, or cut
/// before the first token).
std::optional<double> learnable(const Observation& observation);

/// The nearest law within the bounds of what a LengthLaw and the scheduler's table can use.
Law bounded(const Law& law);

/// Within the bounds of what a LengthLaw and the scheduler's table can use.
Prediction to_prediction(const Law& law, bool calibrated);

/// Options out of range are brought to the nearest bound: they come from a configuration that was
/// checked.
PredictorOptions sane(PredictorOptions options);

tl::unexpected<Error> damaged_payload();

}  // namespace tailrace::predict
