#include "tailrace/length/holdout.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "length/order_statistics.h"

namespace tailrace::length {
namespace {

constexpr std::size_t kLeastLengths = 4;
constexpr double kLevel = 0.9;         // of the tail mean: the longest tenth
constexpr double kCapOverLongest = 4;  // where the sample names no cap
constexpr double kLeastMass = 1e-12;   // in the log score

constexpr Family kFitted[] = {Family::kLogT,    Family::kLogNormal,   Family::kGamma,
                              Family::kWeibull, Family::kExponential, Family::kLomax,
                              Family::kMixture};

/// Ascending lengths, none beyond the cap.
struct Half {
  std::vector<double> lengths;
  double cap = 0;

  double mean() const {
    return std::accumulate(lengths.begin(), lengths.end(), 0.0) /
           static_cast<double>(lengths.size());
  }
  double tail_mean() const {
    return sum_of_top_tenth(lengths) * 10 / static_cast<double>(lengths.size());
  }
  double share_above(double tokens) const {
    const auto beyond = lengths.end() - std::upper_bound(lengths.begin(), lengths.end(), tokens);
    return static_cast<double>(beyond) / static_cast<double>(lengths.size());
  }
  double quantile(double p) const { return quantile_of_sorted(lengths, p); }
};

Half make_half(std::span<const double> lengths, double cap) {
  Half half{{lengths.begin(), lengths.end()}, cap};
  for (double& length : half.lengths) length = std::min(length, cap);
  std::sort(half.lengths.begin(), half.lengths.end());
  return half;
}

bool is_whole(double length) {
  return length == std::floor(length);
}

double mean_log_mass(const LengthLaw& law, const Half& judged) {
  double sum = 0;
  for (const double length : judged.lengths) {
    const double beyond = length < judged.cap ? law.survival(length) : 0;
    sum += std::log(std::max(law.survival(length - 1) - beyond, kLeastMass));
  }
  return sum / static_cast<double>(judged.lengths.size());
}

HoldoutScore judge_law(std::string name, const LengthLaw& law, const Half& judged) {
  HoldoutScore score;
  score.law = std::move(name);
  score.share_above_p90 = judged.share_above(law.quantile(0.9));
  score.share_above_p95 = judged.share_above(law.quantile(0.95));
  score.share_above_p99 = judged.share_above(law.quantile(0.99));
  score.mean_error = std::fabs(law.capped_mean(judged.cap) / judged.mean() - 1);
  score.tail_mean_error = std::fabs(law.capped_cvar(kLevel, judged.cap) / judged.tail_mean() - 1);
  if (std::all_of(judged.lengths.begin(), judged.lengths.end(), is_whole)) {
    score.log_score = mean_log_mass(law, judged);
  }
  return score;
}

HoldoutScore judge_half(const Half& fitted, const Half& judged) {
  HoldoutScore score;
  score.law = "empirical";
  score.share_above_p90 = judged.share_above(fitted.quantile(0.9));
  score.share_above_p95 = judged.share_above(fitted.quantile(0.95));
  score.share_above_p99 = judged.share_above(fitted.quantile(0.99));
  score.mean_error = std::fabs(fitted.mean() / judged.mean() - 1);
  score.tail_mean_error = std::fabs(fitted.tail_mean() / judged.tail_mean() - 1);
  return score;
}

}  // namespace

Result<HoldoutResult> judge_held_out(const LengthSample& sample, const FitOptions& options,
                                     Rng rng) {
  if (sample.lengths.size() < kLeastLengths) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("lengths: {} in sample \"{}\"; give at least {} to fit on half of them "
                            "and judge by the other",
                            sample.lengths.size(), sample.id, kLeastLengths));
  }
  std::vector<double> mixed = sample.lengths;
  for (std::size_t i = mixed.size(); i > 1; --i) std::swap(mixed[i - 1], mixed[rng.below(i)]);
  const std::size_t n_fitted = (mixed.size() + 1) / 2;
  const std::span<const double> all(mixed);
  const LengthSample half{sample.id,
                          {mixed.begin(), mixed.begin() + static_cast<std::ptrdiff_t>(n_fitted)},
                          sample.cap};
  const double longest = *std::max_element(half.lengths.begin(), half.lengths.end());

  HoldoutResult result;
  result.n_fitted = n_fitted;
  result.n_judged = mixed.size() - n_fitted;
  result.cap = sample.cap.value_or(kCapOverLongest * longest);
  const Half judged = make_half(all.subspan(n_fitted), result.cap);
  for (const Family family : kFitted) {
    const Result<FamilyFit> fit = fit_family(family, half, options);
    if (!fit) return fail(fit.error());
    if (fit->law) {
      result.scores.push_back(judge_law(std::string(family_name(family)), *fit->law, judged));
    } else {
      result.degenerate.emplace_back(family_name(family));
    }
  }
  const Result<LengthLaw> bins = fit_bins(half);
  if (!bins) return fail(bins.error());
  result.scores.push_back(judge_law(std::string(family_name(Family::kBinned)), *bins, judged));
  result.scores.push_back(judge_half(make_half(all.first(n_fitted), result.cap), judged));
  return result;
}

}  // namespace tailrace::length
