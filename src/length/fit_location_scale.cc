#include "length/fit_location_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tailrace::length {
namespace {

constexpr double kRounding = 1e-15;   // of each term
constexpr int kReweightings = 6;      // before Newton's method: they come near from anywhere
constexpr double kQuartileOfT = 0.7;  // roughly, of the standard t and normal laws
// Below one degree of freedom every cluster may hold a maximum.
constexpr double kManyMaxima = 1;
constexpr std::size_t kClustersOfOneSize = 5;
constexpr double kNextSize = 1.3;   // from one size of cluster to the next
constexpr double kAtomWidth = 0.1;  // the sigma at identical values, of the gap beside them

/// Logarithms shifted to a centre, so that tight samples keep their digits.
class Likelihood {
 public:
  Likelihood(const WeightedLogs& data, const LogKernel& kernel, double centre)
      : data_(data), kernel_(kernel), centre_(centre) {}

  /// At location centre + a and scale exp(b).
  LocalShape operator()(double a, double b) const {
    const double sigma = std::exp(b);
    LocalShape out;
    out.scale_a = sigma;
    const auto add = [&out](const LogPoint& at, double z, double weight) {
      out.value += weight * at.value;
      out.rounding += weight * std::fabs(at.value);
      out.slope_a -= weight * at.slope;
      out.slope_b -= weight * at.slope * z;
      out.curve_aa += weight * at.curvature;
      out.curve_ab += weight * (at.curvature * z + at.slope);
      out.curve_bb += weight * (at.curvature * z + at.slope) * z;
    };
    for (std::size_t i = 0; i < data_.logs.size(); ++i) {
      const double z = ((data_.logs[i] - centre_) - a) / sigma;
      add(kernel_.density(z), z, data_.weights[i]);
    }
    if (data_.censored > 0) {
      const double z = ((data_.log_cap - centre_) - a) / sigma;
      add(kernel_.survival(z), z, data_.censored);
    }
    out.value -= data_.observed * b;
    // Of a sum of so many terms.
    out.rounding = kRounding * std::sqrt(static_cast<double>(data_.logs.size())) *
                   (out.rounding + data_.observed * std::fabs(b));
    out.slope_b -= data_.observed;
    return out;
  }

 private:
  const WeightedLogs& data_;
  const LogKernel& kernel_;
  double centre_;
};

/// The logarithm below which a share of the weight lies, the censored ones as if at the cap.
double quantile(const WeightedLogs& data, double share) {
  double left = share * (data.observed + data.censored);
  for (std::size_t i = 0; i < data.logs.size(); ++i) {
    left -= data.weights[i];
    if (left <= 0) return data.logs[i];
  }
  return data.censored > 0 ? data.log_cap : data.logs.back();
}

double mean_distance(const WeightedLogs& data, double from) {
  double sum = data.censored > 0 ? data.censored * std::fabs(data.log_cap - from) : 0;
  for (std::size_t i = 0; i < data.logs.size(); ++i) {
    sum += data.weights[i] * std::fabs(data.logs[i] - from);
  }
  return sum / (data.observed + data.censored);
}

LocationScale rough_start(const WeightedLogs& data) {
  LocationScale start;
  start.mu = quantile(data, 0.5);
  const double spread = 0.5 * (quantile(data, 0.75) - quantile(data, 0.25)) / kQuartileOfT;
  start.sigma = spread > 0 ? spread : mean_distance(data, start.mu);
  return start;
}

/// Iteratively reweighted least squares in its expanded-parameter form (facts/scheduling.md 1.3),
/// nothing censored.
LocationScale reweighted(const WeightedLogs& data, const LogKernel& kernel, LocationScale at) {
  for (int i = 0; i < kReweightings; ++i) {
    double sum = 0, sum_a = 0, sum_aa = 0;  // of distances from the present location
    for (std::size_t j = 0; j < data.logs.size(); ++j) {
      const double away = data.logs[j] - at.mu;
      const double pull = data.weights[j] * kernel.weight(away / at.sigma);
      sum += pull;
      sum_a += pull * away;
      sum_aa += pull * away * away;
    }
    const double shift = sum_a / sum;
    const double variance = sum_aa / sum - shift * shift;
    if (!(variance > 0)) break;
    at.mu += shift;
    at.sigma = std::sqrt(variance);
  }
  return at;
}

/// Mean and standard deviation, the censored ones as if at the cap. Sigma may come out as 0.
LocationScale moments(const WeightedLogs& data) {
  const double total = data.observed + data.censored;
  const double centre = data.logs.front();  // one of the values: the variance keeps its digits
  double sum = 0, squares = 0;
  const auto add = [&](double log, double weight) {
    const double away = log - centre;
    sum += weight * away;
    squares += weight * away * away;
  };
  for (std::size_t i = 0; i < data.logs.size(); ++i) add(data.logs[i], data.weights[i]);
  if (data.censored > 0) add(data.log_cap, data.censored);
  const double mean = sum / total;
  return {centre + mean, std::sqrt(std::max(0.0, squares / total - mean * mean)), 0};
}

/// The tightest clusters of several sizes, the censored lengths as if at the cap. A cluster's gain
/// from a smaller sigma pays for the rest where it holds about nu/(nu + 1) of all (fit.h), so sizes
/// run from there to the whole sample.
std::vector<LocationScale> cluster_starts(const WeightedLogs& data, double nu) {
  std::vector<double> logs(data.logs.begin(), data.logs.end());
  std::vector<double> weights(data.weights.begin(), data.weights.end());
  if (data.censored > 0) {
    logs.push_back(data.log_cap);
    weights.push_back(data.censored);
  }
  struct Window {
    double width = 0;
    std::size_t first = 0, last = 0;
  };
  std::vector<LocationScale> starts;
  for (double share = nu / (nu + 1); share < 1; share *= kNextSize) {
    const double least = share * (data.observed + data.censored);
    std::vector<Window> windows;  // the narrowest from each first value
    double inside = 0;
    for (std::size_t first = 0, next = 0; first < logs.size(); ++first) {
      while (next < logs.size() && inside < least) inside += weights[next++];
      if (inside < least) break;
      windows.push_back({logs[next - 1] - logs[first], first, next - 1});
      inside -= weights[first];
    }
    std::sort(windows.begin(), windows.end(), [](const Window& a, const Window& b) {
      return a.width < b.width || (a.width == b.width && a.first < b.first);
    });
    std::vector<Window> chosen;
    for (const Window& window : windows) {
      if (chosen.size() == kClustersOfOneSize) break;
      const bool apart = std::all_of(chosen.begin(), chosen.end(), [&window](const Window& other) {
        return window.last < other.first || other.last < window.first;
      });
      if (apart) chosen.push_back(window);
    }
    for (const Window& window : chosen) {
      double gap = std::numeric_limits<double>::infinity();
      if (window.first > 0) gap = logs[window.first] - logs[window.first - 1];
      if (window.last + 1 < logs.size()) {
        gap = std::min(gap, logs[window.last + 1] - logs[window.last]);
      }
      const double sigma = window.width > 0 ? 0.5 * window.width : kAtomWidth * gap;
      if (!std::isfinite(sigma)) continue;  // one value is the whole sample
      starts.push_back({logs[window.first] + 0.5 * window.width, sigma, 0});
    }
  }
  return starts;
}

}  // namespace

WeightedLogs weighted(const PreparedSample& sample) {
  return {sample.logs, sample.counts, sample.observed, sample.censored, sample.log_cap};
}

LocationScale fit_location_scale_from(const WeightedLogs& data, const LogKernel& kernel,
                                      const LocationScale& start, const Box& box, int most_steps) {
  const double centre = start.mu;
  const Box shifted{box.low_a - centre, box.high_a - centre, box.low_b, box.high_b};
  const Peak peak =
      climb(Likelihood(data, kernel, centre), 0, std::log(start.sigma), shifted, most_steps);
  return {centre + peak.a, std::exp(peak.b), peak.value};
}

namespace {

void keep_higher(LocationScale& best, const LocationScale& other) {
  if (!(best.loglik >= other.loglik)) best = other;
}

double loglik_at(const WeightedLogs& data, const LogKernel& kernel, const LocationScale& at) {
  double value = -data.observed * std::log(at.sigma);
  const auto standard = [&at](double log) { return (log - at.mu) / at.sigma; };
  for (std::size_t i = 0; i < data.logs.size(); ++i) {
    value += data.weights[i] * kernel.density(standard(data.logs[i])).value;
  }
  if (data.censored > 0) value += data.censored * kernel.survival(standard(data.log_cap)).value;
  return value;
}

/// What log-normal would answer: one maximum, whatever is censored.
LocationScale normal_fit(const WeightedLogs& data) {
  const LocationScale start = moments(data);
  if (data.censored == 0 || !(start.sigma > 0)) return start;
  return fit_location_scale_from(data, LogKernel(kNormalNu), start);
}

/// From the quartiles of all, and with censored lengths from those of the others too: the bulk may
/// lie below the cap or beyond it.
LocationScale from_the_middle(const WeightedLogs& data, const LogKernel& kernel) {
  const LocationScale start = rough_start(data);
  if (data.censored == 0) {
    return fit_location_scale_from(data, kernel, reweighted(data, kernel, start));
  }
  LocationScale best = fit_location_scale_from(data, kernel, start);
  const WeightedLogs below{data.logs, data.weights, data.observed, 0, 0};
  LocationScale lower = rough_start(below);
  if (!(lower.sigma > 0)) lower.sigma = 0.1 * start.sigma;
  keep_higher(best, fit_location_scale_from(data, kernel, lower));
  return best;
}

}  // namespace

LocationScale fit_location_scale(const WeightedLogs& data, const LogKernel& kernel) {
  LocationScale best = from_the_middle(data, kernel);
  if (kernel.nu() < kManyMaxima) {
    for (const LocationScale& start : cluster_starts(data, kernel.nu())) {
      keep_higher(best, fit_location_scale_from(data, kernel, start));
    }
  }
  // The quartiles of a sample with a tight cluster are a poor start for a nearly normal law: from
  // there the way is long. What fits a normal law is then far better, and never much worse.
  const LocationScale wide = kernel.normal() ? moments(data) : normal_fit(data);
  if (wide.sigma > 0 && best.loglik < loglik_at(data, kernel, wide)) {
    keep_higher(best, fit_location_scale_from(data, kernel, wide));
  }
  return best;
}

}  // namespace tailrace::length
