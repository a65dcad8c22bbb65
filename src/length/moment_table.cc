#include "length/moment_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "length/quadrature.h"
#include "length/student_t.h"

namespace tailrace::length {
namespace {

constexpr double kLevel = 0.9;

// Rows: sqrt(sigma). Columns: u (below). Each axis has nodes beyond the range it serves, so that
// four nodes surround every query.
constexpr int kRows = 128;
constexpr int kColumns = 400;
constexpr int kBodyNodes = 512;
constexpr double kSigmaMin = 0.0099;
constexpr double kSigmaMax = 2.55;
constexpr double kUMin = -12.6;
constexpr double kUMax = 18.2;

struct Axis {
  double first;  ///< the value at node 0
  double step;
  double at(int node) const { return first + step * node; }
};

/// An axis of `nodes` nodes that serves [lo, hi] with one spare node below and two above.
Axis make_axis(double lo, double hi, int nodes) {
  const double step = (hi - lo) / (nodes - 4);
  return {lo - step, step};
}

const Axis kRoot = make_axis(std::sqrt(kSigmaMin), std::sqrt(kSigmaMax), kRows);
const Axis kU = make_axis(kUMin, kUMax, kColumns);
const Axis kBodyRoot = make_axis(std::sqrt(kSigmaMin), std::sqrt(kSigmaMax), kBodyNodes);

/// Stretches the neighbourhood of the median, where the mean turns from e^mu to the cap within a
/// sigma.
double column_coordinate(double a, double sigma) {
  const double z = a / sigma;
  return a + 6 * z / (1 + std::sqrt(1 + z * z));
}

/// The a at which column_coordinate is u: it rises monotonously in a, between u − 6 and u + 6.
double invert_column_coordinate(double u, double sigma) {
  double lo = u - 6;
  double hi = u + 6;
  for (int i = 0; i < 80 && hi - lo > 1e-15 * (1 + std::fabs(lo)); ++i) {
    const double middle = 0.5 * (lo + hi);
    (column_coordinate(middle, sigma) < u ? lo : hi) = middle;
  }
  return 0.5 * (lo + hi);
}

/// A smooth stand-in for min(a, 0), which ln(E/e^mu) approaches on both sides.
double asymptote(double a, double sigma) {
  return 0.5 * (a - std::sqrt(a * a + sigma * sigma));
}

struct Cell {
  int first;                      ///< the first of four nodes
  std::array<double, 4> weights;  ///< Lagrange's, of those nodes
};

Cell locate(const Axis& axis, double x) {
  const double position = (x - axis.first) / axis.step;
  const int node = static_cast<int>(position);
  const double t = position - node;
  const double t1 = t - 1;
  const double t2 = t - 2;
  const double tp = t + 1;
  return {node - 1, {-t * t1 * t2 / 6, tp * t1 * t2 / 2, -tp * t * t2 / 2, tp * t * t1 / 6}};
}

}  // namespace

MomentTable::MomentTable()
    : log_excess_(static_cast<std::size_t>(kRows) * kColumns), body_moments_(kBodyNodes) {
  for (int row = 0; row < kRows; ++row) {
    const double sigma = kRoot.at(row) * kRoot.at(row);
    for (int column = 0; column < kColumns; ++column) {
      const double a = invert_column_coordinate(kU.at(column), sigma);
      const double mean = capped_mean({0, sigma, kTieNu}, std::exp(a));
      log_excess_[static_cast<std::size_t>(row) * kColumns + column] =
          std::log(mean) - asymptote(a, sigma);
    }
  }
  for (int node = 0; node < kBodyNodes; ++node) {
    const double sigma = kBodyRoot.at(node) * kBodyRoot.at(node);
    body_moments_[static_cast<std::size_t>(node)] = partial_moment(
        {0, sigma, kTieNu}, -std::numeric_limits<double>::infinity(), kTieQuantile90, 0);
  }
}

std::optional<CappedMoments> MomentTable::find(const LogT& law, double cap) const {
  const double sigma = law.sigma;
  if (law.nu != kTieNu || !(sigma >= kSigmaMin && sigma <= kSigmaMax)) return std::nullopt;
  const double a = std::log(cap) - law.mu;
  const double u = column_coordinate(a, sigma);
  if (!(u >= kUMin && u <= kUMax)) return std::nullopt;

  const double root = std::sqrt(sigma);
  const Cell row = locate(kRoot, root);
  const Cell column = locate(kU, u);
  const double* entry =
      log_excess_.data() + static_cast<std::size_t>(row.first) * kColumns + column.first;
  double log_excess = 0;
  for (std::size_t i = 0; i < 4; ++i, entry += kColumns) {
    const auto& w = column.weights;
    log_excess +=
        row.weights[i] * (w[0] * entry[0] + w[1] * entry[1] + w[2] * entry[2] + w[3] * entry[3]);
  }
  const double scale = std::exp(law.mu);
  const double mean = std::min(cap, scale * std::exp(log_excess + asymptote(a, sigma)));
  if (a <= sigma * kTieQuantile90) return CappedMoments{mean, cap};

  const Cell body = locate(kBodyRoot, root);
  const double* moment = body_moments_.data() + body.first;
  const auto& w = body.weights;
  const double below =
      scale * (w[0] * moment[0] + w[1] * moment[1] + w[2] * moment[2] + w[3] * moment[3]);
  return CappedMoments{mean, std::clamp((mean - below) / (1 - kLevel), mean, cap)};
}

std::size_t MomentTable::bytes() const {
  return (log_excess_.size() + body_moments_.size()) * sizeof(double) + sizeof(*this);
}

const MomentTable& moment_table() {
  static const MomentTable table;
  return table;
}

}  // namespace tailrace::length
