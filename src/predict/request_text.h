// What can be read off a request without understanding it?
//
// A bounded list of hashed features: words at both ends of the prompt, the amounts it asks for, its
// shape (digits, line breaks, question marks, script), the prompt as a whole if it was seen before,
// the model's name and its relatives', limits, sampling, and what the conversation's earlier
// answers were like. Text is hashed here and goes no further. Pure; about 7 µs for a kilobyte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "predict/feature_kinds.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::predict {

struct Feature {
  std::uint64_t hash = 0;
  float value = 0;
  Part part = Part::kCall;
};

/// Upper bound on the features of one request, whatever it holds.
inline constexpr std::size_t kMaxFeatures = 512;

using FeatureList = std::vector<Feature>;

/// Fills `out` (cleared first): sorted by hash, each hash once. No allocation once `out` has its
/// size.
void extract_features(const RequestFeatures& request, FeatureList& out);

struct NamedFeature {
  Feature feature;
  Kind kind = Kind::kBias;
  std::string name;  ///< "word 'essay'", "asks for 500 words", "model 'gpt-4'"; printable, bounded
};

/// The same features with names for people, in the order in which they were read; several may share
/// a name or a hash. Slow: allocates.
std::vector<NamedFeature> name_features(const RequestFeatures& request);

}  // namespace tailrace::predict
