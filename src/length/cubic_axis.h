// How is a smooth function of one or two numbers read back from a table?
//
// By cubics through the four nodes around the place: an axis of evenly spaced nodes finds them and
// their weights. MomentTable and InverseTable share it, and the coordinate in which what depends on
// the cap is smooth.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace tailrace::length {

struct CubicCell {
  int first = 0;                    ///< the first of four nodes
  std::array<double, 4> weights{};  ///< Lagrange's, of those nodes
};

struct CubicAxis {
  double first = 0;  ///< the value at node 0
  double step = 1;

  /// `nodes` nodes that serve [lo, hi], with one spare node below and two above, so that four nodes
  /// surround every query.
  static CubicAxis serving(double lo, double hi, int nodes) {
    const double step = (hi - lo) / (nodes - 4);
    return {lo - step, step};
  }

  double at(int node) const { return first + step * node; }

  CubicCell locate(double x) const {
    const double position = (x - first) / step;
    const int node = std::max(1, static_cast<int>(position));  // lo itself may round to below 1
    const double t = position - node;
    const double t1 = t - 1;
    const double t2 = t - 2;
    const double tp = t + 1;
    return {node - 1, {-t * t1 * t2 / 6, tp * t1 * t2 / 2, -tp * t * t2 / 2, tp * t * t1 / 6}};
  }
};

inline double interpolate(const double* table, int columns, const CubicCell& row,
                          const CubicCell& column) {
  const double* entry = table +
                        static_cast<std::size_t>(row.first) * static_cast<std::size_t>(columns) +
                        column.first;
  double sum = 0;
  for (std::size_t i = 0; i < 4; ++i, entry += columns) {
    const auto& w = column.weights;
    sum += row.weights[i] * (w[0] * entry[0] + w[1] * entry[1] + w[2] * entry[2] + w[3] * entry[3]);
  }
  return sum;
}

/// Stretches the neighbourhood of the median, where the mean turns from e^mu to the cap within a
/// sigma.
inline double column_coordinate(double a, double sigma) {
  const double z = a / sigma;
  return a + 6 * z / (1 + std::sqrt(1 + z * z));
}

/// The a at which column_coordinate is u: it rises monotonously in a, between u − 6 and u + 6.
inline double invert_column_coordinate(double u, double sigma) {
  double lo = u - 6;
  double hi = u + 6;
  for (int i = 0; i < 80 && hi - lo > 1e-15 * (1 + std::fabs(lo)); ++i) {
    const double middle = 0.5 * (lo + hi);
    (column_coordinate(middle, sigma) < u ? lo : hi) = middle;
  }
  return 0.5 * (lo + hi);
}

}  // namespace tailrace::length
