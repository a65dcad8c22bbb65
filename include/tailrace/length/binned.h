// How does a law that is only a table answer?
//
// A hazard per length bin: survival is linear inside a bin, so every question is a prefix sum and a
// search among the edges. A bin of one token, (k − 1, k], is an atom at k for whole-token
// questions. Beyond the last edge the survival falls as (edge/x)². Made by LengthLaw::binned.
#pragma once

#include <cstddef>
#include <cstdint>
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
  double cdf(double tokens) const;  ///< 1 − survival, with its own digits where it is small
  double quantile(double p) const;
  double inverse_survival(double alive) const;  ///< where the survival is that, 0 < alive ≤ 1
  double density(double tokens) const;
  double capped_mean(double cap) const;  ///< the integral of the survival up to the cap
  /// E[min(X, hi); X > lo], 0 ≤ lo ≤ hi; bin by bin, so that far tails keep their digits.
  double tail_moment(double lo, double hi) const;
  /// E[1/Xd], Xd = min(cap, max(1, ceil X)): O(log bins).
  double mean_inverse(std::int64_t cap) const;

  /// The largest token count b ≤ `end` up to which the survival is linear from `at` on, at least
  /// at + 1; beyond the last edge one over which it is smooth.
  std::int64_t linear_until(std::int64_t at, std::int64_t end) const;
  /// The sum of the survival over at ≤ k < to, within one such stretch.
  double stretch_sum(std::int64_t at, std::int64_t to) const;

  friend bool operator==(const Binned&, const Binned&) = default;

 private:
  double lower_edge(std::size_t bin) const { return bin == 0 ? 0 : edges_[bin - 1]; }
  double alive_before(std::size_t bin) const { return bin == 0 ? 1 : survival_[bin - 1]; }
  std::size_t bin_of(double tokens) const;  // edges().size() beyond the last edge
  double inverse_sum(std::int64_t from, std::int64_t to) const;

  std::vector<double> edges_;
  std::vector<double> survival_;  // at each edge
  std::vector<double> cdf_;       // at each edge
  std::vector<double> area_;      // the integral of the survival up to each edge
  std::vector<double> inverse_;   // the sum of P(X rounds up to k)/k up to each edge, rounded down
};

}  // namespace tailrace::length
