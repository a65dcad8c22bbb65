#include "tailrace/report/replicates.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <vector>

namespace tailrace::report {
namespace {

using Policy = boost::math::policies::policy<boost::math::policies::promote_double<false>>;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// t such that P(|T| ≤ t) = level with n − 1 degrees of freedom.
double student_t(std::size_t n, double level) {
  const boost::math::students_t_distribution<double, Policy> law(static_cast<double>(n - 1));
  return boost::math::quantile(law, 0.5 + level / 2);
}

}  // namespace

std::optional<Interval> mean_of_replicates(std::span<const double> values, double level) {
  if (values.empty()) return std::nullopt;
  const auto n = static_cast<double>(values.size());
  double sum = 0;
  for (const double v : values) {
    if (!std::isfinite(v)) return std::nullopt;
    sum += v;
  }
  const double mean = sum / n;
  if (values.size() == 1) return Interval{kUnknown, mean, kUnknown};
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  const double error = std::sqrt(squares / (n - 1) / n);
  const double half = student_t(values.size(), level) * error;
  return Interval{mean - half, mean, mean + half};
}

std::optional<Interval> ratio_of_replicates(std::span<const double> a, std::span<const double> b,
                                            double level) {
  if (a.size() != b.size()) return std::nullopt;
  std::vector<double> logs;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] > 0 && b[i] > 0)) return std::nullopt;
    logs.push_back(std::log(a[i] / b[i]));
  }
  const auto mean = mean_of_replicates(logs, level);
  if (!mean) return std::nullopt;
  return Interval{std::exp(mean->low), std::exp(mean->estimate), std::exp(mean->high)};
}

}  // namespace tailrace::report
