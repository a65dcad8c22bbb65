#include "tailrace/evaluate/fit_summary.h"

#include <algorithm>
#include <cmath>

#include "tailrace/report/summary.h"

namespace tailrace::evaluate {
namespace {

void count(PassCount& into, std::optional<double> p, double level) {
  ++into.tested;
  if (p && *p > level) ++into.passed;
}

std::vector<SizeClass> size_classes(std::size_t families) {
  std::vector<SizeClass> sizes;
  for (const auto& [from, to] :
       {std::pair<std::size_t, std::size_t>{1, 9}, {10, 19}, {20, 49}, {50, 99}, {100, 0}}) {
    sizes.push_back({from, to, 0, std::vector<FamilyPasses>(families)});
  }
  return sizes;
}

}  // namespace

void Spread::add(double value) {
  ++count_;
  sum_ += value;
  if (kept_.size() < kKept) {
    kept_.push_back(value);
  } else if (const std::uint64_t at = rng_.below(count_); at < kKept) {
    kept_[at] = value;
  }
}

std::optional<double> Spread::mean() const {
  if (count_ == 0) return std::nullopt;
  return sum_ / static_cast<double>(count_);
}

std::optional<double> Spread::quantile(double p) const {
  if (kept_.empty()) return std::nullopt;
  std::vector<double> sorted = kept_;
  std::sort(sorted.begin(), sorted.end());
  return report::percentile(sorted, p);
}

std::optional<double> PassCount::rate() const {
  if (tested == 0) return std::nullopt;
  return static_cast<double>(passed) / static_cast<double>(tested);
}

FitSummary::FitSummary(const FitRunOptions& options, double level)
    : sizes(size_classes(options.families.size())),
      rules_(options.rules),
      level_(level),
      nu_(options.fit.nu),
      bootstrapped_(options.bootstrap > 0) {
  if (options.holdout) holdout_min_ = options.holdout_min;
  for (const length::Family family : options.families) families.push_back({family, {}, 0, 0});
}

void FitSummary::add(const PromptFit& prompt) {
  const length::SampleShape& shape = prompt.fit.shape;
  ++prompts;
  lengths += shape.n;
  capped_lengths += shape.n_capped;
  if (prompt.fit.degenerate) ++degenerate;
  if (const auto piled = pile_at_top(prompt.sample)) {
    if (++piled_prompts == 1) {
      piled_id = prompt.sample.id;
      piled_lengths = shape.n;
      pile = *piled;
    }
  }
  switch (prompt.excluded) {
    case Exclusion::kNone:
      ++judged;
      if (shape.n_capped > 0) ++judged_capped;
      add_passes(prompt);
      add_shape(shape);
      break;
    case Exclusion::kFewLengths:
      ++few_lengths;
      break;
    case Exclusion::kFewDistinct:
      ++few_distinct;
      break;
    case Exclusion::kCapped:
      ++capped;
      break;
  }
  if (prompt.holdout) add_holdout(*prompt.holdout);
}

void FitSummary::add_passes(const PromptFit& prompt) {
  const std::size_t n = prompt.fit.shape.n;
  const auto size = std::find_if(sizes.begin(), sizes.end(), [&](const SizeClass& c) {
    return n >= c.from && (c.to == 0 || n <= c.to);
  });
  ++size->prompts;
  const length::FittedFamily* best = nullptr;
  std::size_t best_at = 0;
  for (std::size_t i = 0; i < families.size(); ++i) {
    const length::FittedFamily& fitted = prompt.fit.fits[i];
    const bool has_law = fitted.fit.law.has_value();
    if (!has_law) ++families[i].degenerate;
    if (has_law && std::isfinite(fitted.fit.aic) &&
        (best == nullptr || fitted.fit.aic < best->fit.aic)) {
      best = &fitted;
      best_at = i;
    }
    const bool complete = prompt.fit.shape.n_capped == 0;
    const auto table =
        complete ? length::ks_p_value_fitted(families[i].family, nu_, fitted.ks_d.value_or(1), n)
                 : std::nullopt;
    for (FamilyPasses* passes : {&families[i].passes, &size->passes[i]}) {
      count(passes->naive, fitted.ks_p, level_);
      // A family without a null law in the tables is not tested by them.
      if (table) count(passes->table, has_law ? table : std::nullopt, level_);
      if (bootstrapped_ && families[i].family != length::Family::kBinned) {
        count(passes->bootstrap, fitted.by_bootstrap ? fitted.ks_p_fitted : std::nullopt, level_);
      }
    }
  }
  if (best != nullptr) ++families[best_at].best_by_aic;
}

void FitSummary::add_shape(const length::SampleShape& shape) {
  skewness.add(shape.skewness);
  cv.add(shape.cv);
  p90_over_p50.add(shape.p90 / shape.p50);
  p99_over_p50.add(shape.p99 / shape.p50);
  top_tenth_share.add(shape.top_tenth_share);
  if (shape.tail_index) tail_index.add(*shape.tail_index);
}

void FitSummary::add_holdout(const length::HoldoutResult& result) {
  // Laws are compared on the same prompts or not at all.
  if (!result.degenerate.empty()) {
    ++holdout_incomplete;
    return;
  }
  ++holdout_prompts;
  for (const length::HoldoutScore& score : result.scores) {
    auto at = std::find_if(holdout.begin(), holdout.end(),
                           [&](const HoldoutSummary& s) { return s.law == score.law; });
    if (at == holdout.end()) {
      holdout.emplace_back();
      at = holdout.end() - 1;
      at->law = score.law;
    }
    at->above_p90.add(score.share_above_p90);
    at->above_p95.add(score.share_above_p95);
    at->above_p99.add(score.share_above_p99);
    at->mean_error.add(score.mean_error);
    at->tail_mean_error.add(score.tail_mean_error);
    if (score.log_score) at->log_score.add(*score.log_score);
  }
}

}  // namespace tailrace::evaluate
