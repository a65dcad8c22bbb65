// The laws on the log scale: log-t, its nu fixed or free, and log-normal.
#include <fmt/core.h>

#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>

#include "length/fit_families.h"
#include "length/fit_location_scale.h"

namespace tailrace::length {
namespace {

constexpr int kNuGrid = 13;             // values of nu tried before the root is sought
constexpr double kJustAbove = 1e-6;     // relative: where nu_min itself has no maximum
constexpr double kNuDifference = 1e-4;  // relative, for the slope of the survival
constexpr int kNuBits = 40;
constexpr std::uintmax_t kMostNuSteps = 100;

struct Profile {
  double nu = 0;
  LocationScale at;
};

/// d/d(ln nu) of the greatest log-likelihood at this nu: that of the log-likelihood itself, since
/// the other two slopes are zero there.
double slope_in_log_nu(const WeightedLogs& data, const Profile& profile) {
  const LogKernel kernel(profile.nu);
  const auto standard = [&profile](double log) { return (log - profile.at.mu) / profile.at.sigma; };
  double slope = 0;
  for (std::size_t i = 0; i < data.logs.size(); ++i) {
    slope += data.weights[i] * kernel.density_slope_in_nu(standard(data.logs[i]));
  }
  slope *= profile.nu;
  if (data.censored > 0) {
    const double z = standard(data.log_cap);
    const double more = LogKernel(profile.nu * std::exp(kNuDifference)).survival(z).value;
    const double less = LogKernel(profile.nu * std::exp(-kNuDifference)).survival(z).value;
    slope += data.censored * (more - less) / (2 * kNuDifference);
  }
  return slope;
}

Profile profile_at(const WeightedLogs& data, double nu, const LocationScale* near) {
  const LogKernel kernel(nu);
  if (near == nullptr) return {nu, fit_location_scale(data, kernel)};
  return {nu, fit_location_scale_from(data, kernel, *near)};
}

/// As profile_at, where there may be another maximum than the one next to `near`.
Profile best_profile_at(const WeightedLogs& data, double nu, const LocationScale& near) {
  const Profile beside = profile_at(data, nu, &near);
  if (data.censored == 0 && nu >= 1) return beside;
  const Profile anywhere = profile_at(data, nu, nullptr);
  return anywhere.at.loglik > beside.at.loglik ? anywhere : beside;
}

FamilyFit log_t_fit(const PreparedSample& sample, const Profile& best, int parameters) {
  return fitted(Family::kLogT, LengthLaw::log_t(best.at.mu, best.at.sigma, best.nu), parameters,
                best.at.loglik - sample.sum_of_logs, sample.n);
}

/// The maximum between two profiles, the likelihood rising at the lower nu and falling at the
/// upper.
Profile maximum_between(const WeightedLogs& data, const Profile& lower, double slope_lower,
                        const Profile& upper, double slope_upper) {
  Profile best = lower;
  const auto move_to = [&](double log_nu) {
    best = profile_at(data, std::exp(log_nu), &best.at);
    return slope_in_log_nu(data, best);
  };
  std::uintmax_t steps = kMostNuSteps;
  const auto root = boost::math::tools::toms748_solve(
      move_to, std::log(lower.nu), std::log(upper.nu), slope_lower, slope_upper,
      boost::math::tools::eps_tolerance<double>(kNuBits), steps);
  move_to(0.5 * (root.first + root.second));
  return best;
}

/// The highest of the maxima over nu in [low, high], the ends among them. There are often two: one
/// inside, and the normal law's end.
Profile best_profile(const WeightedLogs& data, double low, double high) {
  // From the top down: near the normal law every start is good, and each maximum starts the next.
  Profile here = profile_at(data, high, nullptr);
  if (low == high) return here;
  double slope = slope_in_log_nu(data, here);
  Profile best = here;
  bool found = slope >= 0;
  const auto consider = [&](const Profile& profile) {
    if (!found || profile.at.loglik > best.at.loglik) best = profile;
    found = true;
  };
  for (int i = 1; i < kNuGrid; ++i) {
    const double share = static_cast<double>(i) / (kNuGrid - 1);
    const double nu = i == kNuGrid - 1 ? low : high * std::pow(low / high, share);
    const Profile lower = best_profile_at(data, nu, here.at);
    const double slope_lower = slope_in_log_nu(data, lower);
    if (slope_lower > 0 && slope < 0) {
      consider(maximum_between(data, lower, slope_lower, here, slope));
    }
    here = lower;
    slope = slope_lower;
  }
  if (slope <= 0 || !found) consider(here);
  return best;
}

FamilyFit fit_free_nu(const PreparedSample& sample, const FitOptions& options) {
  const WeightedLogs data = weighted(sample);
  const double others = sample.n - sample.commonest;
  const bool unbounded = sample.commonest > options.nu_min * others;
  if (unbounded) {
    return without_maximum(
        Family::kLogT,
        others == 0
            ? commonest_in_words(sample) +
                  ": the likelihood grows without bound as sigma "
                  "goes to 0"
            : fmt::format("{}: with nu free from {:g} the likelihood grows without bound "
                          "as sigma goes to 0 for every nu below {:.4g}; fix nu above that",
                          commonest_in_words(sample), options.nu_min, sample.commonest / others));
  }
  // On the edge the likelihood is bounded at nu_min, but its supremum lies at sigma = 0.
  const bool edge = sample.commonest == options.nu_min * others;
  const double low =
      edge ? std::min(options.nu_min * (1 + kJustAbove), options.nu_max) : options.nu_min;
  const Profile best = best_profile(data, low, options.nu_max);
  if (edge && best.nu == low) {
    return without_maximum(Family::kLogT,
                           fmt::format("{}: the likelihood rises towards nu = {:g}, where its "
                                       "supremum lies at sigma = 0; fix nu above that",
                                       commonest_in_words(sample), options.nu_min));
  }
  FamilyFit fit = log_t_fit(sample, best, 3);
  fit.at_bound = best.nu == options.nu_min || best.nu == options.nu_max;
  return fit;
}

}  // namespace

FamilyFit fit_log_t(const PreparedSample& sample, const FitOptions& options) {
  if (!options.nu) return fit_free_nu(sample, options);
  const double nu = *options.nu;
  const double others = sample.n - sample.commonest;
  if (sample.commonest > nu * others) {
    return without_maximum(
        Family::kLogT, fmt::format("{}: with more than nu/(nu + 1) = {:.4g} of them identical the "
                                   "likelihood grows without bound as sigma goes to 0",
                                   commonest_in_words(sample), nu / (nu + 1)));
  }
  if (sample.commonest == nu * others) {
    if (nu == 1 && sample.censored == 0 && sample.logs.size() == 2) {
      // Two equal atoms under a Cauchy law: the maximum is a half circle over them; its top.
      const double half = 0.5 * (sample.logs[1] - sample.logs[0]);
      const LogKernel kernel(nu);
      return log_t_fit(
          sample,
          {nu,
           {sample.logs[0] + half, half, sample.n * (kernel.density(1).value - std::log(half))}},
          2);
    }
    return without_maximum(
        Family::kLogT, fmt::format("{}: exactly nu/(nu + 1) = {:.4g} of them are identical, and "
                                   "the supremum of the likelihood lies at sigma = 0",
                                   commonest_in_words(sample), nu / (nu + 1)));
  }
  return log_t_fit(sample, profile_at(weighted(sample), nu, nullptr), 2);
}

FamilyFit fit_log_normal(const PreparedSample& sample) {
  if (sample.logs.size() == 1 && sample.censored == 0) {
    return without_maximum(Family::kLogNormal, commonest_in_words(sample) +
                                                   ": the likelihood grows without bound as sigma "
                                                   "goes to 0");
  }
  const LogKernel kernel(kNormalNu);
  const WeightedLogs data = weighted(sample);
  const LocationScale best = fit_location_scale(data, kernel);
  return fitted(Family::kLogNormal, LengthLaw::log_normal(best.mu, best.sigma), 2,
                best.loglik - sample.sum_of_logs, sample.n);
}

}  // namespace tailrace::length
