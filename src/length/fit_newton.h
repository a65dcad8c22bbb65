// Where is a smooth function of two parameters greatest?
//
// Newton's method, made safe: where the function does not curve down, the step follows the absolute
// curvature; a step never loses height and never leaves the box. It always ends, and ends at full
// precision where the maximum is regular.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace tailrace::length {

/// A function of (a, b) at a point, with derivatives in (a/scale_a, b): the scale makes both
/// coordinates comparable.
struct LocalShape {
  double value = 0;
  double rounding = 0;  ///< how far `value` may be off: two that differ by less count as equal
  double scale_a = 1;
  double slope_a = 0, slope_b = 0;
  double curve_aa = 0, curve_ab = 0, curve_bb = 0;
};

struct Box {
  double low_a = -std::numeric_limits<double>::infinity();
  double high_a = std::numeric_limits<double>::infinity();
  double low_b = -std::numeric_limits<double>::infinity();
  double high_b = std::numeric_limits<double>::infinity();
};

struct Peak {
  double a = 0, b = 0;
  double value = 0;
  int steps = 0;
};

namespace newton {

inline constexpr int kMostSteps = 300;
inline constexpr int kMostHalvings = 60;
inline constexpr int kDrownedSteps = 3;
inline constexpr double kSmallestStep = 1e-11;  // quadratic convergence does the rest
inline constexpr double kLargestStep = 2;       // in units of scale_a, and of b
inline constexpr double kFlattest = 1e-9;       // curvature relative to the largest one

struct Step {
  double a = 0, b = 0;
};

/// Against the absolute curvature: uphill, whatever the signs.
inline Step uphill(const LocalShape& f, bool free_a, bool free_b) {
  const auto along = [](double slope, double curve) {
    return slope == 0 ? 0 : slope / std::max(std::fabs(curve), 1e-300);
  };
  if (!free_a && !free_b) return {};
  if (!free_b) return {along(f.slope_a, f.curve_aa), 0};
  if (!free_a) return {0, along(f.slope_b, f.curve_bb)};
  const double aa = -f.curve_aa, ab = -f.curve_ab, bb = -f.curve_bb;
  const double middle = 0.5 * (aa + bb);
  const double spread = std::hypot(0.5 * (aa - bb), ab);
  const double least = middle - spread;
  const double most = middle + spread;
  if (least > kFlattest * most) {
    const double det = aa * bb - ab * ab;
    return {(bb * f.slope_a - ab * f.slope_b) / det, (aa * f.slope_b - ab * f.slope_a) / det};
  }
  // Not concave here: along each eigenvector by its absolute curvature.
  const double angle = 0.5 * std::atan2(2 * ab, aa - bb);
  const double c = std::cos(angle), s = std::sin(angle);
  const double floor = kFlattest * std::max(std::fabs(least), std::fabs(most)) + 1e-300;
  const double first = (c * f.slope_a + s * f.slope_b) / std::max(std::fabs(most), floor);
  const double second = (-s * f.slope_a + c * f.slope_b) / std::max(std::fabs(least), floor);
  return {c * first - s * second, s * first + c * second};
}

}  // namespace newton

/// `shape(a, b)` gives the LocalShape; `most_steps` ends it early.
template <class F>
Peak climb(F&& shape, double a, double b, const Box& box = {},
           int most_steps = newton::kMostSteps) {
  a = std::clamp(a, box.low_a, box.high_a);
  b = std::clamp(b, box.low_b, box.high_b);
  LocalShape here = shape(a, b);
  int steps = 0;
  int drowned_steps = 0;
  double longest = newton::kLargestStep;
  for (; steps < most_steps; ++steps) {
    const bool free_a =
        !((a <= box.low_a && here.slope_a < 0) || (a >= box.high_a && here.slope_a > 0));
    const bool free_b =
        !((b <= box.low_b && here.slope_b < 0) || (b >= box.high_b && here.slope_b > 0));
    newton::Step step = newton::uphill(here, free_a, free_b);
    if (!std::isfinite(step.a) || !std::isfinite(step.b)) break;
    const double size = std::max(std::fabs(step.a), std::fabs(step.b));
    const bool last = size < newton::kSmallestStep;
    const bool cut = size > longest;
    if (cut) {
      step.a *= longest / size;
      step.b *= longest / size;
    }
    // Where the promised gain drowns in rounding, values no longer tell good steps from bad ones: a
    // few more whole steps, and no search.
    const double promised = 0.5 * (here.slope_a * step.a + here.slope_b * step.b);
    const bool drowned = promised <= here.rounding;
    if (drowned) ++drowned_steps;
    bool moved = false;
    double part = 1;
    const int tries = drowned ? 1 : newton::kMostHalvings;
    for (int i = 0; i < tries && !moved; ++i, part /= 2) {
      const double next_a = std::clamp(a + part * step.a * here.scale_a, box.low_a, box.high_a);
      const double next_b = std::clamp(b + part * step.b, box.low_b, box.high_b);
      if (next_a == a && next_b == b) break;
      const LocalShape next = shape(next_a, next_b);
      if (next.value >= here.value - 2 * here.rounding) {
        a = next_a;
        b = next_b;
        here = next;
        moved = true;
        // A long ridge: what is far in units of a narrow scale is reached by ever longer steps.
        longest = cut && i == 0 ? 2 * longest : newton::kLargestStep;
      }
    }
    if (last || !moved || drowned_steps == newton::kDrownedSteps) break;
  }
  return {a, b, here.value, steps};
}

}  // namespace tailrace::length
