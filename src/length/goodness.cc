#include "tailrace/length/goodness.h"

#include <algorithm>
#include <cmath>

#include "length/kolmogorov.h"

namespace tailrace::length {
namespace {

constexpr std::size_t kLargestExact = 1000;

std::vector<double> sorted(const LengthSample& sample) {
  std::vector<double> lengths = sample.lengths;
  std::sort(lengths.begin(), lengths.end());
  return lengths;
}

/// How many of the ascending lengths say where the answer ended: those below the cap.
std::size_t count_complete(const std::vector<double>& ascending, std::optional<double> cap) {
  if (!cap) return ascending.size();
  return static_cast<std::size_t>(std::lower_bound(ascending.begin(), ascending.end(), *cap) -
                                  ascending.begin());
}

}  // namespace

double ks_distance(const LengthSample& sample, const LengthLaw& law) {
  const std::vector<double> lengths = sorted(sample);
  const std::size_t complete = count_complete(lengths, sample.cap);
  const auto n = static_cast<double>(lengths.size());
  double distance = 0;
  for (std::size_t i = 0; i < complete;) {
    std::size_t after = i + 1;
    while (after < complete && lengths[after] == lengths[i]) ++after;
    const double below = 1 - law.survival(lengths[i]);
    distance = std::max(
        {distance, below - static_cast<double>(i) / n, static_cast<double>(after) / n - below});
    i = after;
  }
  if (complete < lengths.size()) {  // just below the cap
    const double below = 1 - law.survival(*sample.cap);
    distance = std::max(distance, std::fabs(below - static_cast<double>(complete) / n));
  }
  return distance;
}

double ks_p_value(double d, std::size_t n) {
  return n <= kLargestExact ? kolmogorov_exact(d, n) : kolmogorov_large(d, n);
}

double ad_distance(const LengthSample& sample, const LengthLaw& law) {
  // n ∫ (F_n − F)²/(F (1 − F)) dF up to the cap, in closed form between the ordered values. A law
  // that gives a length no chance would make it infinite; 1 − S resolves no less than kLeastBelow.
  constexpr double kLeastBelow = 0x1p-53;
  constexpr double kLeastAbove = 1e-300;
  const std::vector<double> lengths = sorted(sample);
  const std::size_t complete = count_complete(lengths, sample.cap);
  const auto n = static_cast<double>(lengths.size());
  double sum = 0;
  for (std::size_t i = 0; i < complete; ++i) {
    const double above = law.survival(lengths[i]);
    const double rank = 2 * static_cast<double>(i) + 1;
    sum -= rank * std::log(std::max(1 - above, kLeastBelow));
    sum -= (2 * n - rank) * std::log(std::max(above, kLeastAbove));
  }
  if (complete == lengths.size()) return std::max(0.0, sum / n - n);
  const auto r = static_cast<double>(complete);
  const double above = law.survival(*sample.cap);
  const double below = 1 - above;
  sum -= (n - r) * (n - r) * std::log(std::max(above, kLeastAbove));
  sum += r * r * std::log(std::max(below, kLeastBelow));
  return std::max(0.0, (sum - n * n * below) / n);
}

}  // namespace tailrace::length
