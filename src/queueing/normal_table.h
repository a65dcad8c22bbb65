// What share of a normal lies below z, and how dense is it there?
//
// From a table, with a Taylor series around its nearest node: to 1e-12 of the value at |z| < 3, to
// 1e-9 in the tails, in a sixth of the time that erfc takes. Beyond 8.5 it is 0 or 1.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

namespace tailrace::queueing {

struct NormalAt {
  double below, density;
};

class NormalTable {
 public:
  static const NormalTable& instance() {
    static const NormalTable table;
    return table;
  }

  NormalAt at(double z) const {
    if (!(z > -kMost)) return {0, 0};
    if (!(z < kMost)) return {1, 0};
    const auto k = static_cast<std::size_t>((z + kMost) * kPerUnit);
    const double node = node_at(k), d = z - node;
    const NormalAt& near = nodes_[k];
    // Hermite's polynomials of the node.
    const double square = node * node;
    const double h2 = square - 1, h3 = node * (square - 3), h4 = square * (square - 6) + 3;
    const double h5 = node * (square * (square - 10) + 15);
    const double area =
        d * (1 + d * (-node / 2 + d * (h2 / 6 + d * (-h3 / 24 + d * (h4 / 120 - d * h5 / 720)))));
    const double height =
        1 + d * (-node + d * (h2 / 2 + d * (-h3 / 6 + d * (h4 / 24 - d * h5 / 120))));
    return {near.below + near.density * area, near.density * height};
  }

 private:
  static constexpr double kMost = 8.5, kPerUnit = 32;
  static constexpr std::size_t kNodes = static_cast<std::size_t>(2 * kMost * kPerUnit) + 1;

  /// The middle of a cell.
  static double node_at(std::size_t k) { return (static_cast<double>(k) + 0.5) / kPerUnit - kMost; }

  NormalTable() {
    for (std::size_t k = 0; k < kNodes; ++k) {
      const double z = node_at(k);
      nodes_[k] = {0.5 * std::erfc(-z * M_SQRT1_2), 0.3989422804014327 * std::exp(-0.5 * z * z)};
    }
  }

  std::array<NormalAt, kNodes> nodes_;
};

inline NormalAt normal_at(double z) {
  return NormalTable::instance().at(z);
}
inline double normal_below(double z) {
  return normal_at(z).below;
}

}  // namespace tailrace::queueing
