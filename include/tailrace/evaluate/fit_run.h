// How does each family of laws fit every prompt of a recording?
//
// Reads samples, fits them on some threads, and hands the results over in the order of the input:
// the same results whatever the number of threads. At most a few samples a thread are held at a
// time, so a recording may be larger than memory.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tailrace/core/rng.h"
#include "tailrace/dataset/samples.h"
#include "tailrace/length/holdout.h"
#include "tailrace/length/sample_fit.h"

namespace tailrace::evaluate {

/// What `--family all` stands for: the closed-form families, in the order of the documents.
std::span<const length::Family> standard_families();

/// Which prompts count in rates of passing. A test says nothing about a handful of lengths, and one
/// for a smooth law nothing about a few atoms.
struct JudgingRules {
  std::size_t min_lengths = 10;
  std::size_t min_distinct = 5;
  double max_capped_share = 0.02;  ///< a prompt with this share at its cap, or more, does not count
};

enum class Exclusion { kNone, kFewLengths, kFewDistinct, kCapped };
Exclusion exclusion(const length::SampleShape& shape, const JudgingRules& rules);

/// A limit that the recording does not name shows as many lengths equal to the longest.
struct PileAtTop {
  double tokens = 0;      ///< the longest length
  std::size_t count = 0;  ///< of the lengths equal to it
};
/// Nothing where the cap is known, where lengths are few or of few kinds (a constant answer piles
/// up too), or where another length is as frequent.
std::optional<PileAtTop> pile_at_top(const length::LengthSample& sample);

struct FitRunOptions {
  std::vector<length::Family> families{standard_families().begin(), standard_families().end()};
  length::FitOptions fit;
  int bootstrap = 0;  ///< resamples behind each p-value; 0: tables alone
  std::uint64_t seed = 0;
  int threads = 1;
  /// With so many lengths under way no prompt is read ahead, whatever the threads: memory stays
  /// within these and one prompt more. 128 MiB of doubles.
  std::size_t lengths_under_way = std::size_t{16} << 20;
  /// Judges every law on the half of a prompt's lengths that it was not fitted to, where there are
  /// at least `holdout_min` and the prompt counts.
  bool holdout = false;
  std::size_t holdout_min = 50;
  JudgingRules rules;
};

struct PromptFit {
  length::LengthSample sample;
  length::SampleFit fit;
  Exclusion excluded = Exclusion::kNone;
  std::optional<length::HoldoutResult> holdout;
};

/// Calls `on_prompt` for each prompt, in order, from the calling thread; an error of its ends the
/// run. Errors: those of SampleReader::next and of `on_prompt`, or that of the first prompt in
/// order that cannot be fitted.
Result<void> fit_run(dataset::SampleReader& samples, const FitRunOptions& options,
                     const std::function<Result<void>(PromptFit)>& on_prompt);

}  // namespace tailrace::evaluate
