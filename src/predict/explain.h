// What moved a prediction, in words for people?
//
// Reads the request once more with names, which the fast path never makes. What shares a weight
// cannot be told apart and is named together.
#pragma once

#include <cstddef>
#include <vector>

#include "predict/hierarchical_prior.h"
#include "predict/linear_model.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::predict {

/// The `limit` largest, in order of their size; those that move the answer by less than a percent
/// are left out.
std::vector<Influence> explain(const HierarchicalPrior& prior, const LinearModel& model,
                               const RequestFeatures& request, std::size_t limit);

}  // namespace tailrace::predict
