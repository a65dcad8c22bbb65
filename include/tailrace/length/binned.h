// How does a law that is only a table answer?
//
// A hazard per length bin: survival is linear inside a bin, so every question is a prefix sum and a
// search among the edges. A bin of one token, (k − 1, k], is an atom at k for whole-token
// questions. Beyond the last edge the survival falls as (edge/x)². Made by LengthLaw::binned.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tailrace::length {

class Binned {
 public:
  /// As LengthLaw::binned, which checks the arguments.
  Binned(std::span<const double> edges, std::span<const double> masses);

  std::span<const double> edges() const { return edges_; }
  double mass(std::size_t bin) const;    ///< bin = edges().size(): beyond the last edge
  double hazard(std::size_t bin) const;  ///< P(X in bin | X beyond the bin's lower edge)

  double survival(double tokens) const;
  double quantile(double p) const { return inverse_survival(1 - p); }
  double inverse_survival(double alive) const;  ///< where the survival is that, 0 < alive ≤ 1
  double density(double tokens) const;
  double capped_mean(double cap) const;  ///< the integral of the survival up to the cap

  friend bool operator==(const Binned&, const Binned&) = default;

 private:
  std::vector<double> edges_;
  std::vector<double> survival_;  // at each edge
  std::vector<double> area_;      // the integral of the survival up to each edge
};

}  // namespace tailrace::length
