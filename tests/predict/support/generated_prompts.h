// Prompts from templates with answers whose lengths follow known laws: a data set that every clone
// has.
#pragma once

#include <cstdint>
#include <vector>

#include "tailrace/core/rng.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::predict::testing {

struct GeneratedRequest {
  RequestFeatures features;
  std::int64_t length = 0;  ///< uncapped, ≥ 1
};

/// Seven kinds of task, from one-line facts to long stories; some name the wanted number of words.
std::vector<GeneratedRequest> generate_requests(Rng rng, std::size_t count);

/// The same prompts, with the lengths dealt out anew.
std::vector<GeneratedRequest> with_lengths_permuted(std::vector<GeneratedRequest> requests,
                                                    Rng rng);

}  // namespace tailrace::predict::testing
