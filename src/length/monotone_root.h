// Where does a rising function cross zero?
//
// Newton's steps inside a bracket that only shrinks; a step that leaves it, or gains too little,
// becomes a bisection, so that a jump or a plateau costs time but never the answer.
#pragma once

#include <algorithm>
#include <cmath>

namespace tailrace::length {

struct ValueAndSlope {
  double value = 0;
  double slope = 0;
};

/// `f` rises on [lo, hi] and crosses zero there; an end is returned where it does not. The answer
/// is as exact as `f`, or as a double is.
template <class F>
double monotone_root(const F& f, double lo, double hi, double guess) {
  constexpr int kMost = 300;  // 60 bisections, were each step of Newton's refused after it failed
  double x = std::clamp(guess, lo, hi);
  double width = hi - lo;
  double last_step = width;
  for (int i = 1; i <= kMost; ++i) {
    const ValueAndSlope at = f(x);
    if (at.value == 0) return x;
    (at.value > 0 ? hi : lo) = x;
    const double next = x - at.value / at.slope;
    const double step = std::fabs(next - x);
    const double ulp = 2.3e-16 * std::fabs(x);
    // As near as doubles go, or as f's own rounding lets it come.
    if (step <= ulp || (step <= 1e3 * ulp && step >= 0.25 * last_step)) {
      return std::clamp(next, lo, hi);
    }
    last_step = step;
    bool newton = next > lo && next < hi;
    if (i % 4 == 0) {
      newton = newton && (hi - lo <= 0.5 * width || step <= 1e6 * ulp);
      width = hi - lo;
    }
    x = newton ? next : lo + 0.5 * (hi - lo);
    if (x <= lo || x >= hi) return x;  // neighbouring doubles
  }
  return x;
}

}  // namespace tailrace::length
