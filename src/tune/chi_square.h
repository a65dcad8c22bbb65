// How far off may a normal error be before it is called wrong?
#pragma once

namespace tailrace::tune {

/// The value that a chi-square variable of `freedom` ≥ 1 degrees stays below with probability
/// `probability`, in (0, 1).
double chi_square_quantile(double probability, int freedom);

}  // namespace tailrace::tune
