#include "capacity/learning_runs.h"

#include <algorithm>
#include <cmath>

#include "tailrace/core/check.h"
#include "tailrace/core/rng.h"
#include "tailrace/engine/presets.h"
#include "tailrace/queueing/sizing.h"
#include "tailrace/simulate/latency_oracle.h"

namespace tailrace::accuracy {
namespace {

constexpr double kTargetShare = 0.8;
constexpr double kNoise = 0.03;
constexpr double kCycleSeconds = 60;
constexpr std::size_t kRepeats = 10;

Subject published(std::string name, double alpha, double beta, double gamma, std::int64_t batch,
                  Shape shape) {
  engine::EngineConfig engine;
  engine.cost.alpha_ms = alpha;
  engine.cost.beta_ms = beta;
  engine.cost.gamma_ms = gamma;
  engine.cost.knee_tokens = 0;
  engine.max_num_seqs = batch;
  engine.kv_blocks = 1'000'000;  // the published sets know no limit of memory
  return {std::move(name), engine, shape};
}

Subject preset(std::string_view name, Shape shape) {
  const auto found = engine::find_preset(name);
  TAILRACE_CHECK(found.has_value());
  return {std::string(name), found->config, shape};
}

std::vector<Load> one(double share, const Shape& shape) {
  return {Load{share, shape}};
}

/// Of all pods together; they serve the same kind of requests.
Shape reported_shape(const std::vector<tune::Observation>& pods) {
  queueing::Workload mean;
  double rate = 0;
  for (const tune::Observation& o : pods) {
    const queueing::Workload w = tune::workload_of(o);
    rate += w.rate_per_s;
    const double share = w.rate_per_s / rate;
    mean.input_mean += share * (w.input_mean - mean.input_mean);
    mean.output_mean += share * (w.output_mean - mean.output_mean);
    mean.input_second_moment += share * (w.input_second_moment - mean.input_second_moment);
    mean.output_second_moment += share * (w.output_second_moment - mean.output_second_moment);
  }
  return {mean.input_mean, mean.output_mean, mean.input_cv(), mean.output_cv()};
}

double max_rate(const queueing::ServiceModel& model, const Shape& shape) {
  return queueing::latency_unchecked(model, shape.at(1e-9), {}).max_rate_per_s;
}

}  // namespace

tune::Observation bare(const tune::Observation& o) {
  tune::Observation out;
  out.time_s = o.time_s;
  out.pod = o.pod;
  out.rate_per_s = o.rate_per_s;
  out.input_tokens = o.input_tokens;
  out.output_tokens = o.output_tokens;
  out.ttft_ms = o.ttft_ms;
  out.itl_ms = o.itl_ms;
  return out;
}

std::vector<Subject> learning_subjects() {
  return {
      published("Qwen-14B H100", 10.645377, 0.041760195, 5.7705090e-5, 256, {1024, 256}),
      published("Llama-8B H100", 6.49, 0.0219, 4.96e-5, 256, {512, 128}),
      published("granite sample", 8, 0.016, 5e-4, 64, {2048, 1024}),
      preset("h100-8b", {1024, 256}),
      preset("a100-8b", {512, 128}),
      preset("h100-70b-tp4", {1024, 256}),
      preset("a100-70b-tp4", {512, 256}),
  };
}

std::vector<Pattern> learning_patterns(const Subject& subject) {
  const Shape& base = subject.shape;
  std::vector<Pattern> all;
  for (const auto& [name, share] : {std::pair{"constant 0.05", 0.05},
                                    {"constant 0.10", 0.1},
                                    {"constant 0.30", 0.3},
                                    {"constant 0.50", 0.5}}) {
    all.push_back({name, false, std::vector<std::vector<Load>>(40, one(share, base)), false});
  }
  Pattern ramp{"ramp 0.02 to 0.70", true, {}, false};
  for (int i = 0; i <= 80; ++i) ramp.cycles.push_back(one(0.02 + 0.68 * i / 80, base));
  all.push_back(std::move(ramp));
  Pattern saw{"sawtooth 0.1 to 0.6", true, {}, false};
  for (int i = 0; i < 80; ++i) saw.cycles.push_back(one(0.1 + 0.5 * (i % 20) / 19, base));
  all.push_back(std::move(saw));
  const Shape shapes[] = {{base.input / 2, base.output * 2},
                          {base.input * 2, base.output / 2},
                          {base.input / 2, base.output / 2},
                          base};
  const double shares[] = {0.2, 0.5, 0.35, 0.15, 0.45, 0.3, 0.6};
  Pattern mixed{"mixed shapes", true, {}, false};
  for (std::size_t i = 0; i < 80; ++i) mixed.cycles.push_back(one(shares[i % 7], shapes[i % 4]));
  all.push_back(std::move(mixed));
  Shape tailed = base;
  tailed.output_cv = 1.5;
  tailed.input_cv = 0.8;
  Pattern heavy{"sawtooth, heavy tails", true, {}, false};
  for (int i = 0; i < 80; ++i) heavy.cycles.push_back(one(0.1 + 0.5 * (i % 20) / 19, tailed));
  heavy.needs_moments = true;
  all.push_back(std::move(heavy));
  all.push_back({"two pods 0.15, 0.45", true,
                 std::vector<std::vector<Load>>(40, {Load{0.15, base}, Load{0.45, base}}), false});
  return all;
}

std::string_view to_string(Feed feed) {
  switch (feed) {
    case Feed::kSteady:
      return "noise-free";
    case Feed::kNoise:
      return "3 % noise";
    case Feed::kInterval:
      return "60 s as they come";
  }
  return "";
}

Truth::Truth(const Subject& subject) : model(simulate::service_model_of(subject.engine)) {
  max_rate_per_s = max_rate(model, subject.shape);
  const queueing::Latency at = queueing::latency_unchecked(
      model, subject.shape.at(kTargetShare * max_rate_per_s), queueing::Detail::kMeans);
  TAILRACE_CHECK(at.stable);
  ttft_ms = *at.ttft_ms;
  itl_ms = *at.itl_ms;
}

std::optional<double> Truth::rate(const queueing::IterationModel& iteration,
                                  const Shape& shape) const {
  queueing::ServiceModel with = model;
  with.iteration = iteration;
  const auto sized = queueing::size(with, shape.at(1), {.ttft_ms = ttft_ms, .itl_ms = itl_ms});
  if (!sized || !sized->reachable) return std::nullopt;
  return sized->rate_per_s;
}

tune::TuneConfig tune_config(const Subject& subject, tune::EstimatorKind kind) {
  const Truth truth(subject);
  tune::TuneConfig config;
  config.estimator = kind;
  config.limits = truth.model.limits;
  config.knee_tokens = truth.model.iteration.knee_tokens;
  config.ttft_ms = truth.ttft_ms;
  config.itl_ms = truth.itl_ms;
  return config;
}

Feeder::Feeder(const Subject& subject, double requests_per_point)
    : subject_(subject), steady_(subject.engine, requests_per_point, 1) {}

double Feeder::rate_of(const Load& load) const {
  return load.share * max_rate(simulate::service_model_of(subject_.engine), load.shape);
}

std::vector<std::vector<tune::Observation>> Feeder::feed(const Pattern& pattern, Feed feed,
                                                         Columns columns, std::uint64_t seed) {
  const std::size_t pods = pattern.cycles.front().size();
  std::vector<std::vector<tune::Observation>> cycles(pattern.cycles.size());
  for (std::size_t pod = 0; pod < pods; ++pod) {
    Rng rng = Rng(seed).fork("noise").fork(std::to_string(pod));
    std::vector<tune::Observation> reported;
    if (feed == Feed::kInterval) {
      std::vector<Segment> segments;
      for (const auto& loads : pattern.cycles) {
        segments.push_back({rate_of(loads[pod]), loads[pod].shape, kCycleSeconds});
      }
      reported = serve(subject_.engine, segments, kPaceWindow, 1000 * seed + pod);
    } else {
      for (std::size_t i = 0; i < pattern.cycles.size(); ++i) {
        const Load& load = pattern.cycles[i][pod];
        reported.push_back(steady_.at(rate_of(load), load.shape, i % kRepeats));
      }
    }
    for (std::size_t i = 0; i < reported.size(); ++i) {
      tune::Observation& o = reported[i];
      o.time_s = kCycleSeconds * static_cast<double>(i + 1);
      o.pod = "pod-" + std::to_string(pod);
      if (feed == Feed::kNoise) {
        o.ttft_ms = *o.ttft_ms * std::exp(kNoise * rng.normal());
        o.itl_ms = *o.itl_ms * std::exp(kNoise * rng.normal());
        if (o.itl_per_sequence_ms) {
          o.itl_per_sequence_ms = *o.itl_per_sequence_ms * std::exp(kNoise * rng.normal());
        }
      }
      if (columns == Columns::kBare) o = bare(o);
      cycles[i].push_back(o);
    }
  }
  return cycles;
}

Score score(const Subject& subject, const std::vector<std::vector<tune::Observation>>& cycles,
            const Pattern& pattern, tune::EstimatorKind kind) {
  const Truth truth(subject);
  auto estimator = tune::make_estimator(tune_config(subject, kind));
  TAILRACE_CHECK(estimator.has_value());
  Score out;
  out.cycles = static_cast<int>(cycles.size());
  const std::array<std::size_t, 3> after = {3, 10, cycles.size()};
  for (std::size_t i = 0; i < cycles.size(); ++i) {
    const tune::ParameterEstimate estimate = (*estimator)->update(cycles[i]);
    out.accepted += estimate.accepted ? 1 : 0;
    for (std::size_t mark = 0; mark < after.size(); ++mark) {
      if (i + 1 != after[mark] || !estimate.values) continue;
      // lambda* is of one shape; the interval is about the lengths that were reported last.
      const Shape latest = reported_shape(cycles[i]);
      Shape shape = subject.shape;
      shape.input_cv = pattern.cycles[i].back().shape.input_cv;
      shape.output_cv = pattern.cycles[i].back().shape.output_cv;
      const auto right = truth.rate(truth.model.iteration, shape);
      const auto found = truth.rate(*estimate.values, shape);
      if (right && found) out.error[mark] = *found / *right - 1;
      const auto right_now = truth.rate(truth.model.iteration, latest);
      if (right_now && estimate.rate_low_per_s && estimate.rate_high_per_s) {
        out.covered[mark] =
            *estimate.rate_low_per_s <= *right_now && *right_now <= *estimate.rate_high_per_s;
        out.width[mark] = (*estimate.rate_high_per_s - *estimate.rate_low_per_s) / *right_now;
      }
    }
    if (i + 1 == cycles.size()) {
      out.identified = estimate.identified;
      out.condition = estimate.condition;
      out.values = estimate.values;
      out.reason = estimate.reason;
    }
  }
  return out;
}

}  // namespace tailrace::accuracy
