// What does the law say in whole tokens, the unit in which an engine generates?
//
// Xd = min(cap, max(1, ceil X)), so P(Xd > k) = P(X > k) for 1 ≤ k < cap, 1 at 0 and 0 at the cap.
// Sums over token counts are exact where the law changes within a few tokens and by Euler-Maclaurin
// where it is smooth, so that their cost does not grow with the cap. Any family; arguments as in
// LengthLaw.
#pragma once

#include <cstdint>

#include "tailrace/length/length_law.h"

namespace tailrace::length {

double mean_residual(const LengthLaw& law, std::int64_t age, std::int64_t cap);
double mean_inverse(const LengthLaw& law, std::int64_t cap);
double gittins_rank(const LengthLaw& law, std::int64_t age, std::int64_t cap, std::int64_t quantum);
std::int64_t residual_quantile(const LengthLaw& law, double p, std::int64_t age, std::int64_t cap);

}  // namespace tailrace::length
