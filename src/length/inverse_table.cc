#include "length/inverse_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "length/cubic_axis.h"
#include "length/quadrature.h"
#include "length/student_t.h"

namespace tailrace::length {
namespace {

constexpr double kSigmaMin = 0.03;
constexpr double kSigmaMax = 3;
constexpr double kMuMin = -2;
constexpr double kMuMax = 12;
// Below this median a law with the least sigma still tells single tokens apart.
constexpr double kLongMu = 3.1;
// From this cap on Euler-Maclaurin holds to 3e-4 even for the least sigma.
constexpr double kSmoothCap = 16;
// Up to this cap P(X ≤ k)/(k(k + 1)) is added term by term, in less time than the tables take.
constexpr double kFewTokens = 10;
constexpr double kLeastA = -9.5;      // ln kSmoothCap − kMuMax, and some
constexpr double kGreatestA = 12;     // beyond it T is under 1e-5 of W
constexpr double kSummedTokens = 32;  // of W, one by one

constexpr int kRootRows = 40;
constexpr int kColumns = 240;
constexpr int kLogRows = 40;
constexpr int kShortColumns = 520;
constexpr int kLongColumns = 96;

const CubicAxis kRoot =
    CubicAxis::serving(std::sqrt(kSigmaMin), std::sqrt(kSigmaMax) * 1.0001, kRootRows);
const CubicAxis kU = CubicAxis::serving(kLeastA - 6, kGreatestA + 6, kColumns);
const CubicAxis kLogSigma =
    CubicAxis::serving(std::log(kSigmaMin), std::log(kSigmaMax) + 1e-4, kLogRows);
const CubicAxis kShortMu = CubicAxis::serving(kMuMin, kLongMu, kShortColumns);
const CubicAxis kLongMus = CubicAxis::serving(kLongMu, kMuMax + 1e-4, kLongColumns);

const std::array<double, 16> kLogs = [] {
  std::array<double, 16> logs{};
  for (std::size_t k = 1; k < logs.size(); ++k) logs[k] = std::log(static_cast<double>(k));
  return logs;
}();

std::size_t entry(int row, int columns, int column) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
         static_cast<std::size_t>(column);
}

/// The density of X, its derivative and second derivative at x, times x, x² and x³.
struct Slopes {
  double f, f1, f2;
};

Slopes slopes(double z, double sigma) {
  const double q = kTieNu + z * z;
  const double scaled = q / kTieNu;
  constexpr double kPeak = 0.371772343732;
  const double f = kPeak / (scaled * scaled * std::sqrt(std::sqrt(scaled)) * sigma);
  const double rate = -(kTieNu + 1) * z / (q * sigma);
  const double bend = -(kTieNu + 1) * (kTieNu - z * z) / (q * q * sigma * sigma);
  const double first = rate - 1;
  return {f, f * first, f * (first * first + bend - first)};
}

/// What Euler and Maclaurin add to an integral of p(x)/(x(x + 1)) from 1/r on, in units of r²: p is
/// P(X > x), or P(X ≤ x) with sign −1.
double ends_of_sum(double p, const Slopes& s, double sign, double r) {
  const double w = 1 / (1 + r);  // x²/(x(x + 1)), and its derivative times x
  const double w1 = -(2 + r) * w * w;
  return 0.5 * p * w - r * ((p * w1 - sign * s.f * w) / 12) -
         sign * r * r * r * ((s.f2 * w + 3 * s.f1 * w1) / 720);
}

/// E[X^−power; X > tokens].
double inverse_moment(const LogT& law, double power, double tokens) {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  return partial_moment({-power * law.mu, power * law.sigma, law.nu}, kLowest,
                        -standardise(law, tokens), 0);
}

/// W: the first terms one by one, then Euler-Maclaurin on P(X ≤ x)/(x(x + 1)), whose integral is
/// taken as that of P(X ≤ x)·(1/x² − 1/x³ + 1/x⁴), by parts.
double whole_inverse(const LogT& law) {
  const auto finished = [&](double k) { return tie_t_survival(-standardise(law, k)); };
  double sum = 0;
  for (double k = 1; k < kSummedTokens; ++k) sum += finished(k) / (k * (k + 1));
  const double r = 1 / kSummedTokens;
  const double before = finished(kSummedTokens);
  const double integral = r * before + inverse_moment(law, 1, kSummedTokens) -
                          (r * r * before + inverse_moment(law, 2, kSummedTokens)) / 2 +
                          (r * r * r * before + inverse_moment(law, 3, kSummedTokens)) / 3;
  const Slopes s = slopes(standardise(law, kSummedTokens), law.sigma);
  return sum + integral + r * r * ends_of_sum(before, s, -1, r);
}

}  // namespace

InverseTable::InverseTable()
    : tail2_(entry(kRootRows, kColumns, 0)),
      tail3_(entry(kRootRows, kColumns, 0)),
      short_(entry(kLogRows, kShortColumns, 0)),
      long_(entry(kLogRows, kLongColumns, 0)) {
  for (int row = 0; row < kRootRows; ++row) {
    const double sigma = kRoot.at(row) * kRoot.at(row);
    for (int column = 0; column < kColumns; ++column) {
      // With the cap as unit, mu = −a; by parts, the integral of S/x² from 1 on is
      // S(1) − E[1/X; X > 1], and that of S/x³ is half of S(1) − E[1/X²; X > 1].
      const double a = invert_column_coordinate(kU.at(column), sigma);
      const LogT law{-a, sigma, kTieNu};
      const double alive = tie_t_survival(a / sigma);
      tail2_[entry(row, kColumns, column)] = alive - inverse_moment(law, 1, 1);
      tail3_[entry(row, kColumns, column)] = 0.5 * (alive - inverse_moment(law, 2, 1));
    }
  }
  for (int row = 0; row < kLogRows; ++row) {
    const double sigma = std::exp(kLogSigma.at(row));
    for (int column = 0; column < kShortColumns; ++column) {
      const LogT law{kShortMu.at(column), sigma, kTieNu};
      short_[entry(row, kShortColumns, column)] = std::log(whole_inverse(law));
    }
    for (int column = 0; column < kLongColumns; ++column) {
      const LogT law{kLongMus.at(column), sigma, kTieNu};
      long_[entry(row, kLongColumns, column)] = std::log(whole_inverse(law));
    }
  }
}

/// T for a cap that is smooth.
double InverseTable::beyond(const LogT& law, double cap, double root_sigma) const {
  const double a = std::log(cap) - law.mu;
  if (a > kGreatestA) return 0;
  const CubicCell row = kRoot.locate(root_sigma);
  const CubicCell column = kU.locate(column_coordinate(a, law.sigma));
  const double tail2 = interpolate(tail2_.data(), kColumns, row, column);
  const double tail3 = interpolate(tail3_.data(), kColumns, row, column);
  // 1/(x(x + 1)) = 1/x² − 1/x³ + 1/x⁴ − …; the third is two thirds of the second where it counts.
  const double r = 1 / cap;
  const double integral = tail2 - tail3 * r / (1 + r * (2.0 / 3));
  const double z = a / law.sigma;
  const double alive = tie_t_survival(z);
  const Slopes s = slopes(z, law.sigma);
  return r * (integral + r * ends_of_sum(alive, s, 1, r));
}

std::optional<double> InverseTable::find(const LogT& law, double cap) const {
  if (law.nu != kTieNu || !(law.sigma >= kSigmaMin && law.sigma <= kSigmaMax) ||
      !(law.mu >= kMuMin && law.mu <= kMuMax)) {
    return std::nullopt;
  }
  const double at_cap = 1 / cap;
  const auto z = [&](double k) {
    return (kLogs[static_cast<std::size_t>(k)] - law.mu) / law.sigma;
  };
  if (cap <= kFewTokens) {
    double sum = at_cap;
    for (double k = 1; k < cap; ++k) sum += tie_t_survival(-z(k)) / (k * (k + 1));
    return sum;
  }
  double tail = beyond(law, std::max(cap, kSmoothCap), std::sqrt(law.sigma));
  for (double k = cap; k < kSmoothCap; ++k) tail += tie_t_survival(z(k)) / (k * (k + 1));
  const CubicCell row = kLogSigma.locate(std::log(law.sigma));
  const double log_whole =
      law.mu < kLongMu ? interpolate(short_.data(), kShortColumns, row, kShortMu.locate(law.mu))
                       : interpolate(long_.data(), kLongColumns, row, kLongMus.locate(law.mu));
  return std::clamp(std::exp(log_whole) + tail, at_cap, 1.0);
}

std::size_t InverseTable::bytes() const {
  return (tail2_.size() + tail3_.size() + short_.size() + long_.size()) * sizeof(double) +
         sizeof(*this);
}

const InverseTable& inverse_table() {
  static const InverseTable table;
  return table;
}

}  // namespace tailrace::length
