#include "length/moment_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "length/cubic_axis.h"
#include "length/quadrature.h"
#include "length/student_t.h"

namespace tailrace::length {
namespace {

constexpr double kLevel = 0.9;

// Rows: sqrt(sigma). Columns: u (below). Each axis has nodes beyond the range it serves, so that
// four nodes surround every query.
constexpr int kRows = 144;
constexpr int kColumns = 400;
constexpr int kBodyNodes = 512;
constexpr double kSigmaMin = 0.0099;
constexpr double kSigmaMax = 3.05;
constexpr double kUMin = -12.6;
constexpr double kUMax = 18.2;

const CubicAxis kRoot = CubicAxis::serving(std::sqrt(kSigmaMin), std::sqrt(kSigmaMax), kRows);
const CubicAxis kU = CubicAxis::serving(kUMin, kUMax, kColumns);
const CubicAxis kBodyRoot =
    CubicAxis::serving(std::sqrt(kSigmaMin), std::sqrt(kSigmaMax), kBodyNodes);

/// A smooth stand-in for min(a, 0), which ln(E/e^mu) approaches on both sides.
double asymptote(double a, double sigma) {
  return 0.5 * (a - std::sqrt(a * a + sigma * sigma));
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
  const CubicCell row = kRoot.locate(root);
  const CubicCell column = kU.locate(u);
  const double log_excess = interpolate(log_excess_.data(), kColumns, row, column);
  const double scale = std::exp(law.mu);
  const double mean = std::min(cap, scale * std::exp(log_excess + asymptote(a, sigma)));
  if (a <= sigma * kTieQuantile90) return CappedMoments{mean, cap};

  const CubicCell body = kBodyRoot.locate(root);
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
