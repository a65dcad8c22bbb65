// The laws on the log scale: log-t, its nu fixed or free, and log-normal.
#include <fmt/core.h>

#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>

#include "length/fit_families.h"
#include "length/fit_location_scale.h"

namespace tailrace::length {
namespace {

constexpr int kNuGrid = 9;              // values of nu tried before the root is sought
constexpr double kJustAbove = 1e-6;     // relative: where nu_min itself has no maximum
constexpr double kNuDifference = 1e-4;  // relative, for the slope of the survival
constexpr int kNuDigits = 40;           // bits
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

FamilyFit log_t_fit(const PreparedSample& sample, const Profile& best, int parameters) {
  return fitted(Family::kLogT, LengthLaw::log_t(best.at.mu, best.at.sigma, best.nu), parameters,
                best.at.loglik - sample.sum_of_logs, sample.n);
}

/// The maximum over nu in [low, high], if it is inside; the better end otherwise.
Profile best_profile(const WeightedLogs& data, double low, double high) {
  // From the top down: near the normal law every start is good, and each maximum starts the next.
  std::vector<Profile> grid;
  for (int i = 0; i < kNuGrid; ++i) {
    const double share = static_cast<double>(i) / (kNuGrid - 1);
    const double nu = i == 0 ? high : i == kNuGrid - 1 ? low : high * std::pow(low / high, share);
    grid.push_back(profile_at(data, nu, i == 0 ? nullptr : &grid.back().at));
    if (low == high) return grid.front();
  }
  std::size_t top = 0;
  for (std::size_t i = 1; i < grid.size(); ++i) {
    if (grid[i].at.loglik > grid[top].at.loglik) top = i;
  }
  const Profile& above = grid[top == 0 ? 0 : top - 1];
  const Profile& below = grid[top + 1 == grid.size() ? top : top + 1];
  double slope_above = slope_in_log_nu(data, above);
  double slope_below = slope_in_log_nu(data, below);
  if (top == 0 && slope_above >= 0) return above;
  if (top + 1 == grid.size() && slope_below <= 0) return below;
  if (!(slope_below > 0 && slope_above < 0)) return grid[top];  // flat to the last digit
  Profile best = grid[top];
  std::uintmax_t steps = kMostNuSteps;
  const auto root = boost::math::tools::toms748_solve(
      [&](double log_nu) {
        best = profile_at(data, std::exp(log_nu), &best.at);
        return slope_in_log_nu(data, best);
      },
      std::log(below.nu), std::log(above.nu), slope_below, slope_above,
      boost::math::tools::eps_tolerance<double>(kNuDigits), steps);
  return profile_at(data, std::exp(0.5 * (root.first + root.second)), &best.at);
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
