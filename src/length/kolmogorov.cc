#include "length/kolmogorov.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace tailrace::length {
namespace {

/// 1/(kBand + 1)! is below what a double adds to 1: longer jumps of a unit Poisson step count for
/// nothing.
constexpr std::size_t kBand = 24;

/// P(D⁺_n ≥ d), the one-sided distance: Birnbaum and Tingey's sum of positive terms.
double one_sided(double d, std::size_t n) {
  const auto count = static_cast<double>(n);
  const double ln_n_factorial = std::lgamma(count + 1);
  double sum = 0;
  for (std::size_t i = 0; i <= n; ++i) {
    const auto j = static_cast<double>(i);
    const double above = 1 - d - j / count;
    if (!(above > 0)) break;
    sum += std::exp(ln_n_factorial - std::lgamma(j + 1) - std::lgamma(count - j + 1) +
                    (j - 1) * std::log(d + j / count) + (count - j) * std::log(above));
  }
  return std::min(1.0, d * sum);
}

/// P(D_n < d) by Durbin's matrix as Marsaglia, Tsang and Wang set it up: the (k, k) element of
/// n!/nⁿ·Hⁿ. Only that row is wanted, so a row is multiplied n times instead of powering the
/// matrix; H is a band of 1/i! (the jumps of a Poisson path kept between two lines) with a first
/// column and a last row of its own.
double between_lines(double d, std::size_t n) {
  const auto count = static_cast<double>(n);
  const auto k = static_cast<std::size_t>(count * d) + 1;
  const std::size_t m = 2 * k - 1;
  const double h = static_cast<double>(k) - count * d;

  // Scaled by 1/e, so that the row keeps its size.
  std::vector<double> jump(std::max(m, kBand) + 2);
  jump[0] = 1 / std::numbers::e;
  for (std::size_t i = 1; i < jump.size(); ++i) jump[i] = jump[i - 1] / static_cast<double>(i);
  std::vector<double> first(m), last(m);
  double power = 1;
  for (std::size_t i = 0; i < m; ++i) {
    power *= h;
    first[i] = (1 - power) * jump[i + 1];
    last[m - 1 - i] = (1 - power) * jump[i + 1];
  }
  const double corner =
      (1 - 2 * power + std::pow(std::max(0.0, 2 * h - 1), static_cast<double>(m))) * jump[m];
  first[m - 1] = last[0] = corner;

  // Column by column from the right is a row of `reversed` laid against the target.
  std::vector<double> reversed(kBand + 1);
  std::reverse_copy(jump.begin(), jump.begin() + kBand + 1, reversed.begin());
  std::vector<double> row(m), next(m);
  row[k - 1] = 1;
  double scale = 1;
  for (std::size_t step = 1; step <= n; ++step) {
    scale *= std::numbers::e * static_cast<double>(step) / count;
    std::fill(next.begin(), next.end(), 0.0);
    for (std::size_t i = 0; i + 1 < m; ++i) {
      const double weight = row[i];
      const std::size_t begin = i + 1 > kBand ? i + 1 - kBand : 1;
      const double* jumps = reversed.data() + (kBand - (i + 1 - begin));
      double* target = next.data() + begin;
      const std::size_t length = i + 2 - begin;
      for (std::size_t c = 0; c < length; ++c) target[c] += weight * jumps[c];
    }
    for (std::size_t c = 1; c < m; ++c) next[c] += row[m - 1] * last[c];
    for (std::size_t i = 0; i < m; ++i) next[0] += row[i] * first[i];
    row.swap(next);
  }
  return scale * row[k - 1];
}

}  // namespace

double kolmogorov_exact(double d, std::size_t n) {
  const auto count = static_cast<double>(n);
  if (!(2 * count * d > 1)) return 1;
  if (d >= 1) return 0;
  // Where both sides can hardly be exceeded at once (never for d > 1/2), the two-sided probability
  // is twice the one-sided: to 4e-11 of itself.
  if (d >= 0.5 || count * d * d >= 4) return std::min(1.0, 2 * one_sided(d, n));
  return std::clamp(1 - between_lines(d, n), 0.0, 1.0);
}

double kolmogorov_limit(double x) {
  if (!(x > 0)) return 1;
  if (x < 1) {
    // The theta function's other expansion, which converges there.
    const double a = std::numbers::pi * std::numbers::pi / (8 * x * x);
    double below = 0;
    for (const double odd : {1.0, 3.0, 5.0, 7.0, 9.0}) below += std::exp(-odd * odd * a);
    return 1 - std::sqrt(2 * std::numbers::pi) / x * below;
  }
  double p = 0;
  for (int k = 1; k <= 8; ++k) p += (k % 2 == 1 ? 2 : -2) * std::exp(-2.0 * k * k * x * x);
  return p;
}

double kolmogorov_large(double d, std::size_t n) {
  const auto count = static_cast<double>(n);
  const double x = std::sqrt(count) * d;
  return kolmogorov_limit(x + 1 / (6 * std::sqrt(count)) + (x - 1) / (4 * count));
}

}  // namespace tailrace::length
