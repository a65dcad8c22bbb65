// How far is each family of features to be believed?
//
// What the families add up to, one number each, is weighed by a small Bayesian regression with full
// covariance. Its factors start at one and learn from errors that were made before an answer was
// known, so a family that fits its own past too well, or says what another says already, is
// turned down. About 0.3 µs to learn.
#pragma once

#include <array>
#include <cstddef>

#include "predict/image.h"

namespace tailrace::predict {

class Blend {
 public:
  static constexpr std::size_t kParts = 9;  ///< families; one more factor is a constant
  using Parts = std::array<double, kParts>;

  Blend();
  /// The same factors, as open to change as at the start.
  Blend afresh() const;
  double factor(std::size_t part) const { return factors_[part]; }
  double sum(const Parts& parts) const;

  /// Learns from an error of `residual` that this sum had, where the rest of the error has standard
  /// deviation `sigma`. `weight` in (0, 1]: the share of a full observation that this one counts.
  void learn(const Parts& parts, double residual, double sigma, bool censored, double weight);

  void write(ImageWriter& out) const;
  bool read(ImageReader& in);

 private:
  static constexpr std::size_t kSize = kParts + 1;
  std::array<double, kSize> factors_;
  std::array<std::array<double, kSize>, kSize> covariance_{};
};

}  // namespace tailrace::predict
