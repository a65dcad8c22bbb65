// Which sizes stand for all that random prompts may have?
//
// A few values with weights, for a normal and for a log-normal factor of mean 1.
#pragma once

#include <array>
#include <cmath>
#include <span>

#include "queueing/normal_table.h"

namespace tailrace::queueing {

struct Node {
  double value = 0, weight = 0;
};

/// A normal in cells of equal width.
inline constexpr double kCell = 0.8;
inline constexpr std::array<Node, 9> kNormal = {{{-3.2, 0.002397},
                                                 {-2.4, 0.020201},
                                                 {-1.6, 0.092349},
                                                 {-0.8, 0.229582},
                                                 {0.0, 0.310942},
                                                 {0.8, 0.229582},
                                                 {1.6, 0.092349},
                                                 {2.4, 0.020201},
                                                 {3.2, 0.002397}}};

/// The same in fewer cells, for what decides less.
inline constexpr std::array<Node, 7> kCoarse = {{{-3.0, 0.004433},
                                                 {-2.0, 0.054006},
                                                 {-1.0, 0.242036},
                                                 {0.0, 0.399050},
                                                 {1.0, 0.242036},
                                                 {2.0, 0.054006},
                                                 {3.0, 0.004433}}};
inline constexpr std::array<Node, 5> kFive = {
    {{-2.4, 0.026915}, {-1.2, 0.233372}, {0.0, 0.479426}, {1.2, 0.233372}, {2.4, 0.026915}}};
inline constexpr std::array<Node, 3> kThree = {
    {{-1.7320508, 1.0 / 6}, {0.0, 2.0 / 3}, {1.7320508, 1.0 / 6}}};
inline constexpr std::array<Node, 1> kOne = {{{0.0, 1.0}}};

/// A normal as nodes at equal distances.
struct Nodes {
  std::span<const Node> at;
  double cell;
};

/// As many as a random factor of this squared coefficient of variation needs.
inline Nodes nodes_for(double cv2) {
  if (cv2 > 0.5) return {kCoarse, 1};
  if (cv2 > 0.2) return {kFive, 1.2};
  if (cv2 > 0.02) return {kThree, 1.7320508};
  return {kOne, 0};
}

/// How long prompts are, beside their mean, and what else they vary by.
struct Size {
  double factor = 1, cv2 = 0, weight = 1;
  bool apart = false;  ///< one of several sizes that are told apart
};

/// Calls add(size) for sizes that vary much, in cells that are narrow where P90 and P99 are: the
/// mean of each, and its width as that of a uniform.
template <typename Add>
void size_cells(double log_sd, const Add& add) {
  struct End {
    double z, below;  ///< the share of a normal below it
  };
  static constexpr std::array<End, 11> kEnds = {{{-1.4, 0.08075665923377108},
                                                 {-0.6, 0.2742531177500736},
                                                 {0.1, 0.539827837277029},
                                                 {0.7, 0.758036347776927},
                                                 {1.1, 0.8643339390536173},
                                                 {1.45, 0.9264707403903516},
                                                 {1.8, 0.9640696808870742},
                                                 {2.15, 0.9842223926089095},
                                                 {2.55, 0.9946138540459333},
                                                 {3.05, 0.9988557931689773},
                                                 {3.8, 1}}};
  double share = 0, first = 0, low = 0;
  for (const auto& [z, share_to] : kEnds) {
    const double first_to = share_to == 1 ? 1 : normal_below(z - log_sd);
    const double high = std::exp(log_sd * (z - log_sd / 2));
    const double weight = share_to - share;
    const double mean = (first_to - first) / weight;
    const double width = (high - low) / mean;
    add({.factor = mean, .cv2 = width * width / 12, .weight = weight, .apart = true});
    share = share_to;
    first = first_to;
    low = high;
  }
}

/// add(size) for each of the sizes that random prompts may have, all of them alike where they
/// hardly vary.
template <typename Add>
void each_size(double cv2, const Add& add) {
  constexpr double kAlike = 0.02;
  if (cv2 < kAlike) {
    add(Size{});
    return;
  }
  const double log_sd = std::sqrt(std::log1p(cv2));
  if (cv2 > 0.5) {
    size_cells(log_sd, add);
    return;
  }
  // Each node is spread over its cell, which must not add to the variance.
  const Nodes nodes = nodes_for(cv2);
  const double narrower = 1 / std::sqrt(1 + nodes.cell * nodes.cell / 12);
  const double cell_var = std::pow(nodes.cell * narrower * log_sd, 2) / 12;
  double factor = std::exp(log_sd * (nodes.at.front().value * narrower - log_sd / 2));
  const double step = std::exp(log_sd * nodes.cell * narrower);
  for (const Node& node : nodes.at) {
    add({.factor = factor, .cv2 = cell_var, .weight = node.weight, .apart = true});
    factor *= step;
  }
}

}  // namespace tailrace::queueing
