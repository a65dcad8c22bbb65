// What must hold for the fit of any sample, not only for the ones we thought of.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "length/support/fit_vectors.h"
#include "tailrace/length/fit.h"

namespace tailrace::length {
namespace {

using testing::loglik_of;

constexpr Family kClosedForms[] = {Family::kLogT,    Family::kLogNormal,   Family::kGamma,
                                   Family::kWeibull, Family::kExponential, Family::kLomax};
const FitOptions kFreeNu{.nu = {}, .nu_min = 1, .nu_max = 200};

double real_in(double lo, double hi) {
  const auto step = *rc::gen::inRange<std::int64_t>(0, 1'000'001);
  return lo + (hi - lo) * static_cast<double>(step) / 1e6;
}

/// Lengths whose logarithms lie within `width` of `centre`, with many ties, and perhaps a cap that
/// cuts some, all, or none of them.
LengthSample any_sample(double centre, double width) {
  LengthSample sample{"any", {}, {}};
  const int n = *rc::gen::inRange(1, 40);
  const int distinct = *rc::gen::inRange(1, n + 1);
  std::vector<double> pool;
  for (int i = 0; i < distinct; ++i) {
    pool.push_back(std::exp(centre + width * real_in(-1, 1)));
  }
  if (*rc::gen::arbitrary<bool>() && centre - width > 0) {
    for (double& length : pool) length = std::ceil(length);
  }
  for (int i = 0; i < n; ++i) {
    sample.lengths.push_back(pool[static_cast<std::size_t>(*rc::gen::inRange(0, distinct))]);
  }
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      break;
    case 1:
      sample.cap = 2 * *std::max_element(sample.lengths.begin(), sample.lengths.end());
      break;
    default:
      sample.cap = sample.lengths[static_cast<std::size_t>(*rc::gen::inRange(0, n))];
      for (double& length : sample.lengths) length = std::min(length, *sample.cap);
  }
  return sample;
}

/// Like lengths of answers.
LengthSample plausible_sample() {
  return any_sample(real_in(2, 8), *rc::gen::element(0.01, 0.3, 1.0, 2.0));
}

void show(const LengthSample& sample) {
  RC_LOG() << "cap " << sample.cap.value_or(0) << ", lengths";
  for (const double length : sample.lengths) RC_LOG() << " " << length;
  RC_LOG() << "\n";
}

LengthLaw make(Family family, const std::vector<double>& p, double nu) {
  switch (family) {
    case Family::kLogT:
      return LengthLaw::log_t(p[0], p[1], nu).value();
    case Family::kLogNormal:
      return LengthLaw::log_normal(p[0], p[1]).value();
    case Family::kGamma:
      return LengthLaw::gamma(p[0], p[1]).value();
    case Family::kWeibull:
      return LengthLaw::weibull(p[0], p[1]).value();
    case Family::kExponential:
      return LengthLaw::exponential(p[0]).value();
    default:
      return LengthLaw::lomax(p[0], p[1]).value();
  }
}

RC_GTEST_PROP(FitProperty, NoNearbyLawIsLikelier, ()) {
  const LengthSample sample = plausible_sample();
  show(sample);
  for (const Family family : kClosedForms) {
    const FamilyFit fit = fit_family(family, sample).value();
    if (!fit.law) continue;
    RC_LOG() << fit.law->describe() << "\n";
    // A bound is not a maximum: beyond it the likelihood still rises.
    if (fit.at_bound) continue;
    std::vector<double> best;
    for (const Parameter& p : fit.law->parameters()) best.push_back(p.value);
    const double nu = family == Family::kLogT ? best[2] : 0;
    if (best.size() == 3) best.pop_back();
    const double top = loglik_of(*fit.law, sample);
    // The special functions of a law with a huge shape are good to fewer digits.
    const double slack = family == Family::kGamma && best[0] > 1e3 ? 1e-6 : 1e-9;
    const double noise = slack * (1 + std::fabs(top));
    RC_ASSERT(std::fabs(fit.loglik - top) <= noise);
    for (const double size : {1e-5, 1e-3, 0.1}) {
      for (const int first : {-1, 0, 1}) {
        for (const int second : {-1, 0, 1}) {
          std::vector<double> moved = best;
          const bool on_logs = family == Family::kLogT || family == Family::kLogNormal;
          if (on_logs) {
            moved[0] += first * size * best[1];
          } else {
            moved[0] *= std::exp(first * size);
          }
          if (moved.size() == 2) moved[1] *= std::exp(second * size);
          RC_ASSERT(loglik_of(make(family, moved, nu), sample) <= top + noise);
        }
      }
    }
  }
}

RC_GTEST_PROP(FitProperty, AnotherUnitOfLengthMovesOnlyTheScale, ()) {
  const LengthSample sample = plausible_sample();
  const double unit = std::exp(real_in(-3, 3));
  show(sample);
  LengthSample scaled = sample;
  if (sample.cap) scaled.cap = *sample.cap * unit;
  for (double& length : scaled.lengths) length *= unit;
  for (const Family family : kClosedForms) {
    const FamilyFit a = fit_family(family, sample).value();
    const FamilyFit b = fit_family(family, scaled).value();
    RC_ASSERT(a.law.has_value() == b.law.has_value());
    if (!a.law) continue;
    RC_LOG() << a.law->describe() << " and " << b.law->describe() << "\n";
    RC_ASSERT(a.at_bound == b.at_bound);
    const auto p = a.law->parameters();
    const auto q = b.law->parameters();
    for (std::size_t i = 0; i < p.size(); ++i) {
      const bool location = p[i].name == "mu";
      const bool scale = p[i].name == "scale";
      const double expected =
          location ? p[i].value + std::log(unit) : (scale ? p[i].value * unit : p[i].value);
      // A nearly exponential Lomax law has a flat top: only the law is well determined there.
      const double digits = family == Family::kLomax ? 1e-4 : 1e-7;
      RC_ASSERT(std::fabs(q[i].value - expected) <= digits * (1 + std::fabs(expected)));
    }
  }
}

RC_GTEST_PROP(FitProperty, ACapAboveEveryLengthChangesNothing, ()) {
  LengthSample sample = plausible_sample();
  sample.cap.reset();
  show(sample);
  LengthSample capped = sample;
  capped.cap =
      std::nextafter(*std::max_element(sample.lengths.begin(), sample.lengths.end()), 1e99);
  for (const Family family : kClosedForms) {
    const FamilyFit a = fit_family(family, sample).value();
    const FamilyFit b = fit_family(family, capped).value();
    RC_ASSERT(a.law == b.law);
    RC_ASSERT(a.loglik == b.loglik);
  }
  RC_ASSERT(fit_family(Family::kLogT, sample, kFreeNu)->law ==
            fit_family(Family::kLogT, capped, kFreeNu)->law);
}

RC_GTEST_PROP(FitProperty, OrderDoesNotMatter, ()) {
  const LengthSample sample = plausible_sample();
  LengthSample reversed = sample;
  std::reverse(reversed.lengths.begin(), reversed.lengths.end());
  for (const Family family : kClosedForms) {
    RC_ASSERT(fit_family(family, sample)->law == fit_family(family, reversed)->law);
  }
}

// With censored lengths there may be several maxima: the highest counts.
RC_GTEST_PROP(FitProperty, NoLawAnywhereIsLikelierThanTheCensoredFit, ()) {
  const LengthSample sample = plausible_sample();
  if (!sample.cap) return;
  show(sample);
  for (const Family family : {Family::kLogT, Family::kLogNormal}) {
    const FamilyFit fit = fit_family(family, sample).value();
    if (!fit.law) continue;
    RC_LOG() << fit.law->describe() << "\n";
    const double top = loglik_of(*fit.law, sample);
    const double low = std::log(*std::min_element(sample.lengths.begin(), sample.lengths.end()));
    const double range = std::log(*sample.cap) - low;
    for (double across = -0.5; across < 3; across += 0.05) {
      for (double sigma = 0.003; sigma < 10; sigma *= 1.3) {
        const LengthLaw other = make(family, {low + across * range, sigma * range}, 3.5);
        RC_ASSERT(loglik_of(other, sample) <= top + 1e-9 * (1 + std::fabs(top)));
      }
    }
  }
}

/// Up to four clusters, some far tighter than others, cut or not: where there are many maxima.
LengthSample clustered_sample() {
  LengthSample sample{"clusters", {}, {}};
  const int clusters = *rc::gen::inRange(1, 5);
  std::vector<double> centre, width;
  for (int i = 0; i < clusters; ++i) {
    centre.push_back(real_in(2, 8));
    width.push_back(std::pow(10, real_in(-9, 0.3)));
  }
  const bool whole = *rc::gen::arbitrary<bool>();
  const int n = *rc::gen::inRange(2, 33);
  for (int i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(*rc::gen::inRange(0, clusters));
    const double length = std::exp(centre[at] + width[at] * real_in(-1, 1));
    sample.lengths.push_back(whole ? std::ceil(length) : length);
  }
  if (*rc::gen::inRange(0, 4) > 0) {
    sample.cap = sample.lengths[static_cast<std::size_t>(*rc::gen::inRange(0, n))];
    for (double& length : sample.lengths) length = std::min(length, *sample.cap);
  }
  return sample;
}

RC_GTEST_PROP(FitProperty, NoLogTLawAnywhereIsLikelierAtAnyNu, ()) {
  const LengthSample sample = clustered_sample();
  show(sample);
  std::vector<double> places = sample.lengths;
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  for (double& place : places) place = std::log(place);
  for (std::size_t i = places.size() - 1; i > 0; --i) {
    places.push_back(0.5 * (places[i] + places[i - 1]));
  }
  places.push_back(places.front() - 1);
  places.push_back(std::log(*std::max_element(sample.lengths.begin(), sample.lengths.end())) + 1);
  const FamilyFit normal = fit_family(Family::kLogNormal, sample).value();
  for (const double nu : {0.2, 0.3, 0.5, 0.9, 3.5, 200.0, 1e6}) {
    const FamilyFit fit = fit_family(Family::kLogT, sample, {.nu = nu}).value();
    if (!fit.law) continue;
    RC_LOG() << fit.law->describe() << ": " << fit.loglik << "\n";
    const double allowed = fit.loglik + 1e-7 * (1 + std::fabs(fit.loglik));
    const auto loglik = [&](double mu, double sigma) {
      return loglik_of(LengthLaw::log_t(mu, sigma, nu).value(), sample);
    };
    for (const double mu : places) {
      for (double sigma = 1e-9; sigma < 10; sigma *= 3) RC_ASSERT(loglik(mu, sigma) <= allowed);
    }
    if (normal.law) {
      const auto p = normal.law->parameters();
      RC_ASSERT(loglik(p[0].value, p[1].value) <= allowed);
    }
  }
}

// Free nu can only do better than any fixed one.
RC_GTEST_PROP(FitProperty, FreeNuIsAtLeastAsLikelyAsAnyFixedNu, ()) {
  const LengthSample sample = plausible_sample();
  show(sample);
  const FamilyFit free = fit_family(Family::kLogT, sample, kFreeNu).value();
  if (!free.law) return;
  RC_LOG() << free.law->describe() << "\n";
  for (const double nu : {1.0, 1.3, 2.0, 3.5, 7.0, 20.0, 60.0, 200.0}) {
    const FamilyFit fixed = fit_family(Family::kLogT, sample, {.nu = nu}).value();
    if (!fixed.law) continue;
    RC_LOG() << fixed.law->describe() << ": " << fixed.loglik << " against " << free.loglik << "\n";
    RC_ASSERT(fixed.loglik <= free.loglik + 1e-9 * (1 + std::fabs(free.loglik)));
  }
}

RC_GTEST_PROP(FitProperty, AMixtureIsAtLeastAsLikelyAsItsNeighbours, ()) {
  const LengthSample sample = plausible_sample();
  show(sample);
  const FamilyFit fit = fit_family(Family::kMixture, sample).value();
  if (!fit.law) return;
  RC_LOG() << fit.law->describe() << "\n";
  const Mixture& parts = *fit.law->as_mixture();
  const double top = loglik_of(*fit.law, sample);
  RC_ASSERT(std::fabs(fit.loglik - top) <= 1e-8 * (1 + std::fabs(top)));
  RC_ASSERT(parts.weight >= 0.02 && parts.weight <= 0.98);
  if (fit.at_bound) return;
  const LogT a = *parts.first.as_log_t();
  const LogT b = *parts.second.as_log_t();
  const auto loglik = [&](double weight, double mu_a, double sigma_a, double mu_b, double sigma_b) {
    return loglik_of(LengthLaw::mixture(weight, LengthLaw::log_t(mu_a, sigma_a).value(),
                                        LengthLaw::log_t(mu_b, sigma_b).value())
                         .value(),
                     sample);
  };
  const double allowed = top + 1e-4;  // expectation-maximisation ends where it hardly climbs
  for (const double step : {-0.01, 0.01}) {
    const double grown = 1 + step;
    RC_ASSERT(loglik(parts.weight * grown, a.mu, a.sigma, b.mu, b.sigma) <= allowed);
    RC_ASSERT(loglik(parts.weight, a.mu + step * a.sigma, a.sigma, b.mu, b.sigma) <= allowed);
    RC_ASSERT(loglik(parts.weight, a.mu, a.sigma * grown, b.mu, b.sigma) <= allowed);
    RC_ASSERT(loglik(parts.weight, a.mu, a.sigma, b.mu + step * b.sigma, b.sigma) <= allowed);
    RC_ASSERT(loglik(parts.weight, a.mu, a.sigma, b.mu, b.sigma * grown) <= allowed);
  }
}

// Whatever the lengths: a law with finite numbers, or a reason.
RC_GTEST_PROP(FitProperty, EverySampleGetsALawOrAReason, ()) {
  const double width = *rc::gen::element(1e-15, 1e-9, 1e-3, 1.0, 30.0, 600.0);
  const LengthSample sample = any_sample(real_in(width - 690, 690 - width), width);
  show(sample);
  const auto check = [](const FamilyFit& fit) {
    RC_LOG() << family_name(fit.family) << ": " << (fit.law ? fit.law->describe() : fit.degenerate)
             << "\n";
    RC_ASSERT(fit.law.has_value() == fit.degenerate.empty());
    if (!fit.law) return;
    RC_ASSERT(std::isfinite(fit.loglik) && std::isfinite(fit.aic) && std::isfinite(fit.bic));
  };
  for (const Family family : kClosedForms) check(fit_family(family, sample).value());
  check(fit_family(Family::kLogT, sample, kFreeNu).value());
  check(fit_family(Family::kLogT, sample, {.nu = 0.1}).value());
  check(fit_family(Family::kLogT, sample, {.nu = 1e9}).value());
  check(fit_family(Family::kMixture, sample).value());
  const auto bins = fit_bins(sample);
  RC_ASSERT(bins.has_value());
  RC_ASSERT(std::isfinite(bins->quantile(0.5)));
}

}  // namespace
}  // namespace tailrace::length
