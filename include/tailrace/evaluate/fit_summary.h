// What do the fits of many prompts say together?
//
// Takes one PromptFit after another and keeps counts, so its memory does not grow with their
// number. Rates and shapes are over the prompts that count (JudgingRules); the others are counted
// by reason.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tailrace/core/rng.h"
#include "tailrace/evaluate/fit_run.h"

namespace tailrace::evaluate {

/// Mean and quantiles of a stream: exact up to 100,000 values, beyond that quantiles are those of
/// an even sample of so many.
class Spread {
 public:
  void add(double value);
  std::size_t count() const { return count_; }
  std::optional<double> mean() const;
  std::optional<double> quantile(double p) const;

 private:
  static constexpr std::size_t kKept = 100'000;
  std::size_t count_ = 0;
  double sum_ = 0;
  std::vector<double> kept_;
  Rng rng_{0};
};

/// How many of those tested passed: p above the level. A prompt whose likelihood has no maximum
/// did not pass.
struct PassCount {
  std::size_t passed = 0;
  std::size_t tested = 0;
  std::optional<double> rate() const;
};

struct FamilyPasses {
  PassCount naive;      ///< p-value of a law known beforehand
  PassCount table;      ///< of fitted parameters, from tables; complete samples alone
  PassCount bootstrap;  ///< of fitted parameters, from resamples
};

/// Prompts of like sample size: a test of 20 lengths passes nearly anything.
struct SizeClass {
  std::size_t from = 0;
  std::size_t to = 0;  ///< inclusive; 0: no upper end
  std::size_t prompts = 0;
  std::vector<FamilyPasses> passes;  ///< one for each family
};

struct FamilySummary {
  length::Family family = length::Family::kLogT;
  FamilyPasses passes;
  std::size_t degenerate = 0;   ///< without a maximum, among the prompts that count
  std::size_t best_by_aic = 0;  ///< the least AIC among the families, ties to the earlier
};

struct HoldoutSummary {
  std::string law;
  Spread above_p90, above_p95, above_p99;
  Spread mean_error, tail_mean_error, log_score;
};

class FitSummary {
 public:
  /// `level`: a p-value above it passes.
  FitSummary(const FitRunOptions& options, double level);

  void add(const PromptFit& prompt);

  std::size_t prompts = 0;
  std::size_t lengths = 0;
  std::size_t capped_lengths = 0;
  std::size_t degenerate = 0;     ///< prompts whose log-t likelihood has no maximum, of all
  std::size_t judged = 0;         ///< prompts that count
  std::size_t judged_capped = 0;  ///< of those, with lengths at the cap
  std::size_t few_lengths = 0, few_distinct = 0, capped = 0;  ///< those that do not, by reason
  std::size_t piled_prompts = 0;                              ///< with a PileAtTop
  std::string piled_id;                                       ///< the first of them
  std::size_t piled_lengths = 0;                              ///< of that one
  PileAtTop pile;                                             ///< of that one
  std::vector<FamilySummary> families;
  std::vector<SizeClass> sizes;
  Spread skewness, cv, p90_over_p50, p99_over_p50, top_tenth_share, tail_index;
  std::size_t holdout_prompts = 0;      ///< where every law could be fitted to its half
  std::size_t holdout_incomplete = 0;   ///< where one could not: in no column
  std::vector<HoldoutSummary> holdout;  ///< in the order of HoldoutResult::scores

  const JudgingRules& rules() const { return rules_; }
  double level() const { return level_; }
  bool bootstrapped() const { return bootstrapped_; }
  /// The fewest lengths that are split in halves, if any are.
  std::optional<std::size_t> holdout_min() const { return holdout_min_; }

 private:
  void add_passes(const PromptFit& prompt);
  void add_shape(const length::SampleShape& shape);
  void add_holdout(const length::HoldoutResult& result);

  JudgingRules rules_;
  double level_;
  std::optional<double> nu_;  ///< of log-t, if fixed
  bool bootstrapped_;
  std::optional<std::size_t> holdout_min_;
};

}  // namespace tailrace::evaluate
