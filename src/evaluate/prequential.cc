#include "tailrace/evaluate/prequential.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "tailrace/evaluate/scores.h"

namespace tailrace::evaluate {
namespace {

constexpr std::size_t kCurveEdges[] = {50,     100,    200,    500,     1'000,   2'000,  5'000,
                                       10'000, 20'000, 50'000, 100'000, 200'000, 500'000};
constexpr std::size_t kProgressEvery = 256;

double capped(double tokens, Tokens cap) {
  return std::min(tokens, static_cast<double>(cap.count()));
}

/// Mean and standard deviation of ln min(X, cap), from equally likely quantiles.
struct LogMoments {
  double mean = 0;
  double deviation = 0;
};

LogMoments log_moments(std::span<const double> logs) {
  LogMoments m;
  const double n = static_cast<double>(logs.size());
  for (const double y : logs) m.mean += y / n;
  for (const double y : logs) m.deviation += (y - m.mean) * (y - m.mean) / n;
  m.deviation = std::sqrt(m.deviation);
  return m;
}

LogMoments log_moments(const length::LengthLaw& law, Tokens cap) {
  constexpr int kQuantiles = 32;
  std::vector<double> logs;
  logs.reserve(kQuantiles);
  for (int i = 0; i < kQuantiles; ++i) {
    const double tokens = capped(law.quantile((i + 0.5) / kQuantiles), cap);
    logs.push_back(std::log(std::max(tokens, 1.0)));
  }
  return log_moments(logs);
}

double correlation(std::span<const double> a, std::span<const double> b) {
  const double n = static_cast<double>(a.size());
  double mean_a = 0;
  double mean_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    mean_a += a[i] / n;
    mean_b += b[i] / n;
  }
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

/// Prompts that were answered often enough, with what their answers turned out to be.
class RepeatedPrompts {
 public:
  RepeatedPrompts(std::span<const Row> rows, const PrequentialOptions& options) {
    std::unordered_map<std::uint64_t, std::vector<double>> logs;
    for (std::size_t i = options.skip; i < rows.size(); ++i) {
      const auto& [features, truth, group] = rows[i];
      const bool cut_early = truth.censored && truth.length < features.cap;
      if (cut_early || (options.scored && !options.scored(rows[i]))) continue;
      const double tokens = capped(static_cast<double>(truth.length.count()), features.cap);
      logs[group].push_back(std::log(std::max(tokens, 1.0)));
    }
    for (const auto& [group, answers] : logs) {
      if (answers.size() >= kRepeatsMin) truth_[group] = log_moments(answers);
    }
  }

  bool awaits(std::uint64_t group) const { return truth_.contains(group); }

  void predicted(std::uint64_t group, const LogMoments& said) {
    const auto at = truth_.find(group);
    said_mean_.push_back(said.mean);
    mean_.push_back(at->second.mean);
    if (at->second.deviation > 0 && said.deviation > 0) {
      said_spread_.push_back(std::log(said.deviation));
      spread_.push_back(std::log(at->second.deviation));
    }
    truth_.erase(at);  // the first prediction counts: later ones have seen answers to this prompt
  }

  std::optional<Repeats> result() const {
    if (mean_.size() < 2) return std::nullopt;
    Repeats r;
    r.groups = mean_.size();
    r.spread_groups = spread_.size();
    r.r2_mu = r_squared(said_mean_, mean_);
    r.r2_spread = r_squared(said_spread_, spread_);
    r.correlation_spread = correlation(said_spread_, spread_);
    return r;
  }

 private:
  std::unordered_map<std::uint64_t, LogMoments> truth_;
  std::vector<double> said_mean_, mean_, said_spread_, spread_;
};

std::vector<CurvePoint> curve_of(std::span<const Judged> judged) {
  std::vector<CurvePoint> curve;
  auto from = judged.begin();
  std::size_t low = 0;
  const auto add_up_to = [&](std::size_t high) {
    const auto to =
        std::find_if(from, judged.end(), [&](const Judged& j) { return j.row >= high; });
    if (to != from) curve.push_back({low, high, summarise({from, to})});
    from = to;
    low = high;
  };
  for (const std::size_t edge : kCurveEdges) add_up_to(edge);
  if (!judged.empty()) add_up_to(judged.back().row + 1);
  if (!curve.empty()) curve.back().to = std::min(curve.back().to, judged.back().row + 1);
  return curve;
}

/// Sums CPU time where a clock was given.
class Stopwatch {
 public:
  explicit Stopwatch(const std::function<double()>& clock) : clock_(clock) {}
  template <class Work>
  auto time(double& total, Work work) {
    if (!clock_) return work();
    const double start = clock_();
    struct Stop {
      const std::function<double()>& clock;
      double start;
      double& total;
      ~Stop() { total += clock() - start; }
    } stop{clock_, start, total};
    return work();
  }

 private:
  const std::function<double()>& clock_;
};

}  // namespace

Judged judge(const predict::Prediction& prediction, const Row& row, double uniform) {
  const Tokens cap = row.features.cap;
  const length::LengthLaw& law = prediction.law;
  const Place place = place_of(law, row.truth, cap);
  Judged j;
  j.length = capped(static_cast<double>(std::max(row.truth.length, Tokens(1)).count()), cap);
  j.complete = !row.truth.censored || row.truth.length >= cap;
  j.calibrated = prediction.calibrated;
  j.median = capped(law.median(), cap);
  j.mean = law.capped_moments_fast(static_cast<double>(cap.count())).mean;
  j.log_score = log_score(place);
  j.pit = place.below + uniform * (place.up_to - place.below);
  for (std::size_t i = 0; i < kPinballLevels.size(); ++i) {
    const double p = kPinballLevels[i];
    j.pinball[i] = pinball_loss(capped(law.quantile(p), cap), j.length, p);
  }
  return j;
}

Scores summarise(std::span<const Judged> judged) {
  Scores s;
  s.rows = judged.size();
  if (judged.empty()) return s;
  const double n = static_cast<double>(judged.size());
  std::vector<double> lengths;
  std::vector<double> medians;
  std::vector<double> means;
  double squares = 0;
  for (const Judged& j : judged) {
    s.log_score += j.log_score;
    squares += j.log_score * j.log_score;
    s.calibrated += j.calibrated ? 1 / n : 0;
    for (std::size_t c = 0; c < kCoverages.size(); ++c) {
      if (std::abs(j.pit - 0.5) <= kCoverages[c] / 2) s.coverage[c] += 1 / n;
    }
    s.pit[std::min(kPitBins - 1, static_cast<std::size_t>(j.pit * kPitBins))] += 1 / n;
    for (std::size_t r = 0; r < kReliabilityPoints; ++r) {
      if (j.pit <= static_cast<double>(r + 1) / (kReliabilityPoints + 1)) s.reliability[r] += 1 / n;
    }
    if (!j.complete) continue;
    lengths.push_back(j.length);
    medians.push_back(j.median);
    means.push_back(j.mean);
    for (std::size_t i = 0; i < kPinballLevels.size(); ++i) s.pinball[i] += j.pinball[i];
  }
  s.log_score /= n;
  s.log_score_error = std::sqrt(std::max(0.0, squares / n - s.log_score * s.log_score) / n);
  s.complete = lengths.size();
  for (double& loss : s.pinball) loss /= std::max(1.0, static_cast<double>(s.complete));
  const Agreement by_median = order_agreement(medians, lengths);
  const Agreement by_mean = order_agreement(means, lengths);
  s.tau = by_median.tau_b;
  s.pair_accuracy = by_median.pair_accuracy;
  s.tau_mean = by_mean.tau_b;
  s.pair_accuracy_mean = by_mean.pair_accuracy;
  return s;
}

Evaluation prequential(predict::Predictor& predictor, std::span<const Row> rows,
                       const PrequentialOptions& options) {
  Rng chance = Rng(options.seed).fork("inside a token");
  RepeatedPrompts repeated(rows, options);
  std::vector<Judged> judged;
  judged.reserve(rows.size());
  Stopwatch watch(options.cpu_seconds);
  double predict_s = 0;
  double observe_s = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (options.progress && i % kProgressEvery == 0) options.progress(i);
    const auto said = watch.time(
        predict_s, [&] { return predictor.predict(std::span(&row.features, 1)).front(); });
    const double uniform = chance.uniform();
    if (i >= options.skip && (!options.scored || options.scored(row))) {
      judged.push_back(judge(said, row, uniform));
      judged.back().row = i;
      if (repeated.awaits(row.group)) {
        repeated.predicted(row.group, log_moments(said.law, row.features.cap));
      }
    }
    watch.time(observe_s, [&] { predictor.observe(row.features, row.truth); });
  }
  Evaluation evaluation;
  if (options.cpu_seconds) {
    const double n = std::max(1.0, static_cast<double>(rows.size()));
    evaluation.cost = Cost{1e6 * predict_s / n, 1e6 * observe_s / n, 0};
  }
  evaluation.predictor = predictor.name();
  evaluation.scores = summarise(judged);
  evaluation.curve = curve_of(judged);
  evaluation.repeats = repeated.result();
  evaluation.image_bytes = predictor.save().size();
  return evaluation;
}

}  // namespace tailrace::evaluate
