// What is the law of the lengths seen so far, as a histogram?
//
// Counts of ended and of cut answers in log-spaced bins; one token each up to 16, then 8 % wide.
// The hazard of a bin is ended / at risk, so a cut answer counts as long as it was seen to live.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "tailrace/length/length_law.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::evaluate {

/// Upper edges of the bins, tokens, ascending.
std::span<const double> histogram_edges();

/// A hazard for each bin.
using Hazards = std::vector<double>;

/// Those of a broad law (a median of 150 tokens), for when nothing is known.
Hazards vague_hazards();

length::LengthLaw law_of(const Hazards& hazards);

class HazardHistogram {
 public:
  HazardHistogram();
  void add(const predict::Observation& observation, Tokens cap);
  /// The same, with an ended answer spread by a normal kernel of `width` in ln tokens.
  void add_spread(const predict::Observation& observation, Tokens cap, double width);
  /// `hazards` as these answers correct them: by a factor for each window of bins, from wide
  /// windows to single bins, each shrunk towards one while few answers ended there: a window with
  /// `prior_ends` ends counts for as much as what it corrects. Few answers so move the whole, many
  /// show every atom.
  Hazards sharpened(Hazards hazards, double prior_ends) const;

  /// Ended answers by bin, then cut ones.
  std::span<const float> counts() const { return counts_; }
  std::span<float> counts() { return counts_; }

 private:
  std::vector<float> counts_;
};

}  // namespace tailrace::evaluate
