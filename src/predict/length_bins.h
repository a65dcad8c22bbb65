// On which grid of lengths are laws learned and mixed?
//
// One grid for all: single tokens up to 24, then bins about 7.5 % wide up to 8192 tokens and 25 %
// wide up to 2^20, then one bin for all that is beyond. Bin i is (edge(i − 1), edge(i)] tokens. The
// file also holds what is computed on whole grids: masses, survivals, log odds of ending. Pure
// functions on fixed arrays; a few hundred nanoseconds each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tailrace::predict {

namespace bins_internal {
inline constexpr double kSingles = 24, kFineEnd = 8192, kEnd = 1 << 20;
constexpr double rounded(double x) {
  const auto whole = static_cast<double>(static_cast<std::int64_t>(x));
  return x - whole < 0.5 ? whole : whole + 1;
}
/// The edge after `edge`: a whole number of tokens.
constexpr double next_edge(double edge) {
  if (edge < kSingles) return edge + 1;
  const double ratio = edge < kFineEnd ? 1.075 : 1.25;
  const double next = rounded(edge * ratio);
  const double limit = edge < kFineEnd ? kFineEnd : kEnd;
  return next * (1 + (ratio - 1) / 2) > limit ? limit : next;
}
constexpr std::size_t count_edges() {
  std::size_t count = 1;
  for (double edge = 1; edge < kEnd; edge = next_edge(edge)) ++count;
  return count;
}
}  // namespace bins_internal

inline constexpr std::size_t kEdges = bins_internal::count_edges();
inline constexpr std::size_t kBins = kEdges + 1;  ///< the last one is beyond the last edge

inline constexpr auto kEdge = [] {
  std::array<double, kEdges> edges{};
  double edge = 1;
  for (double& e : edges) {
    e = edge;
    edge = bins_internal::next_edge(edge);
  }
  return edges;
}();

/// One number per bin.
using Bins = std::array<float, kBins>;

/// The bin that holds a length; lengths below one token count as one.
std::size_t bin_of(double tokens);

/// The share of bin `bin` that an answer of `tokens`, which lies in it, has come through.
double passed_share(std::size_t bin, double tokens);

/// A length that stands for its bin: the geometric middle.
double middle_of(std::size_t bin);

/// Where one answer's unit of count goes: `part[j]` to bin first + j, j < count; the parts sum to
/// one.
struct Spread {
  std::size_t first = 0;
  std::size_t count = 0;
  Bins part{};
};
/// A triangle over the bins of the whole tokens within `half_width` of the length, relative to it.
Spread spread(double tokens, double half_width);

/// Within 2e-5 of ln x for normal x > 0; the same on every machine, and vectorised by compilers.
float fast_log(float x);
/// Within 1e-5 relative of e^x for |x| ≤ 80.
float fast_exp(float x);

/// The masses of ln X = mu + sigma·T with T Student-t of 3.5 degrees of freedom, both tails within
/// 1e-4 of themselves.
void log_t_bins(double mu, double sigma, Bins& mass);

/// alive[i] = P(X beyond bin i), from the tail on so that small ones keep their digits; the masses
/// need not sum to one.
void survivals(const Bins& mass, Bins& alive);

/// ln(mass[i] / alive[i]): the log odds of ending in bin i once there, within ±kLogOdds. The last
/// bin's is +kLogOdds.
inline constexpr float kLogOdds = 10;
void log_odds(const Bins& mass, Bins& out);

/// P(X ≤ tokens) of masses that sum to one, even inside a bin; of the last bin, nothing.
double cumulative(const Bins& mass, double tokens);
/// The least length with P(X ≤ length) ≥ p, even inside a bin; at most the last edge.
double quantile(const Bins& mass, double p);

}  // namespace tailrace::predict
