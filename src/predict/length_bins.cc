#include "predict/length_bins.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "predict/log_t_score.h"

namespace tailrace::predict {
namespace {

const std::array<float, kEdges>& log_edges() {
  static const auto logs = [] {
    std::array<float, kEdges> out{};
    for (std::size_t i = 0; i < kEdges; ++i) out[i] = static_cast<float>(std::log(kEdge[i]));
    return out;
  }();
  return logs;
}

/// ln P(T > z) for z ≥ 0 over v = ln(1 + z): nearly straight, so linear steps are exact to 1e-5.
class TailTable {
 public:
  TailTable() {
    for (std::size_t i = 0; i < kSize; ++i) {
      values_[i] = static_cast<float>(
          std::log(survival_t(std::expm1(static_cast<double>(i) / static_cast<double>(kPerUnit)))));
    }
  }
  /// P(T > z), z ≥ 0.
  float operator()(float z) const {
    const float v = std::min(fast_log(1 + z) * kPerUnit, static_cast<float>(kSize) - 1.01F);
    const auto i = static_cast<std::size_t>(std::max(v, 0.0F));
    const float part = v - static_cast<float>(i);
    return fast_exp(values_[i] + part * (values_[i + 1] - values_[i]));
  }

 private:
  static constexpr float kPerUnit = 128;
  static constexpr std::size_t kSize = 128 * 8;  // up to z = 2979
  std::array<float, kSize> values_{};
};

const TailTable& tail() {
  static const TailTable table;
  return table;
}

}  // namespace

std::size_t bin_of(double tokens) {
  if (tokens <= bins_internal::kSingles) {
    return tokens <= 1 ? 0 : static_cast<std::size_t>(std::ceil(tokens)) - 1;
  }
  return static_cast<std::size_t>(std::lower_bound(kEdge.begin(), kEdge.end(), tokens) -
                                  kEdge.begin());
}

double passed_share(std::size_t bin, double tokens) {
  if (bin >= kEdges) return 0;
  const double low = bin == 0 ? 0 : kEdge[bin - 1];
  return std::clamp((tokens - low) / (kEdge[bin] - low), 0.0, 1.0);
}

double middle_of(std::size_t bin) {
  if (bin == 0) return kEdge[0];
  if (bin >= kEdges) return 1.5 * kEdge[kEdges - 1];
  return kEdge[bin] - kEdge[bin - 1] <= 1 ? kEdge[bin] : std::sqrt(kEdge[bin] * kEdge[bin - 1]);
}

Spread spread(double tokens, double half_width) {
  Spread s;
  const std::size_t middle = bin_of(tokens);
  const std::size_t high = std::max(middle, bin_of(std::floor(tokens * (1 + half_width))));
  s.first = std::min(middle, bin_of(std::ceil(tokens * (1 - half_width))));
  s.count = high - s.first + 1;
  float total = 0;
  for (std::size_t i = s.first; i <= high; ++i) {
    const std::size_t gap = i < middle ? middle - i : i - middle;
    const std::size_t reach = (i < middle ? middle - s.first : high - middle) + 1;
    total += s.part[i - s.first] = 1 - static_cast<float>(gap) / static_cast<float>(reach);
  }
  for (std::size_t j = 0; j < s.count; ++j) s.part[j] /= total;
  return s;
}

float fast_log(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  // x = m · 2^exponent with m from √½ to √2.
  const std::int32_t exponent = static_cast<std::int32_t>(bits - 0x3F3504F3U) >> 23;
  const float m = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(exponent) << 23U));
  // ln m = 2 artanh s.
  const float s = (m - 1) / (m + 1);
  const float q = s * s;
  return static_cast<float>(exponent) * 0.69314718F +
         2 * s * (1 + q * (0.33333333F + q * (0.2F + q * 0.14285714F)));
}

float fast_exp(float x) {
  const float t = std::clamp(x, -80.0F, 80.0F) * 1.44269504F;
  const float whole = std::floor(t);
  const float f = (t - whole) * 0.69314718F;
  const float p =
      1 + f * (1 + f * (0.5F + f * (0.16666667F +
                                    f * (0.041666667F + f * (0.0083333333F + f * 0.0013888889F)))));
  return std::bit_cast<float>(
      std::bit_cast<std::uint32_t>(p) +
      (static_cast<std::uint32_t>(static_cast<std::int32_t>(whole)) << 23U));
}

void log_t_bins(double mu, double sigma, Bins& mass) {
  const auto& logs = log_edges();
  const TailTable& table = tail();
  const auto m = static_cast<float>(mu);
  const auto scale = static_cast<float>(1 / sigma);
  float below_tail = 0;  // P(T on the far side) at the edge before
  bool below = true;     // that edge is below the median
  for (std::size_t i = 0; i < kEdges; ++i) {
    const float z = (logs[i] - m) * scale;
    const float t = table(std::abs(z));
    if (z < 0) {
      mass[i] = t - below_tail;
    } else {
      mass[i] = below ? 1 - t - below_tail : below_tail - t;
      below = false;
    }
    mass[i] = std::max(mass[i], 0.0F);
    below_tail = t;
  }
  mass[kEdges] = below ? 1 - below_tail : below_tail;
}

void survivals(const Bins& mass, Bins& alive) {
  float beyond = 0;
  for (std::size_t i = kBins; i-- > 0;) {
    alive[i] = beyond;
    beyond += mass[i];
  }
}

void log_odds(const Bins& mass, Bins& out) {
  Bins alive;
  survivals(mass, alive);
  for (std::size_t i = 0; i < kBins; ++i) {
    const float ratio = (mass[i] + 1e-12F) / (alive[i] + 1e-12F);
    out[i] = std::clamp(fast_log(ratio), -kLogOdds, kLogOdds);
  }
}

double cumulative(const Bins& mass, double tokens) {
  if (!(tokens > 0)) return 0;
  const std::size_t bin = std::min(bin_of(tokens), kEdges);
  double below = 0;
  for (std::size_t i = 0; i < bin; ++i) below += static_cast<double>(mass[i]);
  if (bin == kEdges) return below;
  return below + static_cast<double>(mass[bin]) * passed_share(bin, tokens);
}

double quantile(const Bins& mass, double p) {
  double below = 0;
  for (std::size_t i = 0; i < kEdges; ++i) {
    const auto m = static_cast<double>(mass[i]);
    if (below + m >= p) {
      const double low = i == 0 ? 0 : kEdge[i - 1];
      return m > 0 ? low + (kEdge[i] - low) * (p - below) / m : kEdge[i];
    }
    below += m;
  }
  return kEdge[kEdges - 1];
}

}  // namespace tailrace::predict
