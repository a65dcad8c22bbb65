#include "tune/windowed_fit.h"

#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <algorithm>
#include <cmath>

namespace tailrace::tune {
namespace {

/// Of the largest rate. Beyond, the formula is not for fitting.
constexpr double kEdge = 0.97;
/// ln latency grows by this for each unit of ln rate beyond the edge.
constexpr double kSlopeBeyondEdge = 10;
constexpr double kLogMost = 60;

constexpr double kDerivativeStep = 1e-3;
constexpr double kSlopeMost = 10;  ///< by the rate: as beyond the edge
/// Derivatives are kept while no parameter has moved by more than this share.
constexpr double kKeepDerivatives = 0.02;
constexpr int kIterationsMax = 8;
constexpr double kConverged = 1e-7;
/// In deviations: beyond, an error counts linearly rather than squared.
constexpr double kRobust = 3;

// ln of the parameters, in ms: wide enough for any engine, narrow enough for arithmetic.
constexpr double kLogLow[] = {-9.2, -18.4, -25.3};  // 1e-4, 1e-8, 1e-11
constexpr double kLogHigh[] = {11.5, 6.9, 4.6};     // 1e5, 1e3, 1e2

// Relative errors, of TTFT, ITL, the number running, and what one more of them adds to ITL, which
// brings one of its own.
constexpr double kFormError[] = {0.015, 0.01, 0.02, 0.04};
constexpr double kReportError[] = {0.02, 0.02, 0.02, 0.02};
constexpr double kPerRequestError[] = {0.5, 0.2, 0.5, 0};
/// Of the last, by the coefficient of variation of answers: long ones stay while short ones come
/// and go, so what differs between moments is mostly short contexts.
constexpr double kPerSequenceByVariation = 0.1;
constexpr double kErrorPerCycle = 1e-3;  ///< parameters drift

double square(double x) {
  return x * x;
}

double log_of(const std::optional<double>& value) {
  const double x = value.value_or(0);
  if (std::isnan(x)) return kLogMost;
  return std::clamp(std::log(std::max(x, 1e-20)), -kLogMost, kLogMost);
}

double prior_cost(std::span<const PriorTerm> prior, const Vector3& at) {
  double sum = 0;
  for (const PriorTerm& term : prior) {
    const double z2 = square((term.direction.dot(at) - term.mean) / term.sigma);
    sum += term.freedom > 0 ? (term.freedom + 1) * std::log1p(z2 / term.freedom) : z2;
  }
  return sum;
}

/// 1 / the variance of the normal law that pulls as this term does here.
double prior_weight(const PriorTerm& term, const Vector3& at) {
  const double z2 = square((term.direction.dot(at) - term.mean) / term.sigma);
  const double share = term.freedom > 0 ? (term.freedom + 1) / (term.freedom + z2) : 1;
  return share / square(term.sigma);
}

/// Quadratic near 0, linear far away.
double robust_cost(double z2) {
  return z2 <= square(kRobust) ? z2 : kRobust * (2 * std::sqrt(z2) - kRobust);
}

double robust_weight(double z2) {
  return z2 <= square(kRobust) ? 1 : kRobust / std::sqrt(z2);
}

double robust_cost_at(const queueing::ServiceModel& model, std::span<Row> rows,
                      std::span<const PriorTerm> prior, const Vector3& at, const Scales& scales,
                      std::int64_t now) {
  double sum = prior_cost(prior, at);
  for (Row& row : rows) {
    refresh(model, at, row);
    const Residual r = residual(row, scales, now);
    for (const double error : r.error) sum += robust_cost(square(error));
  }
  return sum;
}

}  // namespace

Residual residual(const Row& row, const Scales& scales, std::int64_t now) {
  Residual out;
  for (Vector3& derivative : out.derivative) derivative.setZero();
  Logs variance{};
  double pull = 0, told = 0;
  Vector3 told_by = Vector3::Zero();
  for (std::size_t m = 0; m < kOutputs; ++m) {
    if (!row.known[m]) continue;
    variance[m] = row_variance(row, m, now) * scales[m];
    out.error[m] = row.seen[m] - row.prediction[m];
    out.derivative[m] = row.derivative[m];
    const double weight = row.slope[m] / variance[m];
    pull += weight * out.error[m];
    told += weight * row.slope[m];
    told_by += weight * row.derivative[m];
  }
  // The most likely shift of the rate's logarithm, and how it moves with the parameters.
  const double rate_variance = row.rate_variance * scales[kOutputs] * row.discount;
  out.shifted = rate_variance > 0;
  const double left = out.shifted ? 1 / (1 / rate_variance + told) : 0;
  const double shift = pull * left;
  const Vector3 shift_by = told_by * left;
  for (std::size_t m = 0; m < kOutputs; ++m) {
    if (!row.known[m]) continue;
    const double deviation = std::sqrt(variance[m]);
    out.error[m] = (out.error[m] - row.slope[m] * shift) / deviation;
    out.derivative[m] = (out.derivative[m] - row.slope[m] * shift_by) / deviation;
    out.left[m] = square(row.slope[m]) * left / variance[m];
  }
  if (out.shifted) {
    out.left[kOutputs] = left / rate_variance;
    out.error[kOutputs] = shift / std::sqrt(rate_variance);
    out.derivative[kOutputs] = shift_by / std::sqrt(rate_variance);
  }
  return out;
}

double row_variance(const Row& row, std::size_t output, std::int64_t now) {
  const double age = static_cast<double>(now - row.cycle) * kErrorPerCycle;
  return (square(kFormError[output]) + square(kReportError[output]) / row.reports +
          square(kPerRequestError[output]) / row.requests + square(age) +
          (output == kPerSequence ? square(row.per_sequence_error) +
                                        square(kPerSequenceByVariation * row.workload.output_cv())
                                  : 0)) *
         row.discount;
}

Vector3 bounded(const Vector3& parameters) {
  Vector3 out;
  for (int j = 0; j < 3; ++j) {
    out[j] = std::isnan(parameters[j]) ? 0.5 * (kLogLow[j] + kLogHigh[j])
                                       : std::clamp(parameters[j], kLogLow[j], kLogHigh[j]);
  }
  return out;
}

queueing::IterationModel iteration_of(const Vector3& parameters, double knee_tokens) {
  return {.alpha_ms = std::exp(parameters[0]),
          .beta_ms = std::exp(parameters[1]),
          .gamma_ms = std::exp(parameters[2]),
          .knee_tokens = knee_tokens};
}

Logs predict(const queueing::ServiceModel& model, const Vector3& parameters,
             const queueing::Workload& workload) {
  queueing::ServiceModel at = model;
  at.iteration = iteration_of(parameters, model.iteration.knee_tokens);
  queueing::Workload w = workload;
  queueing::Latency latency = latency_unchecked(at, w, queueing::Detail::kMeans);
  const double edge = kEdge * latency.max_rate_per_s;
  double beyond = 0;
  if (!latency.stable || !(w.rate_per_s <= edge)) {
    if (!(edge > 0) || !std::isfinite(edge)) return {kLogMost, kLogMost, kLogMost, kLogMost};
    beyond = std::min(kSlopeBeyondEdge * std::log(w.rate_per_s / edge), kLogMost);
    w.rate_per_s = edge;
    latency = latency_unchecked(at, w, queueing::Detail::kMeans);
  }
  const auto at_most = [](double value) { return std::min(value, kLogMost); };
  return {at_most(log_of(latency.ttft_ms) + beyond), at_most(log_of(latency.itl_ms) + beyond),
          at_most(log_of(latency.concurrency) + beyond), log_of(latency.itl_per_sequence_ms)};
}

void refresh(const queueing::ServiceModel& model, const Vector3& parameters, Row& row) {
  if (row.predicted && row.predicted_at == parameters) return;
  row.prediction = predict(model, parameters, row.workload);
  row.predicted = true;
  row.predicted_at = parameters;
}

void derive(const queueing::ServiceModel& model, const Vector3& at, Row& row) {
  if (row.derived && (at - row.derived_at).lpNorm<Eigen::Infinity>() <= kKeepDerivatives) return;
  for (int j = 0; j < 3; ++j) {
    Vector3 moved = at;
    moved[j] += kDerivativeStep;
    const Logs there = predict(model, moved, row.workload);
    for (std::size_t m = 0; m < kOutputs; ++m) {
      row.derivative[m][j] = (there[m] - row.prediction[m]) / kDerivativeStep;
    }
  }
  queueing::Workload faster = row.workload;
  faster.rate_per_s *= std::exp(kDerivativeStep);
  const Logs there = predict(model, at, faster);
  for (std::size_t m = 0; m < kOutputs; ++m) {
    row.slope[m] = std::clamp((there[m] - row.prediction[m]) / kDerivativeStep, 0.0, kSlopeMost);
  }
  row.derived = true;
  row.derived_at = at;
}

double cost_at(const queueing::ServiceModel& model, std::span<Row> rows,
               std::span<const PriorTerm> prior, const Vector3& parameters, const Scales& scales,
               std::int64_t now) {
  double sum = prior_cost(prior, parameters);
  for (Row& row : rows) {
    refresh(model, parameters, row);
    derive(model, parameters, row);
    const Residual r = residual(row, scales, now);
    for (const double error : r.error) sum += square(error);
  }
  return sum;
}

Fit fit(const queueing::ServiceModel& model, std::span<Row> rows, std::span<const PriorTerm> prior,
        const Vector3& start, const Scales& scales, std::int64_t now) {
  Fit out;
  Matrix3 pull = Matrix3::Zero();
  Vector3 at = bounded(start);
  for (Row& row : rows) {
    refresh(model, at, row);
    derive(model, at, row);
  }
  double cost = robust_cost_at(model, rows, prior, at, scales, now);
  double damping = 1e-3;
  const auto linearise = [&](Vector3& gradient) {
    out.data.setZero();
    pull.setZero();
    gradient.setZero();
    for (const PriorTerm& term : prior) {
      const double weight = prior_weight(term, at);
      pull += weight * term.direction * term.direction.transpose();
      gradient += weight * (term.mean - term.direction.dot(at)) * term.direction;
    }
    for (Row& row : rows) {
      refresh(model, at, row);
      derive(model, at, row);
      const Residual r = residual(row, scales, now);
      for (std::size_t i = 0; i < Residual::kSize; ++i) {
        const double weight = robust_weight(square(r.error[i]));
        out.data += weight * r.derivative[i] * r.derivative[i].transpose();
        gradient += weight * r.error[i] * r.derivative[i];
      }
    }
  };
  Vector3 gradient;
  linearise(gradient);
  for (int iteration = 0; iteration < kIterationsMax; ++iteration) {
    const Matrix3 information = out.data + pull;
    Matrix3 damped = information;
    damped.diagonal() *= 1 + damping;
    Vector3 step = damped.ldlt().solve(gradient);
    if (!step.allFinite()) break;
    // A factor of e^2 at a time: the line is straight nearby only.
    step *= std::min(1.0, 2 / std::max(1e-12, step.lpNorm<Eigen::Infinity>()));
    const Vector3 next = bounded(at + step);
    const double moved = (next - at).lpNorm<Eigen::Infinity>();
    const double next_cost = robust_cost_at(model, rows, prior, next, scales, now);
    if (next_cost <= cost) {
      const bool done = moved < kConverged || cost - next_cost <= 1e-9 * (1 + cost);
      at = next;
      cost = next_cost;
      damping = std::max(damping * 0.1, 1e-9);
      linearise(gradient);
      cost = robust_cost_at(model, rows, prior, at, scales, now);  // slopes are new
      if (done) break;
    } else {
      if (moved < kConverged) break;
      damping = std::max(damping * 10, 1e-2);
    }
  }
  out.parameters = at;
  out.cost = cost;
  // The prior is proper in every direction, so this has an inverse.
  Matrix3 information = out.data;
  for (const PriorTerm& term : prior) {
    information += term.direction * term.direction.transpose() / square(term.sigma_reported);
  }
  out.covariance = information.ldlt().solve(Matrix3::Identity());
  out.covariance = (0.5 * (out.covariance + out.covariance.transpose())).eval();
  for (Row& row : rows) refresh(model, at, row);
  return out;
}

Vector3 bootstrap(const queueing::ServiceModel& model, const Row& row, double gamma_over_beta) {
  const queueing::Workload& w = row.workload;
  const double ttft = std::exp(row.seen[0]), itl = std::exp(row.seen[1]);
  const double extra = model.iterations == queueing::Iterations::kOutputPlusOne ? 1 : 0;
  const double iterations = w.output_mean + extra;
  const double lambda = w.rate_per_s * 1e-3;
  // Below the knee tokens cost nothing.
  const double prompt = std::max(w.input_mean * (1 - w.prefix_hit) - model.iteration.knee_tokens,
                                 0.05 * w.input_mean);
  // Half an iteration until the next begins, then one that computes this prompt and, now and then,
  // somebody else's.
  const double prefill = std::max(ttft - 1.5 * itl, 0.02 * ttft) / (1 + lambda * itl);
  const double beta = prefill / (prompt + gamma_over_beta * w.input_mean);
  const double gamma = gamma_over_beta * beta;
  const double work =
      beta * (prompt + w.output_mean) + gamma * iterations * (w.input_mean + 0.5 * w.output_mean);
  const double alpha = itl * (1 - std::min(lambda * work, 0.9));
  return bounded({std::log(alpha), std::log(beta), std::log(gamma_over_beta * beta)});
}

}  // namespace tailrace::tune
