// Two log-t parts by expectation-maximisation, for prompts with two kinds of answer.
//
// Real samples are full of ties, and the likelihood of a mixture grows without bound when one part
// settles on one of them: floors on the weight and on sigma keep both parts wide enough to mean
// something. Every step climbs, so the end is a maximum within the floors.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "length/fit_families.h"
#include "length/fit_location_scale.h"
#include "length/student_t.h"

namespace tailrace::length {
namespace {

constexpr double kLeastWeight = 0.02;  // or two lengths of the sample
constexpr double kLeastSigma = 0.02;   // or this share of the sample's own spread, if that is less:
constexpr double kLeastSpread = 0.1;
constexpr double kMostSpread = 3;   // sigma, in ranges of the sample
constexpr int kScoutSteps = 12;     // of each start, before the best goes on
constexpr int kMostCycles = 300;    // of two steps and a leap
constexpr int kNewtonSteps = 3;     // towards each part's own maximum in one step
constexpr double kSettled = 1e-11;  // relative gain of a cycle that ends the climb

struct Parts {
  double weight = 0.5;  // of the first
  std::array<LocationScale, 2> part;
};

struct Limits {
  double least_weight = 0;
  Box box;  // of mu and ln sigma
};

class Climber {
 public:
  Climber(const PreparedSample& sample, double nu)
      : sample_(sample), kernel_(nu), first_(sample.logs.size()), second_(sample.logs.size()) {}

  /// The log-likelihood, of the logarithms.
  double loglik(const Parts& at) { return share_out(at); }

  /// One step of expectation-maximisation; `value` becomes the log-likelihood before it.
  Parts step(const Parts& at, const Limits& limits, double& value) {
    value = share_out(at);
    Parts next = at;
    const double first = std::accumulate(first_.begin(), first_.end(), 0.0);
    const double total_first = first + cut_first_;
    next.weight = std::clamp(total_first / sample_.n, limits.least_weight, 1 - limits.least_weight);
    const WeightedLogs parts[] = {{sample_.logs, first_, first, cut_first_, sample_.log_cap},
                                  {sample_.logs, second_, sample_.observed - first,
                                   sample_.censored - cut_first_, sample_.log_cap}};
    for (std::size_t i = 0; i < 2; ++i) {
      next.part[i] =
          fit_location_scale_from(parts[i], kernel_, at.part[i], limits.box, kNewtonSteps);
    }
    return next;
  }

 private:
  /// Shares every length out between the parts by their odds.
  double share_out(const Parts& at) {
    const double log_weight[] = {std::log(at.weight), std::log1p(-at.weight)};
    double sum = 0;
    const auto share = [&](double a, double b, double count) {
      const double top = std::max(a, b);
      const double total = std::exp(a - top) + std::exp(b - top);
      sum += count * (top + std::log(total));
      return count * std::exp(a - top) / total;
    };
    for (std::size_t i = 0; i < sample_.logs.size(); ++i) {
      double log_density[2];
      for (std::size_t j = 0; j < 2; ++j) {
        const double z = (sample_.logs[i] - at.part[j].mu) / at.part[j].sigma;
        log_density[j] = log_weight[j] + kernel_.density(z).value - std::log(at.part[j].sigma);
      }
      first_[i] = share(log_density[0], log_density[1], sample_.counts[i]);
      second_[i] = sample_.counts[i] - first_[i];
    }
    cut_first_ = 0;
    if (sample_.censored > 0) {
      double log_survival[2];
      for (std::size_t j = 0; j < 2; ++j) {
        const double z = (sample_.log_cap - at.part[j].mu) / at.part[j].sigma;
        log_survival[j] = log_weight[j] + kernel_.survival(z).value;
      }
      cut_first_ = share(log_survival[0], log_survival[1], sample_.censored);
    }
    return sum;
  }

  const PreparedSample& sample_;
  LogKernel kernel_;
  std::vector<double> first_, second_;  // each length's count, shared out
  double cut_first_ = 0;
};

/// Mean and standard deviation of the logarithms between two shares of the sorted sample, the
/// censored as if at the cap.
LocationScale middle_of(const PreparedSample& sample, double from, double to) {
  double passed = 0, weight = 0, sum = 0, square = 0;
  const double low = from * sample.n, high = to * sample.n;
  const double centre = sample.logs.front();
  const auto add = [&](double log, double count) {
    const double inside = std::max(0.0, std::min(high, passed + count) - std::max(low, passed));
    passed += count;
    weight += inside;
    sum += inside * (log - centre);
    square += inside * (log - centre) * (log - centre);
  };
  for (std::size_t i = 0; i < sample.logs.size(); ++i) add(sample.logs[i], sample.counts[i]);
  if (sample.censored > 0) add(sample.log_cap, sample.censored);
  const double mean = sum / weight;
  return {centre + mean, std::sqrt(std::max(0.0, square / weight - mean * mean)), 0};
}

/// The share of the sample below its widest gap that leaves at least `least` on either side.
double share_below_widest_gap(const PreparedSample& sample, double least) {
  double passed = 0, widest = 0, share = 0.5;
  for (std::size_t i = 0; i < sample.logs.size(); ++i) {
    passed += sample.counts[i];
    const bool last = i + 1 == sample.logs.size();
    if (last && sample.censored == 0) break;
    const double gap = (last ? sample.log_cap : sample.logs[i + 1]) - sample.logs[i];
    const double here = passed / sample.n;
    if (gap > widest && here >= least && 1 - here >= least) {
      widest = gap;
      share = here;
    }
  }
  return share;
}

std::vector<Parts> starts(const PreparedSample& sample, const Limits& limits) {
  std::vector<Parts> out;
  for (const double share :
       {share_below_widest_gap(sample, limits.least_weight), 0.25, 0.5, 0.75}) {
    out.push_back({share, {middle_of(sample, 0, share), middle_of(sample, share, 1)}});
  }
  // A narrow part within a wide one.
  const LocationScale bulk = middle_of(sample, 0.25, 0.75);
  const LocationScale all = middle_of(sample, 0, 1);
  out.push_back({0.5, {bulk, all}});
  out.push_back({0.5, {LocationScale{all.mu, 0.6 * all.sigma, 0}, {all.mu, 1.5 * all.sigma, 0}}});
  for (Parts& parts : out) {
    parts.weight = std::clamp(parts.weight, limits.least_weight, 1 - limits.least_weight);
    for (LocationScale& part : parts.part) {
      part.mu = std::clamp(part.mu, limits.box.low_a, limits.box.high_a);
      part.sigma = std::clamp(part.sigma, std::exp(limits.box.low_b), std::exp(limits.box.high_b));
    }
  }
  return out;
}

Limits limits_of(const PreparedSample& sample) {
  const double low = sample.logs.front();
  const double high = sample.censored > 0 ? sample.log_cap + std::log(2.0) : sample.logs.back();
  const double spread = middle_of(sample, 0, 1).sigma;
  Limits out;
  out.least_weight = std::min(0.5, std::max(kLeastWeight, 2 / sample.n));
  out.box = {low, high, std::log(std::min(kLeastSigma, kLeastSpread * spread)),
             std::log(kMostSpread * (high - low))};
  return out;
}

/// Coordinates in which a leap may be taken: all real, all of the order of one.
std::array<double, 5> coordinates(const Parts& p, double unit) {
  return {std::log(p.weight / (1 - p.weight)), p.part[0].mu / unit, std::log(p.part[0].sigma),
          p.part[1].mu / unit, std::log(p.part[1].sigma)};
}

Parts parts_at(const std::array<double, 5>& x, double unit, const Limits& limits) {
  const auto part = [&](double mu, double log_sigma) -> LocationScale {
    return {std::clamp(mu * unit, limits.box.low_a, limits.box.high_a),
            std::exp(std::clamp(log_sigma, limits.box.low_b, limits.box.high_b)), 0};
  };
  Parts out;
  out.weight = std::clamp(1 / (1 + std::exp(-x[0])), limits.least_weight, 1 - limits.least_weight);
  out.part = {part(x[1], x[2]), part(x[3], x[4])};
  return out;
}

/// Two steps, and a leap along their trend where it climbs higher (Varadhan and Roland's squared
/// extrapolation).
Parts climb_to_the_top(Climber& climber, Parts at, const Limits& limits, double unit) {
  double before = 0;
  for (int cycle = 0; cycle < kMostCycles; ++cycle) {
    double value = 0, after_one = 0;
    const Parts one = climber.step(at, limits, value);
    const Parts two = climber.step(one, limits, after_one);
    if (cycle > 0 && value - before <= kSettled * (1 + std::fabs(value))) return two;
    before = value;
    const auto x0 = coordinates(at, unit), x1 = coordinates(one, unit), x2 = coordinates(two, unit);
    double trend = 0, bend = 0;
    for (std::size_t i = 0; i < x0.size(); ++i) {
      trend += (x1[i] - x0[i]) * (x1[i] - x0[i]);
      bend += (x2[i] - 2 * x1[i] + x0[i]) * (x2[i] - 2 * x1[i] + x0[i]);
    }
    at = two;
    if (!(bend > 0)) continue;
    const double reach = std::max(1.0, std::sqrt(trend / bend));
    std::array<double, 5> x{};
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = x0[i] + 2 * reach * (x1[i] - x0[i]) + reach * reach * (x2[i] - 2 * x1[i] + x0[i]);
    }
    if (!std::all_of(x.begin(), x.end(), [](double v) { return std::isfinite(v); })) continue;
    const Parts leap = parts_at(x, unit, limits);
    if (climber.loglik(leap) > climber.loglik(two)) at = leap;
  }
  return at;
}

}  // namespace

FamilyFit fit_mixture(const PreparedSample& sample, const FitOptions& options) {
  if (sample.logs.size() == 1 && sample.censored == 0) {
    return without_maximum(Family::kMixture,
                           commonest_in_words(sample) + ": one length cannot tell two parts apart");
  }
  const double nu = options.nu.value_or(kTieNu);
  Climber climber(sample, nu);
  const Limits limits = limits_of(sample);
  const double unit = middle_of(sample, 0, 1).sigma;
  Parts best;
  double best_value = -std::numeric_limits<double>::infinity();
  for (Parts parts : starts(sample, limits)) {
    double value = 0;
    for (int i = 0; i < kScoutSteps; ++i) parts = climber.step(parts, limits, value);
    value = climber.loglik(parts);
    if (value > best_value) {
      best = parts;
      best_value = value;
    }
  }
  best = climb_to_the_top(climber, best, limits, unit);
  if (best.part[0].mu > best.part[1].mu) {
    std::swap(best.part[0], best.part[1]);
    best.weight = 1 - best.weight;
  }
  const auto first = LengthLaw::log_t(best.part[0].mu, best.part[0].sigma, nu);
  const auto second = LengthLaw::log_t(best.part[1].mu, best.part[1].sigma, nu);
  if (!first) return fitted(Family::kMixture, first, 5, 0, sample.n);
  if (!second) return fitted(Family::kMixture, second, 5, 0, sample.n);
  FamilyFit fit = fitted(Family::kMixture, LengthLaw::mixture(best.weight, *first, *second), 5,
                         climber.loglik(best) - sample.sum_of_logs, sample.n);
  const double close = 1e-9;
  fit.at_bound = std::min(best.weight, 1 - best.weight) <= limits.least_weight + close;
  for (const LocationScale& part : best.part) {
    const double log_sigma = std::log(part.sigma);
    fit.at_bound = fit.at_bound || log_sigma <= limits.box.low_b + close ||
                   log_sigma >= limits.box.high_b - close ||
                   (sample.censored > 0 && part.mu >= limits.box.high_a - close);
  }
  return fit;
}

}  // namespace tailrace::length
