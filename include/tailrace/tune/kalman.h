// How does the published extended Kalman filter move (alpha, beta, gamma) by one observation?
//
// Specification 4.2 and the settings of the code published with it, to the digit: raw parameters,
// identity transition, a Jacobian by central differences of 1 %, P = (I − KH)P, a gate on the
// normalised innovation squared. Its faults belong to it: a rejection restores the covariance, so
// the gate never widens. The estimator `kalman` (estimator.h) is this step over cycles and pods;
// `windowed` is the one to use. Pure functions: no state, no clock.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "tailrace/queueing/service_model.h"

namespace tailrace::tune {

/// Matrices row by row. The state is (alpha, beta, gamma), the measurement (TTFT, ITL), all in ms.
using KalmanState = std::array<double, 3>;
using KalmanMeasurement = std::array<double, 2>;

/// Empty where the model has no answer, as above its largest rate.
using KalmanPrediction = std::function<std::optional<KalmanMeasurement>(const KalmanState&)>;

/// Standard deviation of an observation over its value: 95 % of them lie within 5 %.
inline constexpr double kMeasurementShare = 0.05 / 1.96;

struct KalmanBounds {
  KalmanState low, high;

  /// Of every cycle but the first: 0.01 to 100 times the default start.
  static KalmanBounds defaults();
  /// Of the first cycle: 0.01 to 100 times the guess.
  static KalmanBounds around(const KalmanState& guess);
  KalmanState clamp(const KalmanState& state) const;
};

struct KalmanNoise {
  std::array<double, 9> process{};      ///< Q
  std::array<double, 4> measurement{};  ///< R

  /// Q = diag((0.05 x)²) and R = diag((0.05 / 1.96 · z)²): the state and the first observation of a
  /// cycle set both for all of its pods.
  static KalmanNoise of(const KalmanState& state, const KalmanMeasurement& observed);
};

enum class KalmanVerdict {
  kAccepted,
  kOutlier,       ///< NIS ≥ 7.378
  kSingular,      ///< S has no inverse, or no finite one
  kNoPrediction,  ///< the model has no answer at the state
  kNoJacobian,    ///< nor beside it: the published code crashes here
};

/// What the update computed, up to where the verdict ended it.
struct KalmanStep {
  KalmanVerdict verdict = KalmanVerdict::kNoPrediction;
  KalmanMeasurement predicted{}, innovation{};
  std::array<double, 6> jacobian{};    ///< H, 2 × 3
  std::array<double, 4> covariance{};  ///< S, 2 × 2
  std::array<double, 6> gain{};        ///< K, 3 × 2
  std::optional<double> nis;
  KalmanState unclamped{};              ///< before the bounds
  KalmanState state{};                  ///< after an update, whatever the gate says
  std::array<double, 9> uncertainty{};  ///< P, likewise
};

/// One observation. The caller keeps the old state and covariance unless the verdict is kAccepted.
KalmanStep kalman_step(const KalmanState& state, const std::array<double, 9>& uncertainty,
                       const KalmanNoise& noise, const KalmanBounds& bounds,
                       const KalmanMeasurement& observed, const KalmanPrediction& predict);

/// The check that a stored covariance has to pass: |p − q| / (|p| + |q|) < 1e-6 beside the
/// diagonal, and both 0 where one is.
bool is_symmetric(const std::array<double, 9>& uncertainty);

/// What the filter compares TTFT and ITL with. TTFT is the wait and the prefill; the chain's own
/// adds one decode step.
std::optional<KalmanMeasurement> kalman_prediction(const queueing::ServiceModel& model,
                                                   const queueing::Workload& workload);

}  // namespace tailrace::tune
