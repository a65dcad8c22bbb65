#include "predict/hazard_mixer.h"

#include <algorithm>
#include <cmath>

namespace tailrace::predict {
namespace {
// The starting weights count as so much information; a decision of which two laws' odds differ by
// one has p(1 − p) of it.
constexpr double kPrior = 10;
constexpr double kKept = 0.9998;  // of the information at every answer: the last 5000 count
constexpr float kMostOdds = 12;
constexpr double kMaxWeight = 4;
}  // namespace

HazardMixer::HazardMixer(std::span<const float> start) : size_(start.size()) {
  for (std::size_t k = 0; k < size_; ++k) {
    weights_[k] = static_cast<double>(start[k]);
    precision_[k][k] = kPrior;
  }
}

HazardMixer HazardMixer::afresh() const {
  HazardMixer fresh = *this;
  fresh.precision_ = {};
  for (std::size_t k = 0; k < size_; ++k) fresh.precision_[k][k] = kPrior;
  return fresh;
}

void HazardMixer::odds(std::span<const Bins> inputs, Bins& out) const {
  out.fill(0);
  for (std::size_t k = 0; k < size_; ++k) {
    const auto w = static_cast<float>(weights_[k]);
    for (std::size_t i = 0; i < kBins; ++i) out[i] += w * inputs[k][i];
  }
  for (float& x : out) x = std::clamp(x, -kMostOdds, kMostOdds);
}

void HazardMixer::mix(std::span<const Bins> inputs, Bins& mass) const {
  Bins x;
  odds(inputs, x);
  float alive = 1;
  for (std::size_t i = 0; i < kBins; ++i) x[i] = 1 / (1 + fast_exp(x[i]));  // goes on
  x[kEdges] = 0;
  for (std::size_t i = 0; i < kBins; ++i) {
    mass[i] = alive * (1 - x[i]);
    alive *= x[i];
  }
}

void HazardMixer::learn(std::span<const Bins> inputs, std::size_t last, bool cut, double passed,
                        double weight) {
  Bins x;
  odds(inputs, x);
  std::array<double, kMost> gradient{};
  std::array<std::array<float, kMost>, kMost> fisher{};
  for (std::size_t i = 0; i <= last && i < kEdges; ++i) {
    const float go_on = 1 / (1 + fast_exp(x[i]));
    const float ends = 1 - go_on;
    const float share = cut && i == last ? static_cast<float>(passed) : 1;
    const float g = share * ((!cut && i == last ? 1.0F : 0.0F) - ends);
    const float f = share * ends * go_on;
    for (std::size_t k = 0; k < size_; ++k) {
      gradient[k] += static_cast<double>(g * inputs[k][i]);
      for (std::size_t j = 0; j <= k; ++j) fisher[k][j] += f * inputs[k][i] * inputs[j][i];
    }
  }
  std::array<std::array<double, kMost>, kMost> c{};
  for (std::size_t k = 0; k < size_; ++k) {
    for (std::size_t j = 0; j <= k; ++j) {
      double& p = precision_[k][j];
      const double prior = k == j ? kPrior : 0;
      p = prior + kKept * (p - prior) + weight * static_cast<double>(fisher[k][j]);
      c[k][j] = p;
    }
    gradient[k] = weight * gradient[k];
  }
  // Cholesky, then two triangular solves.
  for (std::size_t k = 0; k < size_; ++k) {
    for (std::size_t j = 0; j <= k; ++j) {
      double s = c[k][j];
      for (std::size_t m = 0; m < j; ++m) s -= c[k][m] * c[j][m];
      c[k][j] = k == j ? std::sqrt(std::max(s, 1e-9)) : s / c[j][j];
    }
  }
  for (std::size_t k = 0; k < size_; ++k) {
    for (std::size_t m = 0; m < k; ++m) gradient[k] -= c[k][m] * gradient[m];
    gradient[k] /= c[k][k];
  }
  for (std::size_t k = size_; k-- > 0;) {
    for (std::size_t m = k + 1; m < size_; ++m) gradient[k] -= c[m][k] * gradient[m];
    gradient[k] /= c[k][k];
  }
  for (std::size_t k = 0; k < size_; ++k) {
    if (!std::isfinite(gradient[k])) continue;
    weights_[k] = std::clamp(weights_[k] + gradient[k], -kMaxWeight, kMaxWeight);
  }
}

void HazardMixer::write(ImageWriter& out) const {
  for (std::size_t k = 0; k < size_; ++k) {
    out.f64(weights_[k]);
    for (std::size_t j = 0; j <= k; ++j) out.f64(precision_[k][j]);
  }
}

bool HazardMixer::read(ImageReader& in) {
  for (std::size_t k = 0; k < size_; ++k) {
    weights_[k] = in.f64_within(-kMaxWeight, kMaxWeight);
    for (std::size_t j = 0; j <= k; ++j) precision_[k][j] = in.f64_within(-1e12, 1e12);
  }
  return in.ok();
}

}  // namespace tailrace::predict
