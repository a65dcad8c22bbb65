#include "length/fit_location_scale.h"

#include <algorithm>
#include <cmath>

namespace tailrace::length {
namespace {

constexpr double kRounding = 1e-15;   // of each term
constexpr int kReweightings = 6;      // before Newton's method: they come near from anywhere
constexpr double kQuartileOfT = 0.7;  // roughly, of the standard t and normal laws

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

LocationScale fit_location_scale(const WeightedLogs& data, const LogKernel& kernel) {
  const LocationScale start = rough_start(data);
  if (data.censored == 0) {
    LocationScale best = fit_location_scale_from(data, kernel, reweighted(data, kernel, start));
    if (kernel.nu() >= 1) return best;
    // Below one degree of freedom there may be a maximum at every cluster.
    for (const double share : {0.1, 0.3, 0.7, 0.9}) {
      const LocationScale other =
          fit_location_scale_from(data, kernel, {quantile(data, share), start.sigma, 0});
      if (other.loglik > best.loglik) best = other;
    }
    return best;
  }
  LocationScale best = fit_location_scale_from(data, kernel, start);
  // With censored lengths the bulk may lie below the cap or beyond it.
  const WeightedLogs below{data.logs, data.weights, data.observed, 0, 0};
  LocationScale lower = rough_start(below);
  if (!(lower.sigma > 0)) lower.sigma = 0.1 * start.sigma;
  const LocationScale other = fit_location_scale_from(data, kernel, lower);
  return other.loglik > best.loglik ? other : best;
}

}  // namespace tailrace::length
