// Does a prediction put things into the order that they turned out to have?
#pragma once

#include <span>

namespace tailrace::report {

struct Agreement {
  double tau_b = 0;          ///< Kendall's, −1 to 1; 0 where either side is constant
  double pair_accuracy = 0;  ///< share of pairs of different length that are ranked rightly; ties ½
};
/// O(n log n). Sizes must be equal.
Agreement order_agreement(std::span<const double> predicted, std::span<const double> realised);

}  // namespace tailrace::report
