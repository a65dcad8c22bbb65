// Which features of a request pay?
//
// One pass, predict then learn, over recorded answers with all features, then with one family left
// out at a time; lower is a loss. The location side alone: groups, features and their blend as a
// log-t law under the running calibration. Early: answers 50 to 299 of fresh predictors. Without
// the data it says so and ends. docs/decisions/0009-predictor-features.md holds a run.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "predict/calibration.h"
#include "predict/hierarchical_prior.h"
#include "predict/learning.h"
#include "predict/linear_model.h"
#include "predict/log_t_score.h"
#include "predict/request_text.h"
#include "tailrace/core/rng.h"
#include "tailrace/evaluate/rows.h"
#include "tailrace/evaluate/scores.h"

namespace {

using namespace tailrace;
using namespace tailrace::predict;

struct Sample {
  evaluate::Row row;
  FeatureList features;
  std::vector<Kind> kinds;  // of the features
};

struct Family {
  const char* name;
  std::vector<Kind> kinds;
};

const std::vector<Family> kFamilies = {
    {"nothing", {}},
    {"words", {Kind::kWord}},
    {"stems", {Kind::kStem}},
    {"cues", {Kind::kCue}},
    {"amounts", {Kind::kAmount, Kind::kAmountSlope}},
    {"first words", {Kind::kOpening, Kind::kModelOpening}},
    {"shape, script, code", {Kind::kShape, Kind::kClosingMark, Kind::kCodeFence, Kind::kScript}},
    {"prompt length",
     {Kind::kPromptTokens, Kind::kPromptTokensSlope, Kind::kModelPromptTokens,
      Kind::kModelPromptSlope}},
    {"this prompt", {Kind::kPrompt}},
    {"this prompt, model", {Kind::kModelPrompt}},
    {"model name", {Kind::kModel, Kind::kModelPiece}},
    {"model slope", {Kind::kModelSlope}},
    {"limits", {Kind::kCap, Kind::kCapSlope, Kind::kModelCap}},
    {"sampling", {Kind::kTemperature, Kind::kTopP, Kind::kModelSampling}},
};

std::vector<Sample> read(const char* name, std::size_t limit, std::uint64_t seed) {
  const char* shared = std::getenv("TAILRACE_SHARED");
  const std::filesystem::path root = shared != nullptr ? shared : TAILRACE_SOURCE_DIR "/../shared";
  auto set = evaluate::read_rows((root / "data" / name).string(), {});
  if (!set) {
    std::printf("skipped %s: %s (set TAILRACE_SHARED)\n", name, set.error().message.c_str());
    return {};
  }
  evaluate::shuffle(set->rows, Rng(seed));
  if (set->rows.size() > limit) set->rows.resize(limit);
  std::vector<Sample> samples;
  samples.reserve(set->rows.size());
  for (auto& row : set->rows) {
    Sample sample;
    extract_features(row.features, sample.features);
    sample.kinds.resize(sample.features.size());
    for (const auto& named : name_features(row.features)) {
      for (std::size_t i = 0; i < sample.features.size(); ++i) {
        if (sample.features[i].hash == named.feature.hash) sample.kinds[i] = named.kind;
      }
    }
    sample.row = std::move(row);
    samples.push_back(std::move(sample));
  }
  return samples;
}

struct Scores {
  double tau = 0;
  double log_score = 0;
};

Scores replay(const std::vector<Sample>& samples, std::size_t begin, std::size_t end,
              std::size_t scored_from, const Family& without) {
  HierarchicalPrior prior(5, 1);
  LinearModel model(18);
  ModelCalibration calibration(100);
  std::vector<double> said;
  std::vector<double> came;
  double log_score = 0;
  FeatureList features;
  for (std::size_t i = begin; i < end; ++i) {
    const auto& [row, all, kinds] = samples[i];
    features.clear();
    for (std::size_t f = 0; f < all.size(); ++f) {
      if (std::find(without.kinds.begin(), without.kinds.end(), kinds[f]) == without.kinds.end()) {
        features.push_back(all[f]);
      }
    }
    const double base_mu = prior.predict(row.features).mu;
    const Law raw = model.predict(base_mu, features, 0);
    const Law law = calibration.correct(row.features.model, raw);
    if (i >= scored_from) {
      const auto said_law = to_prediction(law, true).law;
      const auto cap = static_cast<double>(row.features.cap.count());
      said.push_back(std::min(std::exp(law.mu), cap));
      came.push_back(static_cast<double>(row.truth.length.count()));
      log_score += evaluate::log_score(evaluate::place_of(said_law, row.truth, row.features.cap));
    }
    const auto y = learnable(row.truth);
    if (!y) continue;
    calibration.adjust(row.features.model, raw, *y, row.truth.censored, 1);
    model.learn(base_mu, features, 0, *y, row.truth.censored);
    prior.observe(row.features, *y, row.truth.censored);
  }
  return {evaluate::order_agreement(said, came).tau_b,
          log_score / static_cast<double>(said.size())};
}

/// Of several fresh predictors, each on answers that no other sees.
Scores early(const std::vector<Sample>& samples, const Family& without) {
  constexpr std::size_t kAnswers = 300, kFrom = 50;
  const std::size_t fresh = std::min<std::size_t>(6, samples.size() / kAnswers);
  Scores mean;
  for (std::size_t k = 0; k < fresh; ++k) {
    const std::size_t begin = k * kAnswers;
    const Scores s = replay(samples, begin, begin + kAnswers, begin + kFrom, without);
    mean.tau += s.tau / static_cast<double>(fresh);
    mean.log_score += s.log_score / static_cast<double>(fresh);
  }
  return mean;
}

}  // namespace

int main() {
  constexpr std::size_t kAnswers = 20'000;
  const char* names[] = {"arena_hard", "gpteacher", "oasst_model_eval"};
  std::vector<std::vector<Sample>> sets;
  for (const char* name : names) {
    auto samples = read(name, kAnswers, 7);
    if (samples.size() < 300) return 0;
    sets.push_back(std::move(samples));
  }
  std::printf(
      "| without | arena_hard tau | log score | gpteacher tau | log score | oasst tau | log "
      "score | early tau | log score |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  for (const Family& family : kFamilies) {
    std::printf("| %s |", family.name);
    Scores first;
    for (const auto& samples : sets) {
      const Scores s = replay(samples, 0, samples.size(), 0, family);
      std::printf(" %.4f | %.4f |", s.tau, s.log_score);
      const Scores e = early(samples, family);
      first.tau += e.tau / 3;
      first.log_score += e.log_score / 3;
    }
    std::printf(" %.4f | %.4f |\n", first.tau, first.log_score);
    std::fflush(stdout);
  }
  return 0;
}
