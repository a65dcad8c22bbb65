// How good is a predictor on a stream of requests?
//
// For each row: predict, score, then learn, so that every score is out of sample and the whole
// set is used. Deterministic: the one random thing, where inside a whole token the truth lies, is
// drawn from a seeded generator.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tailrace/evaluate/rows.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::evaluate {

inline constexpr std::array<double, 3> kPinballLevels{0.5, 0.9, 0.99};
inline constexpr std::array<double, 4> kCoverages{0.5, 0.8, 0.9, 0.99};
inline constexpr std::size_t kPitBins = 20;
inline constexpr std::size_t kReliabilityPoints = 19;  ///< at 0.05, 0.10, …, 0.95

/// Means over the rows of one stretch.
struct Scores {
  std::size_t rows = 0;
  std::size_t complete = 0;    ///< not cut before their cap: pinball and order are over these
  double log_score = 0;        ///< nats, higher is better
  double log_score_error = 0;  ///< its standard error over the rows
  std::array<double, kPinballLevels.size()> pinball{};  ///< tokens, lower is better
  std::array<double, kCoverages.size()> coverage{};     ///< of central intervals, randomised
  double tau = 0;            ///< Kendall's tau-b of the law's capped median and the length
  double pair_accuracy = 0;  ///< the same in pairs
  double tau_mean = 0;       ///< of the capped mean and the length
  double pair_accuracy_mean = 0;
  double calibrated = 0;               ///< share of predictions that their predictor vouched for
  std::array<double, kPitBins> pit{};  ///< share of rows in each twentieth of their laws; 0.05 each
  /// Share of rows that fell below the law's quantile at 0.05, 0.10, …
  std::array<double, kReliabilityPoints> reliability{};
};

struct CurvePoint {
  std::size_t from = 0;  ///< rows learned before the stretch
  std::size_t to = 0;    ///< and after it
  Scores scores;
};

/// How well the laws of prompts that were answered several times match those answers: the first
/// prediction of each prompt against mean and standard deviation of ln tokens over its answers.
struct Repeats {
  std::size_t groups = 0;         ///< with at least kRepeatsMin complete answers
  std::size_t spread_groups = 0;  ///< of these, with answers that differ
  double r2_mu = 0;
  double r2_spread = 0;           ///< of the ln of the standard deviation
  double correlation_spread = 0;  ///< Pearson's, of the same: blind to a constant factor
};
inline constexpr std::size_t kRepeatsMin = 5;

struct Cost {
  double predict_us = 0;  ///< CPU time a call, mean
  double observe_us = 0;
  double heap_bytes = 0;  ///< what the predictor holds when the stream has ended; 0: not measured
};

struct Evaluation {
  std::string predictor;
  bool order_only = false;
  Scores scores;
  std::vector<CurvePoint> curve;
  std::optional<Repeats> repeats;
  std::optional<Cost> cost;
  std::size_t image_bytes = 0;  ///< of what it has learned, saved
};

struct PrequentialOptions {
  std::uint64_t seed = 1;
  std::size_t skip = 0;  ///< rows at the start that are learned but not scored
  /// Which rows are scored; empty: all. The others are predicted and learned just the same.
  std::function<bool(const Row&)> scored;
  std::function<double()> cpu_seconds;            ///< empty: no Cost
  std::function<void(std::size_t row)> progress;  ///< called now and then
};

/// What is kept of one row. Exposed so that other experiments score as this one does.
struct Judged {
  std::size_t row = 0;
  double length = 0;
  double median = 0;  ///< capped
  double mean = 0;    ///< capped
  double log_score = 0;
  double pit = 0;
  std::array<double, kPinballLevels.size()> pinball{};
  bool complete = true;
  bool calibrated = false;
};

/// `uniform` in [0, 1) says where inside its whole token the length lies.
Judged judge(const predict::Prediction& prediction, const Row& row, double uniform);
Scores summarise(std::span<const Judged> judged);

Evaluation prequential(predict::Predictor& predictor, std::span<const Row> rows,
                       const PrequentialOptions& options);

}  // namespace tailrace::evaluate
