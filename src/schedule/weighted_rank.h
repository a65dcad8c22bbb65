// What is a job's Gittins rank when a short answer's wait counts for more than a long one's?
//
// The Gittins rank minimises the mean of waits. Where each wait counts for length^−exponent
// (exponent 1: latency per token), the index is the same with that reward for ending: the least,
// over stops b ≥ age + quantum, of the service expected until b over the reward expected until b.
// Its unit is tokens^(1 + exponent); the rank is its root, in tokens again, so that a length known
// to be L has rank (L − age)^(1/(1+e)) · L^(e/(1+e)). Exponent 0 is the Gittins rank itself.
#pragma once

#include <vector>

#include "tailrace/length/residual_table.h"

namespace tailrace::schedule {

/// Ranks of one law at any age, each computed when it is first asked for. Stops and ages lie on a
/// grid, 6 % of the distance to the nearer end apart; between two of its ages the logarithm of the
/// rank is linear. Some 50 µs to build, 1 µs for an age that was not asked for yet. One thread.
class WeightedRank {
 public:
  WeightedRank(const length::LengthLaw& law, Tokens cap, Tokens quantum, double exponent);

  /// 0 ≤ age < cap. Positive and finite.
  double at(Tokens age);

 private:
  double log_rank(std::size_t point);

  double cap_;
  double quantum_;
  double exponent_;
  std::vector<double> ages_;      // the last is the cap
  std::vector<double> rest_;      // sum of P(L > k) over k from the age on
  std::vector<double> reward_;    // E[L^−exponent; L > age]
  std::vector<double> log_rank_;  // NaN where nobody has asked yet
};

}  // namespace tailrace::schedule
