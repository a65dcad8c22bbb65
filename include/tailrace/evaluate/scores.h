// How well did one law foretell one length, and how well do many predictions order many lengths?
//
// Lengths are whole tokens: Xd = min(cap, max(1, ceil X)). The law's mass on length k is
// P(k − 1 < X ≤ k); on 1 all of P(X ≤ 1); on the cap the atom P(X > cap − 1). A length cut before
// the cap is known to be at least that long. Pure functions.
#pragma once

#include <span>

#include "tailrace/length/length_law.h"
#include "tailrace/predict/predictor.h"
#include "tailrace/report/rank_agreement.h"

namespace tailrace::evaluate {

/// A law that gave what happened no mass at all is scored as if it had given this much: −27.6.
inline constexpr double kMassFloor = 1e-12;

/// Where the length lies on the law's own scale: P(Xd < length) and P(Xd ≤ length). For a cut
/// answer the upper end is 1. A uniform draw in between is uniform on [0, 1] for a perfect law
/// (the randomised probability integral transform).
struct Place {
  double below = 0;
  double up_to = 1;
};
Place place_of(const length::LengthLaw& law, const predict::Observation& truth, Tokens cap);

/// ln of the law's mass on what was seen, at least ln kMassFloor.
double log_score(const Place& place);

/// max(p·(y − q), (p − 1)·(y − q)): the loss that the p-quantile of the truth minimises. Tokens.
double pinball_loss(double quantile, double length, double p);

using report::Agreement;
using report::order_agreement;

/// 1 − (squared error) / (squared error of the mean); 0 where the truth does not vary.
double r_squared(std::span<const double> predicted, std::span<const double> realised);

}  // namespace tailrace::evaluate
