// Which alpha, beta and gamma explain the TTFT and ITL that a variant's pods report, and how sure
// is that?
//
// One interface, two estimators: `kalman` is the specification's extended Kalman filter
// (kalman.h), `windowed`, the default, is ours (windowed.h). An estimator holds one variant's
// state. No clock, no chance, one thread; cycles in the order of time.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tailrace/tune/observation.h"

namespace tailrace::tune {

enum class EstimatorKind { kKalman, kWindowed };
std::string_view to_string(EstimatorKind kind);
/// Errors: kInvalidArgument naming the estimators.
Result<EstimatorKind> parse_estimator(std::string_view text);

/// What another variant of the same model has taught: a guess for this one.
struct PriorParameters {
  queueing::IterationModel values;  ///< alpha, beta and gamma above 0
  double log_sd = 1;                ///< of each parameter's logarithm, from 1e-6 to 100
};

/// What is known of the variant without learning.
struct TuneConfig {
  EstimatorKind estimator = EstimatorKind::kWindowed;
  /// `kalman`: what it predicts TTFT and ITL with. `windowed` is always corrected.
  queueing::Mode observation_mode = queueing::Mode::kChain;
  queueing::ServiceLimits limits;
  double knee_tokens = 0;  ///< of the iteration time, where known
  queueing::Iterations iterations = queueing::Iterations::kOutput;  ///< `windowed`
  /// What the interval of rates is about; without targets, TTFT and ITL as the estimate has them at
  /// 0.8 of its own maximum rate.
  double ttft_ms = 0, itl_ms = 0;
  /// `windowed`: where it starts, if anything is known. The specification's filter begins with its
  /// own guess.
  std::optional<PriorParameters> prior;

  /// Errors: kInvalidArgument naming the field, its value and what it may be.
  Result<void> check() const;
};

/// What a cycle left behind. The parameters are the best so far: after a rejected cycle, the old
/// ones.
struct ParameterEstimate {
  /// Empty only before the first usable observation.
  std::optional<queueing::IterationModel> values;
  /// Row by row, of (alpha, beta, gamma) for `kalman`, of their logarithms for `windowed`.
  std::optional<std::array<double, 9>> covariance;
  /// How much weaker the weakest direction of the parameters is seen than the strongest; empty
  /// where the estimator does not know.
  std::optional<double> condition;
  bool identified = false;    ///< every direction is known from data rather than from the prior
  std::optional<double> nis;  ///< of this cycle: normalised innovation squared
  /// `windowed`: root mean square relative error with which TTFT and ITL of new cycles were
  /// foretold before they were used. A wrong model passes its own residuals, not this.
  std::optional<double> holdout_error;
  bool accepted = false;  ///< this cycle moved (or confirmed) the parameters
  std::string reason;     ///< one sentence: why accepted or not, what is not identified
  /// Requests per second that one replica takes under the targets of TuneConfig, for the lengths
  /// of the latest usable cycle: estimate, and a 90 % interval.
  std::optional<double> rate_per_s, rate_low_per_s, rate_high_per_s;
};

class Estimator {
 public:
  virtual ~Estimator() = default;

  /// One cycle: what each busy pod of the variant reported since the last one. May be empty, and
  /// anything may be in it; what cannot teach is left out, and said in `reason`.
  virtual ParameterEstimate update(std::span<const Observation> cycle) = 0;
  virtual ParameterEstimate current() const = 0;
  /// The same with rate and interval under these targets (0: none) for these lengths, whatever
  /// TuneConfig says.
  virtual ParameterEstimate current_under(double ttft_ms, double itl_ms,
                                          const queueing::Workload& lengths) const = 0;

  /// One JSON document with all that it has learnt.
  virtual std::string save() const = 0;
  /// Errors: kDataLoss or kUnsupported saying what is wrong; then nothing has changed.
  virtual Result<void> restore(std::string_view document) = 0;
};

/// Errors: those of TuneConfig::check().
Result<std::unique_ptr<Estimator>> make_estimator(const TuneConfig& config);

}  // namespace tailrace::tune
