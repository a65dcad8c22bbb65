// How unusual is a distance from a law that was fitted to the same values?
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "tailrace/length/length_law.h"

namespace tailrace::length {

inline constexpr std::size_t kNullNodes = 29;  ///< even steps of logit p from 0.999 to 0.001
inline constexpr double kNullLeastP = 0.001;
inline constexpr std::size_t kNullLeastCount = 5;
inline constexpr std::size_t kNullSmall = 5;  ///< sample sizes with quantiles of their own: 5 to 9
inline constexpr std::size_t kNullTerms = 3;  ///< powers of 1/√n beyond them

/// One statistic's quantile at one node, for every n.
struct NullQuantile {
  std::array<double, kNullSmall> small;
  std::array<double, kNullTerms> polynomial;  ///< in 1/√n, the limit first
};
using NullTable = std::array<NullQuantile, kNullNodes>;

/// The p of a node; falls as the node rises.
double null_node_p(std::size_t node);

enum class Statistic { kKs, kAd };  // √n·D, A²

/// Nothing for a family whose null law is not one: it depends on the true shape.
const NullTable* null_table(Family family, Statistic statistic);

/// The value that a share null_node_p(node) of samples of n reach; n ≥ kNullLeastCount.
double null_quantile(const NullTable& table, std::size_t node, std::size_t n);

/// P(statistic ≥ value) between the nodes, linear from ln value to logit p; held at 0.999 and 0.001
/// beyond them.
double null_p_value(const NullTable& table, double value, std::size_t n);

}  // namespace tailrace::length
