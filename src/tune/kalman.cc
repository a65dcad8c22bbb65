// The specification's filter over cycles and pods: a tuner is created for a cycle from what is
// stored, or from a guess; each usable pod goes through it, one after the other.
#include "tailrace/tune/kalman.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tailrace/core/text.h"
#include "tailrace/tune/bootstrap.h"
#include "tailrace/tune/defaults.h"
#include "tune/estimators.h"
#include "tune/kalman_memory.h"
#include "tune/rate_interval.h"

namespace tailrace::tune {
namespace {

/// Above it one direction of the parameters is too faint beside the others (of the Jacobian of
/// logarithms; the follow-up of the published work guards with the same number).
constexpr double kConditionMax = 1000;
/// The weakest direction of ln(parameters) counts as known if the accepted observations alone, each
/// with the filter's noise, leave it a standard deviation of at most this.
constexpr double kLogDeviationMax = 0.25;
/// Cycles rejected one after the other from which on the filter counts as locked out.
constexpr std::int64_t kFrozenAfter = 3;
/// Pods that a reason names; of the others it says how many.
constexpr std::size_t kPodsNamed = 2;

queueing::IterationModel with(queueing::IterationModel model, const KalmanState& x) {
  model.alpha_ms = x[0];
  model.beta_ms = x[1];
  model.gamma_ms = x[2];
  return model;
}

/// A pod of the cycle that passed the checks.
struct Row {
  const Observation* observation = nullptr;
  queueing::Workload workload;
  KalmanMeasurement measured{};
};

/// "pod a: why", for the first few; then how many more.
class PodNotes {
 public:
  void add(const Observation& o, std::string_view why) {
    if (count_++ < kPodsNamed) {
      text_ += fmt::format("; pod {} left out: {}", core::quoted(o.pod), why);
    }
  }
  std::string text() const {
    return count_ <= kPodsNamed ? text_ : text_ + fmt::format("; and {} more", count_ - kPodsNamed);
  }

 private:
  std::size_t count_ = 0;
  std::string text_;
};

class Kalman final : public Estimator {
 public:
  explicit Kalman(const TuneConfig& config) : config_(config) {
    model_.mode = config.observation_mode;
    model_.limits = config.limits;
    model_.iterations = config.iterations;
    model_.iteration.knee_tokens = config.knee_tokens;
    last_.reason = "no cycle so far";
  }

  ParameterEstimate update(std::span<const Observation> cycle) override {
    PodNotes notes;
    const std::vector<Row> rows = usable_rows(cycle, notes);
    last_ = {};
    if (rows.empty()) {
      last_.reason = "nothing to learn from: no pod reported what the filter needs" + notes.text();
    } else {
      memory_.lengths = mean_lengths(rows);
      last_.reason = tune(rows, notes);  // adds to the notes
      last_.reason += notes.text();
    }
    describe();
    return last_;
  }

  ParameterEstimate current() const override { return last_; }

  ParameterEstimate current_under(double ttft_ms, double itl_ms,
                                  const queueing::Workload& lengths) const override {
    ParameterEstimate out = last_;
    report_rate(out, ttft_ms, itl_ms, lengths);
    return out;
  }

  std::string save() const override { return write_memory(memory_); }

  Result<void> restore(std::string_view document) override {
    auto memory = read_memory(document);
    if (!memory) return fail(memory.error());
    memory_ = std::move(*memory);
    last_ = {};
    last_.reason = "restored; no cycle since";
    describe();
    return {};
  }

 private:
  struct Tuner {
    KalmanMemory::Parameters parameters;
    KalmanNoise noise;
    KalmanBounds bounds;
  };

  static std::vector<Row> usable_rows(std::span<const Observation> cycle, PodNotes& notes) {
    std::vector<Row> rows;
    for (const Observation& o : cycle) {
      if (const auto why = unusable(o)) {
        notes.add(o, *why);
        continue;
      }
      Row row{&o, workload_of(o), {*o.ttft_ms, *o.itl_ms}};
      if (const auto ok = queueing::check(row.workload); !ok) {
        notes.add(o, ok.error().message);
        continue;
      }
      rows.push_back(row);
    }
    return rows;
  }

  static CycleLengths mean_lengths(const std::vector<Row>& rows) {
    double total = 0;
    CycleLengths sum;
    for (const Row& row : rows) {
      const double rate = row.workload.rate_per_s;
      total += rate;
      sum.input += rate * row.workload.input_mean;
      sum.output += rate * row.workload.output_mean;
      sum.input_cv += rate * row.workload.input_cv();
      sum.output_cv += rate * row.workload.output_cv();
      sum.prefix_hit += rate * row.workload.prefix_hit;
    }
    // Rates that are hardly there may round a mean out of its range.
    return {sum.input / total, std::max(1.0, sum.output / total), sum.input_cv / total,
            sum.output_cv / total, std::min(1.0, sum.prefix_hit / total)};
  }

  std::optional<KalmanMeasurement> predict(const queueing::Workload& workload,
                                           const KalmanState& x) const {
    queueing::ServiceModel model = model_;
    model.iteration = with(model.iteration, x);
    return kalman_prediction(model, workload);
  }

  /// Where this cycle begins. Errors say why the published code creates no tuner.
  Result<Tuner> create_tuner(const Row& first) const {
    Tuner tuner;
    if (memory_.parameters) {
      tuner.parameters = *memory_.parameters;
      tuner.bounds = KalmanBounds::defaults();
      tuner.noise = KalmanNoise::of(tuner.parameters.state, first.measured);
      if (!is_symmetric(tuner.parameters.uncertainty)) {
        return fail(ErrorCode::kDataLoss, "the stored covariance is no longer symmetric");
      }
    } else {
      const auto guess = published_bootstrap(first.workload, first.measured[0], first.measured[1]);
      const auto& start = guess ? *guess : kDefaultStart;
      tuner.parameters.state = {start.alpha_ms, start.beta_ms, start.gamma_ms};
      tuner.bounds =
          guess ? KalmanBounds::around(tuner.parameters.state) : KalmanBounds::defaults();
      tuner.noise = KalmanNoise::of(tuner.parameters.state, first.measured);
      tuner.parameters.uncertainty = tuner.noise.process;
    }
    tuner.parameters.state = tuner.bounds.clamp(tuner.parameters.state);
    const KalmanState& x = tuner.parameters.state;
    if (!predict(first.workload, x)) {
      return fail(ErrorCode::kUnavailable, overload_at(first, x));
    }
    return tuner;
  }

  std::string overload_at(const Row& row, const KalmanState& x) const {
    queueing::ServiceModel model = model_;
    model.iteration = with(model.iteration, x);
    const auto at = queueing::latency_unchecked(model, row.workload, queueing::Detail::kMeans);
    return fmt::format(
        "with alpha {:.6g}, beta {:.6g}, gamma {:.6g} a replica takes at most {:.6g} requests/s, "
        "and pod {} had {:.6g}",
        x[0], x[1], x[2], at.max_rate_per_s, core::quoted(row.observation->pod),
        row.workload.rate_per_s);
  }

  /// Runs the cycle's pods through the filter; returns the reason.
  std::string tune(const std::vector<Row>& rows, PodNotes& notes) {
    auto tuner = create_tuner(rows.front());
    if (!tuner) return "not created: " + tuner.error().message;
    std::size_t accepted = 0, rejected = 0;
    std::string rejection;
    for (const Row& row : rows) {
      auto& [state, uncertainty] = tuner->parameters;
      const KalmanStep step =
          kalman_step(state, uncertainty, tuner->noise, tuner->bounds, row.measured,
                      [&](const KalmanState& x) { return predict(row.workload, x); });
      switch (step.verdict) {
        case KalmanVerdict::kAccepted:
          ++accepted;
          state = step.state;
          uncertainty = step.uncertainty;
          remember(step, row);
          break;
        case KalmanVerdict::kOutlier:
          ++rejected;
          rejection = fmt::format("NIS {:.6g} is not below {}", *step.nis, kMaxNis);
          break;
        case KalmanVerdict::kSingular:
          ++rejected;
          rejection = "the innovation's covariance has no finite inverse";
          break;
        case KalmanVerdict::kNoPrediction:
          notes.add(*row.observation, overload_at(row, state));
          continue;
        case KalmanVerdict::kNoJacobian:
          notes.add(*row.observation, "1 % beside the state its load is above the largest rate");
          continue;
      }
      last_.nis = step.nis;
    }
    if (accepted + rejected == 0) return "not updated";
    memory_.parameters = tuner->parameters;  // of a rejected update too: it holds the old ones
    last_.accepted = accepted > 0;
    memory_.rejected_in_a_row = last_.accepted ? 0 : memory_.rejected_in_a_row + 1;
    if (!last_.accepted) {
      return fmt::format("rejected: {}; parameters and covariance stay ({} in a row)", rejection,
                         memory_.rejected_in_a_row);
    }
    return rejected == 0 ? "accepted"
                         : fmt::format("accepted for {} of {} pods; {}", accepted,
                                       accepted + rejected, rejection);
  }

  void remember(const KalmanStep& step, const Row& row) {
    std::array<double, 6> jacobian{};
    for (std::size_t r = 0; r < 2; ++r) {
      for (std::size_t j = 0; j < 3; ++j) {
        jacobian[3 * r + j] = step.jacobian[3 * r + j] * step.state[j] / row.measured[r];
        if (!std::isfinite(jacobian[3 * r + j])) return;
      }
    }
    auto& jacobians = memory_.jacobians;
    if (jacobians.size() == KalmanMemory::kJacobiansMax) jacobians.erase(jacobians.begin());
    jacobians.push_back(jacobian);
  }

  struct Sight {
    double condition = 0;      ///< of the strongest direction over the weakest
    double log_deviation = 0;  ///< of the weakest, by the observations alone
  };

  /// How well the latest accepted observations see ln(parameters); empty where they leave one out.
  std::optional<Sight> sight() const {
    const auto& jacobians = memory_.jacobians;
    if (jacobians.size() < 2) return std::nullopt;  // two equations, three unknowns
    Eigen::MatrixXd rows(2 * static_cast<Eigen::Index>(jacobians.size()), 3);
    Eigen::Index next = 0;
    for (const auto& j : jacobians) {
      rows.row(next++) << j[0], j[1], j[2];
      rows.row(next++) << j[3], j[4], j[5];
    }
    const auto singular = Eigen::JacobiSVD<Eigen::MatrixXd>(rows).singularValues();
    const Sight sight{singular[0] / singular[2], kMeasurementShare / singular[2]};
    if (!std::isfinite(sight.condition) || !std::isfinite(sight.log_deviation)) return std::nullopt;
    return sight;
  }

  /// Fills in what follows from the memory.
  void describe() {
    if (!memory_.parameters) return;
    const auto& [state, uncertainty] = *memory_.parameters;
    last_.values = with(model_.iteration, state);
    last_.covariance = uncertainty;
    const auto seen = sight();
    if (seen) last_.condition = seen->condition;
    last_.identified = !frozen() && seen && seen->condition <= kConditionMax &&
                       seen->log_deviation <= kLogDeviationMax;
    if (frozen()) {
      last_.reason += "; frozen: a rejection does not widen the gate";
    } else if (!last_.identified) {
      last_.reason +=
          "; not identified: the loads so far leave one direction of the parameters open";
    }
    if (!memory_.lengths) return;
    const auto& l = *memory_.lengths;
    auto lengths = queueing::Workload::of(0, l.input, l.output, l.input_cv, l.output_cv);
    lengths.prefix_hit = l.prefix_hit;
    report_rate(last_, config_.ttft_ms, config_.itl_ms, lengths);
  }

  bool frozen() const { return memory_.rejected_in_a_row >= kFrozenAfter; }

  void report_rate(ParameterEstimate& out, double ttft_ms, double itl_ms,
                   const queueing::Workload& lengths) const {
    out.rate_per_s = out.rate_low_per_s = out.rate_high_per_s = std::nullopt;
    if (!out.values) return;
    queueing::ServiceModel model = model_;
    model.iteration = *out.values;
    const auto rate =
        rate_interval(model, lengths, ttft_ms, itl_ms, frozen() ? std::nullopt : out.covariance);
    if (!rate) return;
    out.rate_per_s = rate->rate_per_s;
    out.rate_low_per_s = rate->low_per_s;
    out.rate_high_per_s = rate->high_per_s;
  }

  TuneConfig config_;
  queueing::ServiceModel model_;
  KalmanMemory memory_;
  ParameterEstimate last_;
};

}  // namespace

std::unique_ptr<Estimator> make_kalman(const TuneConfig& config) {
  return std::make_unique<Kalman>(config);
}

}  // namespace tailrace::tune
