// What can be read off a request without understanding it?
//
// A bounded list of hashed features: words and word pairs at both ends of the prompt, its shape
// (digits, line breaks, question marks, script), numbers and categories. Text is hashed here and
// goes no further. Pure, no allocation after the first use of a FeatureList, about 5 µs for a
// kilobyte.
#pragma once

#include <cstdint>
#include <vector>

#include "tailrace/predict/predictor.h"

namespace tailrace::predict {

struct Feature {
  std::uint64_t hash = 0;
  float value = 0;
};

/// Upper bound on the features of one request, whatever it holds.
inline constexpr std::size_t kMaxFeatures = 384;

using FeatureList = std::vector<Feature>;

/// Fills `out` (cleared first): sorted by hash, each hash once.
void extract_features(const RequestFeatures& request, FeatureList& out);

}  // namespace tailrace::predict
