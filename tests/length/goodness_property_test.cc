// What must hold for any lengths and any law they are compared with.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "tailrace/length/sample_fit.h"

namespace tailrace::length {
namespace {

constexpr double kSlack = 1e-9;

/// Few values, with ties, cut by a cap or not.
LengthSample any_sample() {
  LengthSample sample{"any", {}, std::nullopt};
  const int n = *rc::gen::inRange(1, 60);
  const int spread = *rc::gen::element(1, 3, 50, 5000);
  for (int i = 0; i < n; ++i) sample.lengths.push_back(*rc::gen::inRange(1, spread + 1));
  if (*rc::gen::arbitrary<bool>()) {
    const double cap = *rc::gen::inRange(1, spread + 1);
    for (double& length : sample.lengths) length = std::min(length, cap);
    sample.cap = cap;
  }
  return sample;
}

LengthLaw any_law() {
  const double scale = *rc::gen::inRange(1, 5000);
  const double shape = *rc::gen::element(0.2, 0.7, 1.0, 3.0, 40.0);
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      return LengthLaw::log_t(std::log(scale), shape).value();
    case 1:
      return LengthLaw::gamma(shape, scale).value();
    case 2:
      return LengthLaw::weibull(shape, scale).value();
    default:
      return LengthLaw::lomax(shape, scale).value();
  }
}

RC_GTEST_PROP(GoodnessProperty, DistancesAreProperAndBlindToOrder, ()) {
  LengthSample sample = any_sample();
  const LengthLaw law = any_law();
  const double d = ks_distance(sample, law);
  const double a2 = ad_distance(sample, law);
  RC_ASSERT(d >= 0 && d <= 1);
  RC_ASSERT(a2 >= 0 && std::isfinite(a2));
  std::reverse(sample.lengths.begin(), sample.lengths.end());
  RC_ASSERT(ks_distance(sample, law) == d);
  RC_ASSERT(ad_distance(sample, law) == a2);
}

RC_GTEST_PROP(GoodnessProperty, CuttingASampleBringsItNoFurtherFromTheLaw, ()) {
  LengthSample sample = any_sample();
  sample.cap.reset();
  const LengthLaw law = any_law();
  LengthSample cut = sample;
  cut.cap = *rc::gen::element<double>(1, 2, 10, 100, 1000);
  for (double& length : cut.lengths) length = std::min(length, *cut.cap);
  RC_ASSERT(ks_distance(cut, law) <= ks_distance(sample, law) + kSlack);
  RC_ASSERT(ad_distance(cut, law) <= ad_distance(sample, law) * (1 + kSlack) + kSlack);
}

RC_GTEST_PROP(GoodnessProperty, PValuesAreProbabilitiesThatFallWithTheDistance, ()) {
  const auto n = static_cast<std::size_t>(*rc::gen::inRange(1, 3000));
  const double d = *rc::gen::inRange(0, 1001) / 1000.0;
  const double p = ks_p_value(d, n);
  RC_ASSERT(p >= 0 && p <= 1);
  RC_ASSERT(ks_p_value(d + 0.01, n) <= p + 1e-12);
  const auto fitted = ks_p_value_fitted(Family::kWeibull, std::nullopt, d, n);
  RC_ASSERT(fitted.has_value() == (n >= 5));
  if (fitted) RC_ASSERT(*fitted >= 0.001 - kSlack && *fitted <= 0.999 + kSlack);
}

RC_GTEST_PROP(GoodnessProperty, ShapesStayWithinTheirBounds, ()) {
  const LengthSample sample = any_sample();
  const SampleShape shape = describe_sample(sample);
  const auto [least, most] = std::minmax_element(sample.lengths.begin(), sample.lengths.end());
  RC_ASSERT(shape.mean >= *least * (1 - kSlack) && shape.mean <= *most * (1 + kSlack));
  RC_ASSERT(shape.p50 <= shape.p90 && shape.p90 <= shape.p99 && shape.p99 <= *most);
  RC_ASSERT(shape.top_tenth_share >= 0.1 - kSlack && shape.top_tenth_share <= 1);
  RC_ASSERT((shape.cv > 0) == (shape.distinct > 1));
  RC_ASSERT(shape.n_capped <= shape.n);
}

RC_GTEST_PROP(GoodnessProperty, AnySampleIsFittedAndMeasuredOrSaidToBeDegenerate, ()) {
  constexpr Family kAll[] = {Family::kLogT,    Family::kLogNormal,   Family::kGamma,
                             Family::kWeibull, Family::kExponential, Family::kLomax};
  const SampleFit fit = fit_sample(any_sample(), kAll, {}, 3, Rng(1)).value();
  for (const FittedFamily& family : fit.fits) {
    RC_ASSERT(family.fit.law.has_value() == family.fit.degenerate.empty());
    RC_ASSERT(family.fit.law.has_value() == family.ks_d.has_value());
    if (family.ks_p_fitted) RC_ASSERT(*family.ks_p_fitted > 0 && *family.ks_p_fitted <= 1);
  }
}

}  // namespace
}  // namespace tailrace::length
