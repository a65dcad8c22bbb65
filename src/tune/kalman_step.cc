#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "tailrace/tune/defaults.h"
#include "tailrace/tune/kalman.h"

namespace tailrace::tune {
namespace {

constexpr double kBoxFactor = 100;
constexpr double kProcessShare = 0.05;
constexpr double kJacobianShare = 0.01;
constexpr double kJacobianStepAtZero = 0.01;
constexpr double kSymmetryTolerance = 1e-6;

using Vector2 = Eigen::Vector2d;
using Vector3 = Eigen::Vector3d;
using Matrix2 = Eigen::Matrix<double, 2, 2, Eigen::RowMajor>;
using Matrix3 = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;
using Matrix23 = Eigen::Matrix<double, 2, 3, Eigen::RowMajor>;
using Matrix32 = Eigen::Matrix<double, 3, 2, Eigen::RowMajor>;

template <class Matrix, std::size_t N>
Matrix read(const std::array<double, N>& rows) {
  return Eigen::Map<const Matrix>(rows.data());
}

template <std::size_t N, class Matrix>
std::array<double, N> write(const Matrix& matrix) {
  std::array<double, N> rows{};
  Eigen::Map<Matrix>(rows.data()) = matrix;
  return rows;
}

std::array<double, 9> diagonal(const KalmanState& d) {
  return {d[0], 0, 0, 0, d[1], 0, 0, 0, d[2]};
}

KalmanState scaled(const KalmanState& state, double factor) {
  return {state[0] * factor, state[1] * factor, state[2] * factor};
}

/// Nothing if the model has no answer at one of the six points.
std::optional<Matrix23> jacobian_at(const KalmanState& x, const KalmanPrediction& predict) {
  Matrix23 h;
  for (std::size_t j = 0; j < x.size(); ++j) {
    const double step = x[j] == 0 ? kJacobianStepAtZero : kJacobianShare * std::abs(x[j]);
    KalmanState above = x, below = x;
    above[j] += step;
    below[j] -= step;
    const auto high = predict(above);
    const auto low = predict(below);
    if (!high || !low) return std::nullopt;
    for (int row = 0; row < 2; ++row) {
      const auto r = static_cast<std::size_t>(row);
      h(row, static_cast<int>(j)) = ((*high)[r] - (*low)[r]) / (2 * step);
    }
  }
  return h;
}

}  // namespace

KalmanBounds KalmanBounds::around(const KalmanState& guess) {
  return {scaled(guess, 1 / kBoxFactor), scaled(guess, kBoxFactor)};
}

KalmanBounds KalmanBounds::defaults() {
  return around({kDefaultStart.alpha_ms, kDefaultStart.beta_ms, kDefaultStart.gamma_ms});
}

KalmanState KalmanBounds::clamp(const KalmanState& state) const {
  KalmanState inside{};
  for (std::size_t j = 0; j < state.size(); ++j) {
    inside[j] = std::clamp(state[j], low[j], high[j]);
  }
  return inside;
}

KalmanNoise KalmanNoise::of(const KalmanState& state, const KalmanMeasurement& observed) {
  const auto square = [](double value) { return value * value; };
  KalmanNoise noise;
  noise.process = diagonal({square(kProcessShare * state[0]), square(kProcessShare * state[1]),
                            square(kProcessShare * state[2])});
  noise.measurement = {square(kMeasurementShare * observed[0]), 0, 0,
                       square(kMeasurementShare * observed[1])};
  return noise;
}

KalmanStep kalman_step(const KalmanState& state, const std::array<double, 9>& uncertainty,
                       const KalmanNoise& noise, const KalmanBounds& bounds,
                       const KalmanMeasurement& observed, const KalmanPrediction& predict) {
  KalmanStep step;
  const KalmanState x = bounds.clamp(state);
  const auto predicted = predict(x);
  if (!predicted) return step;
  step.predicted = *predicted;
  step.innovation = {observed[0] - (*predicted)[0], observed[1] - (*predicted)[1]};

  step.verdict = KalmanVerdict::kNoJacobian;
  const auto h = jacobian_at(x, predict);
  if (!h) return step;
  step.jacobian = write<6>(*h);

  step.verdict = KalmanVerdict::kSingular;
  const Matrix3 p = read<Matrix3>(uncertainty) + read<Matrix3>(noise.process);
  const Matrix2 s = *h * p * h->transpose() + read<Matrix2>(noise.measurement);
  step.covariance = write<4>(s);
  const double determinant = s.determinant();
  if (!std::isfinite(determinant) || determinant == 0) return step;
  const Matrix2 s_inverse = s.inverse();
  const Matrix32 k = p * h->transpose() * s_inverse;
  const Vector2 y(step.innovation[0], step.innovation[1]);
  const double nis = y.dot(s_inverse * y);
  const Vector3 moved = Vector3(x[0], x[1], x[2]) + k * y;
  const Matrix3 p_after = (Matrix3::Identity() - k * *h) * p;
  if (!std::isfinite(nis) || !moved.allFinite() || !p_after.allFinite()) return step;

  step.gain = write<6>(k);
  step.nis = nis;
  step.unclamped = {moved[0], moved[1], moved[2]};
  step.state = bounds.clamp(step.unclamped);
  step.uncertainty = write<9>(p_after);
  step.verdict = nis >= kMaxNis ? KalmanVerdict::kOutlier : KalmanVerdict::kAccepted;
  return step;
}

bool is_symmetric(const std::array<double, 9>& p) {
  const auto alike = [](double a, double b) {
    if (a == 0 || b == 0) return a == b;
    return std::abs(a - b) / (std::abs(a) + std::abs(b)) < kSymmetryTolerance;
  };
  return alike(p[1], p[3]) && alike(p[2], p[6]) && alike(p[5], p[7]);
}

std::optional<KalmanMeasurement> kalman_prediction(const queueing::ServiceModel& model,
                                                   const queueing::Workload& workload) {
  const auto at = queueing::latency_unchecked(model, workload, queueing::Detail::kMeans);
  if (!at.stable || !at.ttft_ms || !at.itl_ms) return std::nullopt;
  const double ttft = model.mode == queueing::Mode::kChain ? *at.ttft_ms - *at.itl_ms : *at.ttft_ms;
  if (!std::isfinite(ttft) || !std::isfinite(*at.itl_ms)) return std::nullopt;
  return KalmanMeasurement{ttft, *at.itl_ms};
}

}  // namespace tailrace::tune
