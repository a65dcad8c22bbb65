// Which alpha, beta and gamma explain all of these rows best, and how surely?
//
// Weighted least squares in the logarithms of parameters and of latencies, with a Gaussian prior,
// by Levenberg and Marquardt. Pure functions; a row keeps its derivatives from one fit to the next
// where the parameters have hardly moved, which is what makes a fit cheap.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tailrace/queueing/service_model.h"

namespace tailrace::tune {

using Vector3 = Eigen::Vector3d;  ///< ln alpha, ln beta, ln gamma
using Matrix3 = Eigen::Matrix3d;

/// TTFT, ITL, sequences running, and what one more of them adds to ITL.
inline constexpr std::size_t kOutputs = 4;
inline constexpr std::size_t kRunning = 2, kPerSequence = 3;
using Logs = std::array<double, kOutputs>;

/// What was seen at one operating point.
struct Row {
  queueing::Workload workload;
  Logs seen{};  ///< logarithms, where they are known
  std::array<bool, kOutputs> known{true, true, false, false};
  double per_sequence_error = 0;  ///< relative, of the last
  double requests = 1;            ///< how many the means are over
  double reports = 1;             ///< how many observations were merged into it
  double discount = 1;            ///< ≥ 1: of its evidence, since what came later spoke against it
  /// Of the logarithm of the rate that explains the means: so few requests hold no exact rate, and
  /// those that an interval begins with came at another one.
  double rate_variance = 0;
  std::int64_t cycle = 0;

  int outputs() const { return static_cast<int>(std::count(known.begin(), known.end(), true)); }

  // Predictions and their derivatives where they were last taken.
  bool predicted = false, derived = false;
  Vector3 predicted_at = Vector3::Zero(), derived_at = Vector3::Zero();
  Logs prediction{};
  std::array<Vector3, kOutputs> derivative{};
  Logs slope{};  ///< by the logarithm of the rate
};

/// direction · parameters is about `mean`, give or take `sigma`; with tails of a t law of so many
/// degrees of freedom, so that data far away win, or normal ones if 0. Where only the prior speaks,
/// what is reported is as uncertain as `sigma_reported`, which reaches into those tails.
struct PriorTerm {
  Vector3 direction = Vector3::Zero();
  double mean = 0, sigma = 1, sigma_reported = 1, freedom = 0;
};

/// How far each output scatters around the model, and last the rate, in units of what is expected.
using Scales = std::array<double, kOutputs + 1>;
inline constexpr Scales kScalesExpected = {1, 1, 1, 1, 1};

/// What a row says against its prediction, in standard deviations: for each output, and last for
/// the shift of the rate that explains most of it. 0 for what is not known, and derivatives too.
struct Residual {
  static constexpr std::size_t kSize = kOutputs + 1;
  std::array<double, kSize> error{};
  std::array<Vector3, kSize> derivative{};  ///< of what is predicted
  bool shifted = false;                     ///< the rate may be another one
  /// Of the shift, beside its most likely value: what is left of the variance of each.
  std::array<double, kSize> left{};
};
/// `row` must be predicted and derived.
Residual residual(const Row& row, const Scales& scales, std::int64_t now);

struct Fit {
  Vector3 parameters = Vector3::Zero();
  double cost = 0;                 ///< with the prior's
  Matrix3 data = Matrix3::Zero();  ///< information from rows alone
  Matrix3 covariance = Matrix3::Zero();
};

/// Square of the expected relative error of an output: of the model's form, of a report, of the
/// mean over so many requests, and of age.
double row_variance(const Row& row, std::size_t output, std::int64_t now);

/// Logarithms of what the model says. Beyond `kEdge` of the largest rate they go on growing, so
/// that a search finds its way back. Always finite.
Logs predict(const queueing::ServiceModel& model, const Vector3& parameters,
             const queueing::Workload& workload);

/// Fills in row.prediction.
void refresh(const queueing::ServiceModel& model, const Vector3& parameters, Row& row);
/// Fills in row.derivative where the old one is too far away; the prediction must be there.
void derive(const queueing::ServiceModel& model, const Vector3& parameters, Row& row);

Vector3 bounded(const Vector3& parameters);
queueing::IterationModel iteration_of(const Vector3& parameters, double knee_tokens);

Fit fit(const queueing::ServiceModel& model, std::span<Row> rows, std::span<const PriorTerm> prior,
        const Vector3& start, const Scales& scales, std::int64_t now);

/// Sum over rows and prior of squared errors in units of their deviations, each with its variance
/// as scaled; refreshes the rows.
double cost_at(const queueing::ServiceModel& model, std::span<Row> rows,
               std::span<const PriorTerm> prior, const Vector3& parameters, const Scales& scales,
               std::int64_t now);

/// A first guess from one row for an assumed gamma/beta: beta from what TTFT has beyond the
/// iterations it waits for, alpha from ITL less the load's share. Assumes no light load.
Vector3 bootstrap(const queueing::ServiceModel& model, const Row& row, double gamma_over_beta);

}  // namespace tailrace::tune
