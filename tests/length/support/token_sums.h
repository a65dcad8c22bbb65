// What do the definitions say, token by token?
//
// The survival in whole tokens and its sums, as arrays, for the caps that a test can afford.
#pragma once

#include <cstdint>
#include <vector>

#include "tailrace/length/length_law.h"

namespace tailrace::length::testing {

class TokenSums {
 public:
  TokenSums(const LengthLaw& law, std::int64_t cap);

  double survival(std::int64_t age) const { return survival_[static_cast<std::size_t>(age)]; }
  double mean_residual(std::int64_t age) const;
  double gittins_rank(std::int64_t age, std::int64_t quantum) const;  // walks to the cap
  std::int64_t residual_quantile(double p, std::int64_t age) const;

 private:
  std::int64_t cap_;
  std::vector<double> survival_;
  std::vector<double> rest_;  // sum of the survival from each age on
};

}  // namespace tailrace::length::testing
