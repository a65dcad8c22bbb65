// The default estimator: a window of different operating points, fitted jointly.
//
// Nothing is propagated from cycle to cycle but rows, so no covariance can drift: it is the inverse
// of the window's information and the prior's, symmetric and positive by construction. A cycle that
// nothing explains is left out, and every rejection takes weight from the old rows, so that no
// start, however wrong, is kept for ever.
#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tailrace/queueing/sizing.h"
#include "tailrace/tune/defaults.h"
#include "tune/chi_square.h"
#include "tune/estimators.h"
#include "tune/windowed_rows.h"
#include "tune/windowed_state.h"

namespace tailrace::tune {
namespace {

/// A row further from the prediction than this is left out. Errors of the model's form have wider
/// tails than a normal law, so the gate is wider than the published filter's 0.975.
constexpr double kGateQuantile = 0.995;
constexpr double kInflation = 1.5;  ///< of old evidence's variance, at each rejection
constexpr double kDiscountMost = 1e4;
/// Cycles in a row, all slower or all faster than foretold: other hardware or flags.
constexpr std::int64_t kRejectionsOfAChange = 3;

// Prior: what fits and profiles of real engines (8B to 70B, A100 and H100) have in common, in
// logarithms. gamma/beta lies at 4e-4 to 4e-3; alpha/beta, the number of tokens at which computing
// takes as long as reading the weights, at 150 to 300; gamma at 2e-5 to 1e-4 ms, since larger
// models run on more accelerators. Engines of sample data lie at 3e-2, 500 and 5e-4: hence tails of
// a t law.
constexpr double kGammaOverBeta = kGammaPerBeta, kGammaOverBetaSpread = 4;
constexpr double kAlphaOverBeta = 250, kAlphaOverBetaSpread = 1, kAlphaOverBetaReach = 1;
constexpr double kGamma = 6e-5, kGammaSpread = 0.5, kGammaReach = 3;
constexpr double kTailFreedom = 1;
constexpr double kBootstrapSpread = 3;  ///< around the bootstrap's alpha and beta: it is data too
constexpr double kOldParametersSpread = 1;  ///< around what was learnt before a change
/// Other starts for a search that ends badly.
constexpr double kOtherGammaOverBeta = 3e-2;

constexpr double kScaleWeight = 8;  ///< reports that the expected scatter is worth
constexpr double kScaleLeast = 1.0 / 16, kScaleMost = 4;
constexpr double kBadFit = 4;  ///< mean squared error in expected ones

/// `identified`: no direction of the parameters is known worse than this from data alone, nor
/// worse than this many times the best one.
constexpr double kIdentifiedSd = 0.25;
constexpr double kConditionMost = 1000;
constexpr double kConditionCap = 1e12;
/// Logarithms of rate and lengths: less is "hardly varied".
constexpr double kVaried = 0.2;
constexpr double kNamedShare = 0.03;  ///< of a direction's largest component

/// Of an interval, that requests last: more is worth saying.
constexpr double kUnsteady = 0.3;

constexpr double kHoldoutKeep = 0.8;
constexpr std::int64_t kHoldoutFrom = 3;  ///< cycles learnt before predictions are judged
constexpr double kHoldoutWorthSaying = 0.1;

constexpr double kNormal95 = 1.6448536269514722;
// Of the model's form: where latency hardly grows with the rate, a small error of latency is a
// large one of the rate.
constexpr double kFormErrorOfRate = 0.025, kFormErrorOfLatency = 0.01;
constexpr double kFormErrorByVariation = 0.04;  ///< of the lengths
constexpr double kShareWithoutTargets = 0.8;    ///< of the largest rate
constexpr double kDeltaMethodMost = 0.1;        ///< beyond, ends are searched for

PriorTerm term(const Vector3& direction, double mean, double sigma) {
  return {direction, mean, sigma, sigma, 0};
}
PriorTerm common(const Vector3& direction, double value, double spread, double reach) {
  return {direction, std::log(value), spread, reach, kTailFreedom};
}

/// Of the logarithm of a rate.
struct RateSlopes {
  Vector3 by_parameter = Vector3::Zero();
  double by_latency = 0;  ///< of the target that ends it
};

class Windowed final : public Estimator {
 public:
  explicit Windowed(const TuneConfig& config) : config_(config) {
    model_.mode = queueing::Mode::kCorrected;
    model_.iterations = config.iterations;
    model_.limits = config.limits;
    model_.iteration.knee_tokens = config.knee_tokens;
  }

  ParameterEstimate update(std::span<const Observation> cycle) override;
  ParameterEstimate current() const override { return state_.estimate; }
  ParameterEstimate current_under(double ttft_ms, double itl_ms,
                                  const queueing::Workload& lengths) const override {
    Windowed other = *this;
    other.config_.ttft_ms = ttft_ms;
    other.config_.itl_ms = itl_ms;
    other.state_.latest = lengths;
    if (state_.parameters) other.report_rate(state_.covariance);
    return other.state_.estimate;
  }
  std::string save() const override { return to_json(state_); }
  Result<void> restore(std::string_view document) override {
    auto state = windowed_state_from_json(document);
    if (!state) return fail(state.error());
    state_ = std::move(*state);
    return {};
  }

 private:
  ParameterEstimate left_out(const std::string& why, std::optional<double> nis);
  void begin(std::vector<Row> rows);
  std::vector<PriorTerm> prior() const;
  double row_nis(Row& row) const;
  void note_holdout(std::span<const Row> rows);
  bool explains_together(std::span<const Row> passing, std::span<const Row> failing);
  void add(std::vector<Row> rows);
  void refit(const Vector3& start);
  void try_other_starts();
  bool changed(std::span<const Row> failing);
  void believe(const Vector3& parameters, double sigma);
  void drop_window();
  void learn_scales();
  void report(const Fit& fit, std::optional<double> nis, const std::string& note);
  void report_rate(const Matrix3& covariance);
  Vector3 along_ridge(double share) const;
  std::string unseen(const Vector3& weakest) const;
  std::optional<double> rate_for(const Vector3& parameters, RateSlopes* slopes) const;

  TuneConfig config_;
  queueing::ServiceModel model_;
  WindowedState state_;
  Fit fit_;
};

std::vector<PriorTerm> Windowed::prior() const {
  std::vector<PriorTerm> all = {
      term({0, -1, 1}, std::log(kGammaOverBeta), kGammaOverBetaSpread),
      common({1, -1, 0}, kAlphaOverBeta, kAlphaOverBetaSpread, kAlphaOverBetaReach),
      common({0, 0, 1}, kGamma, kGammaSpread, kGammaReach)};
  all.insert(all.end(), state_.prior.begin(), state_.prior.end());
  return all;
}

ParameterEstimate Windowed::left_out(const std::string& why, std::optional<double> nis) {
  state_.estimate.accepted = false;
  state_.estimate.nis = nis;
  state_.estimate.reason = why;
  return state_.estimate;
}

void Windowed::refit(const Vector3& start) {
  fit_ = fit(model_, state_.rows, prior(), start, state_.scales, state_.cycle);
  state_.parameters = fit_.parameters;
  state_.covariance = fit_.covariance;
}

/// The best of several starts: for the first rows and when the window's search ended badly.
void Windowed::begin(std::vector<Row> rows) {
  const Row& newest = rows.front();
  if (state_.prior.empty() && config_.prior) {
    const queueing::IterationModel& m = config_.prior->values;
    believe({std::log(m.alpha_ms), std::log(m.beta_ms), std::log(m.gamma_ms)},
            config_.prior->log_sd);
  } else if (state_.prior.empty()) {
    const Vector3 guess = bootstrap(model_, newest, kGammaOverBeta);
    state_.prior = {term({1, 0, 0}, guess[0], kBootstrapSpread),
                    term({0, 1, 0}, guess[1], kBootstrapSpread)};
  }
  std::optional<Fit> best;
  for (const double gamma_over_beta : {kGammaOverBeta, kOtherGammaOverBeta}) {
    const Fit candidate = fit(model_, rows, prior(), bootstrap(model_, newest, gamma_over_beta),
                              state_.scales, state_.cycle);
    if (!best || candidate.cost < best->cost) best = candidate;
  }
  fit_ = *best;
  state_.rows = std::move(rows);
  state_.parameters = fit_.parameters;
  state_.covariance = fit_.covariance;
}

double Windowed::row_nis(Row& row) const {
  refresh(model_, *state_.parameters, row);
  derive(model_, *state_.parameters, row);
  constexpr auto kSize = static_cast<Eigen::Index>(kOutputs);
  Eigen::Matrix<double, kSize, 3> slope = Eigen::Matrix<double, kSize, 3>::Zero();
  Eigen::Vector<double, kSize> error = Eigen::Vector<double, kSize>::Zero();
  for (Eigen::Index m = 0; m < kSize; ++m) {
    const auto i = static_cast<std::size_t>(m);
    if (!row.known[i]) continue;
    slope.row(m) = row.derivative[i].transpose();
    error[m] = row.seen[i] - row.prediction[i];
  }
  Eigen::Matrix<double, kSize, kSize> spread = slope * state_.covariance * slope.transpose();
  for (Eigen::Index m = 0; m < kSize; ++m) {
    const auto i = static_cast<std::size_t>(m);
    spread(m, m) += row_variance(row, i, state_.cycle) * std::max(1.0, state_.scales[i]);
    if (!row.known[i]) continue;
    for (Eigen::Index k = 0; k < kSize; ++k) {
      const auto j = static_cast<std::size_t>(k);
      if (!row.known[j]) continue;
      spread(m, k) += row.slope[i] * row.slope[j] * row.rate_variance * row.discount *
                      std::max(1.0, state_.scales[kOutputs]);
    }
  }
  const double nis = error.dot(spread.ldlt().solve(error));
  return std::isfinite(nis) && nis >= 0 ? std::min(nis, 1e12) : 1e12;
}

/// Predictions before use: what residuals of rows that were fitted cannot show.
void Windowed::note_holdout(std::span<const Row> rows) {
  if (state_.learnt < kHoldoutFrom) return;
  double sum = 0;
  for (const Row& row : rows) {
    for (std::size_t m = 0; m < 2; ++m) {
      const double error = std::clamp(row.seen[m] - row.prediction[m], -2.0, 2.0);
      sum += error * error;
    }
  }
  const double mean = sum / (2 * static_cast<double>(rows.size()));
  state_.holdout_sum = kHoldoutKeep * state_.holdout_sum + (1 - kHoldoutKeep) * mean;
  state_.holdout_weight = kHoldoutKeep * state_.holdout_weight + (1 - kHoldoutKeep);
  state_.estimate.holdout_error = std::sqrt(state_.holdout_sum / state_.holdout_weight);
}

/// The gate looks along a tangent; parameters far from the truth need the whole curve. Rows pass
/// after all if one set of parameters explains them beside everything else.
bool Windowed::explains_together(std::span<const Row> passing, std::span<const Row> failing) {
  std::vector<Row> rows = state_.rows;
  rows.insert(rows.end(), passing.begin(), passing.end());
  Scales scales;
  for (std::size_t m = 0; m < scales.size(); ++m) scales[m] = std::max(1.0, state_.scales[m]);
  const auto terms = prior();
  const double without = cost_at(model_, rows, terms, *state_.parameters, scales, state_.cycle);
  rows.insert(rows.end(), failing.begin(), failing.end());
  const Fit trial = fit(model_, rows, terms, *state_.parameters, scales, state_.cycle);
  const double with = cost_at(model_, rows, terms, trial.parameters, scales, state_.cycle);
  int freedom = 0;
  for (const Row& row : failing) freedom += row.outputs();
  if (with - without > chi_square_quantile(kGateQuantile, freedom)) return false;
  state_.parameters = trial.parameters;
  return true;
}

void Windowed::add(std::vector<Row> rows) {
  for (Row& row : rows) merge_into(state_.rows, std::move(row), 1);
}

/// A prior for all three from elsewhere or from before.
void Windowed::believe(const Vector3& parameters, double sigma) {
  const Vector3 at = bounded(parameters);
  state_.prior.clear();
  for (int j = 0; j < 3; ++j) state_.prior.push_back(term(Vector3::Unit(j), at[j], sigma));
}

void Windowed::drop_window() {
  believe(*state_.parameters, kOldParametersSpread);
  state_.rows.clear();
  state_.scales = kScalesExpected;
  state_.learnt = 0;
  state_.holdout_sum = state_.holdout_weight = 0;
  state_.estimate.holdout_error = std::nullopt;
}

/// Notes a cycle that nothing explained. True if it makes a change of hardware or flags.
bool Windowed::changed(std::span<const Row> failing) {
  double sum = 0;
  for (const Row& row : failing) {
    for (std::size_t m = 0; m < 2; ++m) {
      sum += std::clamp(row.seen[m] - row.prediction[m], -5.0, 5.0);
    }
  }
  const int direction = sum > 0 ? 1 : -1;
  if (direction != state_.direction) {
    state_.rejections = 0;
    state_.rejected.clear();
  }
  state_.direction = direction;
  ++state_.rejections;
  for (const Row& row : failing) {
    if (state_.rejected.size() < kRowsInCycle) merge_into(state_.rejected, row, 1);
  }
  if (state_.rejections >= kRejectionsOfAChange) return true;
  for (Row& row : state_.rows) row.discount = std::min(row.discount * kInflation, kDiscountMost);
  for (PriorTerm& t : state_.prior) {
    t.sigma = t.sigma_reported = std::min(t.sigma * kInflation, kDiscountMost);
  }
  state_.covariance *= kInflation;
  return false;
}

/// The cost has more than one minimum, because of the tails of the prior and of the residuals. As
/// long as a direction is not identified, or the fit is bad, other starts are tried too.
void Windowed::try_other_starts() {
  double sum = 0, count = 0;
  for (const Row& row : state_.rows) {
    const Residual r = residual(row, state_.scales, state_.cycle);
    for (const double error : r.error) sum += error * error;
    count += row.outputs();
  }
  if (state_.estimate.identified && sum <= kBadFit * count) return;
  const auto newest =
      std::max_element(state_.rows.begin(), state_.rows.end(),
                       [](const Row& a, const Row& b) { return a.cycle < b.cycle; });
  const double gamma_over_beta = state_.cycle % 2 == 0 ? kGammaOverBeta : kOtherGammaOverBeta;
  std::vector<Row> rows = state_.rows;
  const Fit other = fit(model_, rows, prior(), bootstrap(model_, *newest, gamma_over_beta),
                        state_.scales, state_.cycle);
  if (!(other.cost < fit_.cost)) return;
  fit_ = other;
  state_.rows = std::move(rows);
  state_.parameters = fit_.parameters;
  state_.covariance = fit_.covariance;
}

/// Scatter around the fit against what was expected of it. Takes effect from the next cycle on.
void Windowed::learn_scales() {
  std::vector<Residual> residuals;
  residuals.reserve(state_.rows.size());
  for (const Row& row : state_.rows) {
    residuals.push_back(residual(row, state_.scales, state_.cycle));
  }
  const Scales before = state_.scales;
  for (std::size_t m = 0; m < before.size(); ++m) {
    double sum = kScaleWeight, count = kScaleWeight;
    for (std::size_t i = 0; i < state_.rows.size(); ++i) {
      const Row& row = state_.rows[i];
      const Residual& r = residuals[i];
      if (m == kOutputs ? !r.shifted : !row.known[m]) continue;
      sum += std::min(9.0, (r.error[m] * r.error[m] + r.left[m]) * before[m]);
      ++count;
    }
    // Three parameters are fitted to two outputs.
    const double freedom = std::max(count - 1.5, kScaleWeight);
    state_.scales[m] = std::clamp(sum / freedom, kScaleLeast, kScaleMost);
  }
}

std::string Windowed::unseen(const Vector3& weakest) const {
  static constexpr const char* kNames[] = {"alpha", "beta", "gamma"};
  std::vector<const char*> names;
  const double most = weakest.lpNorm<Eigen::Infinity>();
  for (int j = 0; j < 3; ++j) {
    if (std::abs(weakest[j]) >= kNamedShare * most) names.push_back(kNames[j]);
  }
  const Spread spread = spread_of(state_.rows);
  const char* why = spread.rate < kVaried && spread.lengths < kVaried
                        ? "load and lengths have hardly varied"
                        : "the loads and lengths seen so far do not tell it";
  if (names.size() == 1) return fmt::format("{} is not seen: {}", names[0], why);
  if (names.size() == 2) return fmt::format("{} and {} trade off: {}", names[0], names[1], why);
  return fmt::format("alpha, beta and gamma trade off: {}", why);
}

/// Under the targets; empty where nothing reaches them. `slopes` of its logarithm if not null.
std::optional<double> Windowed::rate_for(const Vector3& parameters, RateSlopes* slopes) const {
  queueing::ServiceModel at = model_;
  at.iteration = iteration_of(parameters, config_.knee_tokens);
  queueing::Workload w = *state_.latest;
  const auto largest = [&](const Vector3& p) {
    queueing::ServiceModel there = model_;
    there.iteration = iteration_of(p, config_.knee_tokens);
    w.rate_per_s = 0;
    return latency_unchecked(there, w, queueing::Detail::kMeans).max_rate_per_s;
  };
  constexpr double kStep = 1e-3;
  const bool with_targets = config_.ttft_ms > 0 || config_.itl_ms > 0;
  double rate = 0;
  auto limit = queueing::SizingLimit::kStability;
  if (with_targets) {
    const auto sizing = size(at, w, {.ttft_ms = config_.ttft_ms, .itl_ms = config_.itl_ms});
    if (!sizing || !sizing->reachable) return std::nullopt;
    rate = sizing->rate_per_s;
    limit = sizing->limit;
  } else {
    rate = kShareWithoutTargets * largest(parameters);
  }
  if (!(rate > 0) || !std::isfinite(rate)) return std::nullopt;
  if (slopes == nullptr) return rate;
  if (limit == queueing::SizingLimit::kStability) {
    const double here = std::log(largest(parameters));
    for (int j = 0; j < 3; ++j) {
      Vector3 moved = parameters;
      moved[j] += kStep;
      slopes->by_parameter[j] = (std::log(largest(moved)) - here) / kStep;
    }
    return rate;
  }
  const std::size_t m = limit == queueing::SizingLimit::kTtft ? 0 : 1;
  const auto value = [&](const Vector3& p, double r) {
    w.rate_per_s = r;
    return predict(model_, p, w)[m];
  };
  const double here = value(parameters, rate);
  const double slope = std::max(1e-6, (value(parameters, rate * std::exp(kStep)) - here) / kStep);
  for (int j = 0; j < 3; ++j) {
    Vector3 moved = parameters;
    moved[j] += kStep;
    slopes->by_parameter[j] = -(value(moved, rate) - here) / kStep / slope;
  }
  slopes->by_latency = 1 / slope;
  return rate;
}

void Windowed::report_rate(const Matrix3& covariance) {
  ParameterEstimate& out = state_.estimate;
  out.rate_per_s = out.rate_low_per_s = out.rate_high_per_s = std::nullopt;
  RateSlopes slopes;
  const auto rate = rate_for(*state_.parameters, &slopes);
  if (!rate) return;
  const double sd =
      std::sqrt(std::max(0.0, slopes.by_parameter.dot(covariance * slopes.by_parameter)));
  double below = kNormal95 * sd, above = below;
  bool reaches_nothing = false;
  if (sd > kDeltaMethodMost) {
    below = above = 0;
    for (const double share : {-1.0, -0.5, 0.5, 1.0}) {
      const auto there = rate_for(along_ridge(share), nullptr);
      if (!there) {
        reaches_nothing = true;
        continue;
      }
      below = std::max(below, std::log(*rate / *there));
      above = std::max(above, std::log(*there / *rate));
    }
  }
  const double form =
      kNormal95 * std::hypot(kFormErrorOfRate, kFormErrorOfLatency * slopes.by_latency,
                             kFormErrorByVariation *
                                 std::max(state_.latest->output_cv(), state_.latest->input_cv()));
  out.rate_per_s = rate;
  out.rate_low_per_s =
      reaches_nothing ? 0 : *rate * std::exp(-std::min(20.0, std::hypot(below, form)));
  out.rate_high_per_s = *rate * std::exp(std::min(20.0, std::hypot(above, form)));
}

/// The best fit among parameters that lie this share of a 90 % interval away in the direction known
/// least: what the data trade for one another bends too much for a tangent.
Vector3 Windowed::along_ridge(double share) const {
  const Eigen::SelfAdjointEigenSolver<Matrix3> eigen(state_.covariance);
  const Vector3 direction = eigen.eigenvectors().col(2);
  const double reach = share * kNormal95 * std::sqrt(std::max(0.0, eigen.eigenvalues()[2]));
  const Vector3 start = *state_.parameters + reach * direction;
  std::vector<PriorTerm> terms = prior();
  terms.push_back(term(direction, direction.dot(start), 1e-2 * std::max(1e-3, std::abs(reach))));
  std::vector<Row> rows = state_.rows;
  return fit(model_, rows, terms, start, state_.scales, state_.cycle).parameters;
}

void Windowed::report(const Fit& fit, std::optional<double> nis, const std::string& note) {
  ParameterEstimate& out = state_.estimate;
  out.values = iteration_of(fit.parameters, config_.knee_tokens);
  std::array<double, 9> covariance{};  // symmetric: the order of storage does not matter
  std::copy_n(fit.covariance.data(), covariance.size(), covariance.begin());
  out.covariance = covariance;
  const Eigen::SelfAdjointEigenSolver<Matrix3> eigen(fit.data);
  const double weakest = std::max(0.0, eigen.eigenvalues()[0]);
  const double strongest = std::max(1e-300, eigen.eigenvalues()[2]);
  const double ratio = std::sqrt(weakest / strongest);
  out.condition = ratio * kConditionCap > 1 ? 1 / ratio : kConditionCap;
  out.identified = *out.condition <= kConditionMost && weakest * kIdentifiedSd * kIdentifiedSd >= 1;
  out.nis = nis;
  out.accepted = true;
  out.reason = fmt::format("fits {} operating point{}", state_.rows.size(),
                           state_.rows.size() == 1 ? "" : "s");
  if (!note.empty()) out.reason += "; " + note;
  if (!out.identified) out.reason += "; " + unseen(eigen.eigenvectors().col(0));
  if (state_.residence_share > kUnsteady) {
    out.reason += fmt::format(
        "; requests last {:.0f} % of an interval, so its numbers tell of earlier load too",
        100 * state_.residence_share);
  }
  if (out.holdout_error > kHoldoutWorthSaying) {
    out.reason += fmt::format(
        "; new cycles were foretold {:.0f} % off, so the model's form may "
        "not fit",
        100 * *out.holdout_error);
  }
  report_rate(fit.covariance);
}

ParameterEstimate Windowed::update(std::span<const Observation> cycle) {
  ++state_.cycle;
  Intake intake = take_in(cycle, model_, state_);
  if (intake.latest) state_.latest = intake.latest;
  if (intake.rows.empty()) return left_out(intake.why, std::nullopt);
  for (Row& row : state_.rows) row.derived = row.predicted = false;

  if (!state_.parameters) {
    begin(std::move(intake.rows));
    ++state_.learnt;
    learn_scales();
    report(fit_, std::nullopt, intake.why);
    return state_.estimate;
  }

  std::vector<Row> passing, failing;
  double nis = 0;
  for (Row& row : intake.rows) {
    const double own = row_nis(row);
    nis = std::max(nis, own);
    const bool passes = own <= chi_square_quantile(kGateQuantile, row.outputs());
    (passes ? passing : failing).push_back(row);
  }
  note_holdout(intake.rows);
  std::string note = intake.why;
  if (!failing.empty() && explains_together(passing, failing)) {
    passing.insert(passing.end(), failing.begin(), failing.end());
    failing.clear();
  }
  if (passing.empty()) {
    if (!changed(failing)) {
      return left_out(fmt::format("rejected: {} than the parameters explain (NIS {:.4g})",
                                  state_.direction > 0 ? "slower" : "faster", nis),
                      nis);
    }
    drop_window();
    std::vector<Row> rows = std::move(state_.rejected);
    state_.rejected.clear();
    state_.rejections = 0;
    begin(std::move(rows));
    note = "hardware or flags have changed: what was learnt before is dropped";
  } else {
    if (!failing.empty()) {
      note += fmt::format("{}{} of {} rows left out", note.empty() ? "" : "; ", failing.size(),
                          failing.size() + passing.size());
    }
    state_.rejections = 0;
    state_.rejected.clear();
    add(std::move(passing));
    refit(*state_.parameters);
    try_other_starts();
  }
  ++state_.learnt;
  learn_scales();
  keep_what_tells_most(state_.rows, fit_.covariance, state_.cycle, kRowsMax);
  report(fit_, nis, note);
  return state_.estimate;
}

}  // namespace

std::unique_ptr<Estimator> make_windowed(const TuneConfig& config) {
  return std::make_unique<Windowed>(config);
}

}  // namespace tailrace::tune
