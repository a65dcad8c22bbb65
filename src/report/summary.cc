#include "tailrace/report/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tailrace/core/check.h"

namespace tailrace::report {

double percentile(std::span<const double> sorted, double p) {
  TAILRACE_CHECK(!sorted.empty());
  const double position = std::clamp(p, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::optional<Summary> summarise(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return Summary{values.size(),
                 sum / static_cast<double>(values.size()),
                 percentile(values, 0.5),
                 percentile(values, 0.9),
                 percentile(values, 0.99),
                 values.back()};
}

std::optional<Interval> paired_ratio_of_means(std::span<const double> a, std::span<const double> b,
                                              double level, int resamples, Rng rng) {
  if (a.size() != b.size() || a.size() < 2) return std::nullopt;
  const double sum_b = std::accumulate(b.begin(), b.end(), 0.0);
  if (!(sum_b > 0)) return std::nullopt;
  std::vector<double> ratios;
  ratios.reserve(static_cast<std::size_t>(resamples));
  for (int i = 0; i < resamples; ++i) {
    double top = 0;
    double bottom = 0;
    for (std::size_t k = 0; k < a.size(); ++k) {
      const std::size_t pick = rng.below(a.size());
      top += a[pick];
      bottom += b[pick];
    }
    if (bottom > 0) ratios.push_back(top / bottom);
  }
  if (ratios.empty()) return std::nullopt;
  std::sort(ratios.begin(), ratios.end());
  const double tail = (1 - level) / 2;
  return Interval{percentile(ratios, tail), std::accumulate(a.begin(), a.end(), 0.0) / sum_b,
                  percentile(ratios, 1 - tail)};
}

}  // namespace tailrace::report
