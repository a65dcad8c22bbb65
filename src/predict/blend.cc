#include "predict/blend.h"

#include <algorithm>
#include <cmath>

#include "predict/log_t_score.h"

namespace tailrace::predict {
namespace {

constexpr double kFactorVariance = 0.3;  // of a factor before anything is known
constexpr double kForgetting = 1e-6;     // variance that every answer gives back
constexpr double kMaxMove = 1.0;         // of the sum in one step
constexpr double kFactorMin = -1, kFactorMax = 3;

}  // namespace

Blend::Blend() {
  factors_.fill(1);
  factors_[kParts] = 0;
  for (std::size_t i = 0; i < kSize; ++i) covariance_[i][i] = kFactorVariance;
}

Blend Blend::afresh() const {
  Blend fresh;
  fresh.factors_ = factors_;
  return fresh;
}

double Blend::sum(const Parts& parts) const {
  double sum = factors_[kParts];
  for (std::size_t i = 0; i < kParts; ++i) sum += factors_[i] * parts[i];
  return sum;
}

void Blend::learn(const Parts& parts, double residual, double sigma, bool censored, double weight) {
  std::array<double, kSize> x;
  std::copy(parts.begin(), parts.end(), x.begin());
  x[kParts] = 1;
  std::array<double, kSize> cx{};  // covariance · x
  double variance = 0;
  for (std::size_t i = 0; i < kSize; ++i) {
    for (std::size_t j = 0; j < kSize; ++j) cx[i] += covariance_[i][j] * x[j];
    variance += x[i] * cx[i];
  }
  variance = std::max(variance, 0.0);  // rounding
  const double spread = std::sqrt(sigma * sigma + variance);
  const Score s = score(residual / spread, censored);
  const double information = weight * s.curvature / (spread * spread);
  const double left = 1 / (1 + variance * information);
  const double limit = kMaxMove / std::max(variance, 1e-9);
  const double gain = std::clamp(weight * s.location / spread * left, -limit, limit);
  for (std::size_t i = 0; i < kSize; ++i) {
    factors_[i] = std::clamp(factors_[i] + cx[i] * gain, kFactorMin, kFactorMax);
    for (std::size_t j = 0; j < kSize; ++j) covariance_[i][j] -= cx[i] * cx[j] * information * left;
  }
  for (std::size_t i = 0; i < kSize; ++i) {
    covariance_[i][i] = std::clamp(covariance_[i][i] + kForgetting, 0.0, kFactorVariance);
  }
}

void Blend::write(ImageWriter& out) const {
  for (const double factor : factors_) out.f64(factor);
  for (std::size_t i = 0; i < kSize; ++i) {
    for (std::size_t j = 0; j <= i; ++j) out.f64(covariance_[i][j]);
  }
}

bool Blend::read(ImageReader& in) {
  for (double& factor : factors_) factor = in.f64_within(kFactorMin, kFactorMax);
  for (std::size_t i = 0; i < kSize; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const double limit = i == j ? kFactorVariance : 1;
      covariance_[i][j] = in.f64_within(i == j ? 0 : -limit, limit);
      covariance_[j][i] = covariance_[i][j];
    }
  }
  return in.ok();
}

}  // namespace tailrace::predict
