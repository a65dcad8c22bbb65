#include "tailrace/evaluate/fit_document.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <cmath>
#include <iterator>

#include "tailrace/core/printable.h"
#include "tailrace/core/text.h"
#include "tailrace/length/binned.h"
#include "tailrace/report/table.h"

namespace tailrace::evaluate {
namespace {

using length::Family;

/// Builds one JSON object; fmt prints a double so that it reads back as itself.
class Object {
 public:
  Object& raw(std::string_view key, std::string_view value) {
    fmt::format_to(std::back_inserter(out_), "{}\"{}\":{}", out_.empty() ? "" : ",", key, value);
    return *this;
  }
  Object& number(std::string_view key, std::optional<double> value) {
    if (!value || !std::isfinite(*value)) return raw(key, "null");
    return raw(key, fmt::format("{}", *value));
  }
  Object& count(std::string_view key, std::size_t value) {
    return raw(key, fmt::format("{}", value));
  }
  Object& boolean(std::string_view key, bool value) { return raw(key, value ? "true" : "false"); }
  /// Nothing is null.
  Object& text(std::string_view key, std::optional<std::string_view> value) {
    return raw(key, value ? quote(*value) : "null");
  }
  std::string str() const { return "{" + out_ + "}"; }

  static std::string quote(std::string_view value) {
    const std::string valid = core::valid_utf8(value);
    return core::printable(boost::json::serialize(boost::json::string(valid.data(), valid.size())));
  }

 private:
  std::string out_;
};

/// The names that a family's document has, also where there is no law to fill them.
std::vector<std::string_view> parameter_names(Family family) {
  switch (family) {
    case Family::kLogT:
      return {"mu", "sigma", "nu"};
    case Family::kLogNormal:
      return {"mu", "sigma"};
    case Family::kGamma:
    case Family::kWeibull:
    case Family::kLomax:
      return {"shape", "scale"};
    case Family::kExponential:
      return {"scale"};
    case Family::kMixture:
      return {"weight"};
    case Family::kBinned:
      break;
  }
  return {};
}

void add_parameters(Object& out, Family family, const std::optional<length::LengthLaw>& law) {
  if (!law) {
    for (const std::string_view name : parameter_names(family)) out.number(name, std::nullopt);
    return;
  }
  for (const length::Parameter& parameter : law->parameters()) {
    out.number(parameter.name, parameter.value);
  }
  if (const length::Binned* bins = law->as_binned()) {
    std::string masses;
    for (std::size_t i = 0; i <= bins->edges().size(); ++i) {
      masses += fmt::format("{}{}", i == 0 ? "" : ",", bins->mass(i));
    }
    out.raw("edges", fmt::format("[{}]", fmt::join(bins->edges(), ",")));
    out.raw("masses", "[" + masses + "]");
  }
  if (const length::Mixture* parts = law->as_mixture()) {
    for (const auto& [name, part] :
         {std::pair{"first", &parts->first}, std::pair{"second", &parts->second}}) {
      Object inner;
      inner.text("family", length::family_name(part->family()));
      add_parameters(inner, part->family(), *part);
      out.raw(name, inner.str());
    }
  }
}

std::string fit_json(const length::FittedFamily& fitted) {
  const length::FamilyFit& fit = fitted.fit;
  const bool has_law = fit.law.has_value();
  const auto known = [&](double value) { return has_law ? std::optional(value) : std::nullopt; };
  Object out;
  add_parameters(out, fit.family, fit.law);
  out.boolean("at_bound", fit.at_bound)
      .number("loglik", known(fit.loglik))
      .number("aic", known(fit.aic))
      .number("bic", known(fit.bic))
      .number("ks_d", fitted.ks_d)
      .number("ks_p", fitted.ks_p)
      .number("ks_p_fitted", fitted.ks_p_fitted)
      .number("ad", fitted.ad)
      .number("ad_p_fitted", fitted.ad_p_fitted);
  std::optional<std::string_view> source;
  if (fitted.ks_p_fitted) source = fitted.by_bootstrap ? "bootstrap" : "table";
  out.text("p_fitted_by", source);
  out.text("degenerate", has_law ? std::nullopt : std::optional<std::string_view>(fit.degenerate));
  return out.str();
}

std::string holdout_json(const length::HoldoutResult& result) {
  Object laws;
  for (const length::HoldoutScore& score : result.scores) {
    laws.raw(score.law, Object()
                            .number("share_above_p90", score.share_above_p90)
                            .number("share_above_p95", score.share_above_p95)
                            .number("share_above_p99", score.share_above_p99)
                            .number("mean_error", score.mean_error)
                            .number("tail_mean_error", score.tail_mean_error)
                            .number("log_score", score.log_score)
                            .str());
  }
  std::string degenerate;
  for (const std::string& law : result.degenerate) {
    degenerate += (degenerate.empty() ? "" : ",") + Object::quote(law);
  }
  return Object()
      .count("n_fitted", result.n_fitted)
      .count("n_judged", result.n_judged)
      .number("cap", result.cap)
      .raw("laws", laws.str())
      .raw("degenerate", "[" + degenerate + "]")
      .str();
}

std::optional<std::string_view> reason(Exclusion excluded) {
  switch (excluded) {
    case Exclusion::kNone:
      break;
    case Exclusion::kFewLengths:
      return "few_lengths";
    case Exclusion::kFewDistinct:
      return "few_distinct";
    case Exclusion::kCapped:
      return "capped";
  }
  return std::nullopt;
}

std::string passes_json(const FamilyPasses& passes) {
  const auto one = [](const PassCount& count) {
    return Object()
        .count("passed", count.passed)
        .count("tested", count.tested)
        .number("rate", count.rate())
        .str();
  };
  return Object()
      .raw("naive", one(passes.naive))
      .raw("table", one(passes.table))
      .raw("bootstrap", one(passes.bootstrap))
      .str();
}

std::string spread_json(const Spread& spread) {
  return Object()
      .number("mean", spread.mean())
      .number("median", spread.quantile(0.5))
      .number("p90", spread.quantile(0.9))
      .count("prompts", spread.count())
      .str();
}

std::string sizes_json(const FitSummary& summary) {
  std::string out;
  for (const SizeClass& size : summary.sizes) {
    if (size.prompts == 0) continue;
    Object passes;
    for (std::size_t i = 0; i < summary.families.size(); ++i) {
      passes.raw(length::family_name(summary.families[i].family), passes_json(size.passes[i]));
    }
    if (!out.empty()) out += ',';
    out += Object()
               .count("n_from", size.from)
               .number("n_to",
                       size.to == 0 ? std::nullopt : std::optional(static_cast<double>(size.to)))
               .count("prompts", size.prompts)
               .raw("passes", passes.str())
               .str();
  }
  return "[" + out + "]";
}

std::string holdout_summary_json(const FitSummary& summary) {
  Object laws;
  for (const HoldoutSummary& law : summary.holdout) {
    laws.raw(law.law, Object()
                          .number("share_above_p90", law.above_p90.mean())
                          .number("share_above_p95", law.above_p95.mean())
                          .number("share_above_p99", law.above_p99.mean())
                          .raw("mean_error", spread_json(law.mean_error))
                          .raw("tail_mean_error", spread_json(law.tail_mean_error))
                          .number("log_score", law.log_score.mean())
                          .str());
  }
  return Object()
      .count("prompts", summary.holdout_prompts)
      .count("incomplete", summary.holdout_incomplete)
      .raw("laws", laws.str())
      .str();
}

/// A rate, or counts where not all that were judged could be tested: 0 of 1 is no 0 %.
std::string passes_text(const PassCount& count, std::size_t judged) {
  const auto rate = count.rate();
  if (!rate) return "-";
  if (count.tested < judged) return fmt::format("{} of {}", count.passed, count.tested);
  return fmt::format("{:.1f} %", 100 * *rate);
}

/// Tables and resamples go no lower than about one in a thousand.
std::string p_value_text(std::optional<double> p) {
  constexpr double kLeastShown = 0.001;
  if (!p) return "-";
  return *p <= kLeastShown ? "<0.001" : report::figure(*p);
}

/// "1 prompt", "2 prompts".
std::string counted(std::size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string figure_or_dash(std::optional<double> value) {
  return value ? report::figure(*value) : "-";
}

std::string percent_or_dash(std::optional<double> value) {
  return value ? fmt::format("{:.1f} %", 100 * *value) : "-";
}

std::string passes_table(const FitSummary& summary) {
  using enum report::Table::Align;
  report::Table table(
      {{"family", kLeft}, {"naive"}, {"tables"}, {"bootstrap"}, {"best AIC"}, {"no maximum"}});
  for (const FamilySummary& family : summary.families) {
    table.add_row({std::string(length::family_name(family.family)),
                   passes_text(family.passes.naive, summary.judged),
                   passes_text(family.passes.table, summary.judged),
                   passes_text(family.passes.bootstrap, summary.judged),
                   fmt::format("{}", family.best_by_aic), fmt::format("{}", family.degenerate)});
  }
  return table.text();
}

std::string shape_table(const FitSummary& summary) {
  using enum report::Table::Align;
  report::Table table({{"shape of a prompt's lengths", kLeft}, {"mean"}, {"median"}, {"P90"}});
  const auto row = [&](const char* name, const Spread& spread) {
    table.add_row({name, figure_or_dash(spread.mean()), figure_or_dash(spread.quantile(0.5)),
                   figure_or_dash(spread.quantile(0.9))});
  };
  row("skewness", summary.skewness);
  row("coefficient of variation", summary.cv);
  row("P90 / P50", summary.p90_over_p50);
  row("P99 / P50", summary.p99_over_p50);
  row("top tenth's share of tokens", summary.top_tenth_share);
  row("tail index (Hill)", summary.tail_index);
  return table.text();
}

std::string holdout_table(const FitSummary& summary) {
  using enum report::Table::Align;
  report::Table table({{"held out", kLeft},
                       {"above P90"},
                       {"above P95"},
                       {"above P99"},
                       {"mean off by"},
                       {"tail mean off by"},
                       {"its P90"},
                       {"log score"}});
  for (const HoldoutSummary& law : summary.holdout) {
    table.add_row(
        {law.law, percent_or_dash(law.above_p90.mean()), percent_or_dash(law.above_p95.mean()),
         percent_or_dash(law.above_p99.mean()), percent_or_dash(law.mean_error.quantile(0.5)),
         percent_or_dash(law.tail_mean_error.quantile(0.5)),
         percent_or_dash(law.tail_mean_error.quantile(0.9)), figure_or_dash(law.log_score.mean())});
  }
  return table.text();
}

}  // namespace

std::string prompt_json(const PromptFit& prompt) {
  const length::SampleShape& shape = prompt.fit.shape;
  Object fits;
  for (const length::FittedFamily& fitted : prompt.fit.fits) {
    fits.raw(length::family_name(fitted.fit.family), fit_json(fitted));
  }
  const auto ratio = [&](double value) { return value / shape.p50; };
  const auto pile = pile_at_top(prompt.sample);
  Object out;
  out.text("id", prompt.sample.id)
      .count("n", shape.n)
      .count("n_capped", shape.n_capped)
      .number("cap", prompt.sample.cap)
      .number("suspected_cap", pile ? std::optional(pile->tokens) : std::nullopt)
      .boolean("degenerate", prompt.fit.degenerate)
      .text("excluded", reason(prompt.excluded))
      .raw("shape", Object()
                        .count("distinct", shape.distinct)
                        .number("mean", shape.mean)
                        .number("cv", shape.cv)
                        .number("skewness", shape.skewness)
                        .number("p50", shape.p50)
                        .number("p90", shape.p90)
                        .number("p99", shape.p99)
                        .number("p90_over_p50", ratio(shape.p90))
                        .number("p99_over_p50", ratio(shape.p99))
                        .number("top_tenth_share", shape.top_tenth_share)
                        .number("tail_index", shape.tail_index)
                        .str())
      .raw("fits", fits.str());
  if (prompt.holdout) out.raw("holdout", holdout_json(*prompt.holdout));
  return out.str();
}

std::string summary_json(const FitSummary& summary) {
  Object families;
  Object best;
  for (const FamilySummary& family : summary.families) {
    const std::string_view name = length::family_name(family.family);
    families.raw(name, passes_json(family.passes));
    best.raw(name, Object()
                       .count("prompts", family.best_by_aic)
                       .number("share", PassCount{family.best_by_aic, summary.judged}.rate())
                       .str());
  }
  Object degenerate;
  for (const FamilySummary& family : summary.families) {
    degenerate.count(length::family_name(family.family), family.degenerate);
  }
  Object out;
  out.count("prompts", summary.prompts)
      .count("lengths", summary.lengths)
      .count("capped_lengths", summary.capped_lengths)
      .count("degenerate", summary.degenerate)
      .count("judged", summary.judged)
      .raw("excluded", Object()
                           .count("few_lengths", summary.few_lengths)
                           .count("few_distinct", summary.few_distinct)
                           .count("capped", summary.capped)
                           .str())
      .raw("rules", Object()
                        .number("level", summary.level())
                        .count("min_lengths", summary.rules().min_lengths)
                        .count("min_distinct", summary.rules().min_distinct)
                        .number("max_capped_share", summary.rules().max_capped_share)
                        .str())
      .raw("passes", families.str())
      .raw("passes_by_n", sizes_json(summary))
      .raw("judged_degenerate", degenerate.str())
      .raw("best_by_aic", best.str())
      .raw("shape", Object()
                        .raw("skewness", spread_json(summary.skewness))
                        .raw("cv", spread_json(summary.cv))
                        .raw("p90_over_p50", spread_json(summary.p90_over_p50))
                        .raw("p99_over_p50", spread_json(summary.p99_over_p50))
                        .raw("top_tenth_share", spread_json(summary.top_tenth_share))
                        .raw("tail_index", spread_json(summary.tail_index))
                        .str());
  if (!summary.holdout.empty() || summary.holdout_incomplete > 0) {
    out.raw("holdout", holdout_summary_json(summary));
  }
  return out.str();
}

std::string prompt_text(const PromptFit& prompt) {
  using enum report::Table::Align;
  const length::SampleShape& shape = prompt.fit.shape;
  std::string out =
      fmt::format("{}: {}{}, mean {}, P50 {}, P90 {}, P99 {}\n", core::quoted(prompt.sample.id),
                  counted(shape.n, "length"),
                  shape.n_capped > 0 ? fmt::format(", {} of them at the cap", shape.n_capped) : "",
                  report::figure(shape.mean), report::figure(shape.p50), report::figure(shape.p90),
                  report::figure(shape.p99));
  report::Table table(
      {{"law", kLeft}, {"ln likelihood"}, {"AIC"}, {"KS"}, {"p naive"}, {"p fitted"}});
  for (const length::FittedFamily& fitted : prompt.fit.fits) {
    if (!fitted.fit.law) continue;
    table.add_row({fitted.fit.law->describe(), fmt::format("{:.2f}", fitted.fit.loglik),
                   std::isfinite(fitted.fit.aic) ? fmt::format("{:.2f}", fitted.fit.aic) : "-",
                   figure_or_dash(fitted.ks_d), p_value_text(fitted.ks_p),
                   p_value_text(fitted.ks_p_fitted)});
  }
  out += table.text();
  for (const length::FittedFamily& fitted : prompt.fit.fits) {
    if (fitted.fit.law) continue;
    out += fmt::format("{} has no maximum: {}\n", length::family_name(fitted.fit.family),
                       fitted.fit.degenerate);
  }
  return out;
}

std::string summary_text(const FitSummary& summary) {
  const JudgingRules& rules = summary.rules();
  std::string out =
      fmt::format("{}, {}, {} of them at the cap\n", counted(summary.prompts, "prompt"),
                  counted(summary.lengths, "length"), summary.capped_lengths);
  const auto left_out = [&](std::size_t prompts, const std::string& why) {
    if (prompts > 0) out += fmt::format("not judged: {} with {}\n", prompts, why);
  };
  const std::string_view bootstrap = summary.bootstrapped() ? "" : " --bootstrap 200";
  left_out(summary.few_lengths, fmt::format("fewer than {} lengths", rules.min_lengths));
  left_out(summary.few_distinct, fmt::format("fewer than {} distinct lengths", rules.min_distinct));
  std::string capped = fmt::format("{:g} % or more at the cap", 100 * rules.max_capped_share);
  if (rules.max_capped_share < 1) {
    capped +=
        fmt::format(" (judge them too: --max-capped 1{}; every prompt's fits: --json)", bootstrap);
  }
  left_out(summary.capped, capped);
  if (summary.degenerate > 0) {
    out += fmt::format(
        "{} {} no likeliest log-t law: too many identical lengths, or all at the cap\n",
        counted(summary.degenerate, "prompt"), summary.degenerate == 1 ? "has" : "have");
  }
  if (summary.piled_prompts > 0) {
    out += fmt::format(
        "{} without a cap {} many lengths equal to the longest; of {}, {} of {} are {:g}: if that "
        "was the limit, give \"cap\": {:g}\n",
        counted(summary.piled_prompts, "prompt"), summary.piled_prompts == 1 ? "has" : "have",
        core::quoted(summary.piled_id), summary.pile.count,
        counted(summary.piled_lengths, "length"), summary.pile.tokens, summary.pile.tokens);
  }
  if (summary.judged > 0) {
    out += fmt::format("\n{} judged: share that passes Kolmogorov-Smirnov at {:g} %\n",
                       counted(summary.judged, "prompt"), 100 * summary.level()) +
           passes_table(summary);
    if (summary.judged_capped > 0) {
      out += fmt::format("tables: only prompts without capped lengths{}\n",
                         summary.bootstrapped() ? "" : "; use --bootstrap 200");
    } else if (!summary.bootstrapped()) {
      out += "-: not known; --bootstrap 200 tests every law\n";
    }
    out += "\n" + shape_table(summary);
  }
  if (!summary.holdout_min()) return out;
  if (summary.holdout_prompts + summary.holdout_incomplete == 0) {
    out += fmt::format("\nheld out: no prompt that is judged has {}; see --holdout-min\n",
                       counted(*summary.holdout_min(), "length"));
    return out;
  }
  out += fmt::format(
      "\nAll laws, fitted to half of the lengths and judged by the other half; {} ({} more had a "
      "half without a maximum)\n",
      counted(summary.holdout_prompts, "prompt"), summary.holdout_incomplete);
  if (summary.holdout_prompts > 0) out += holdout_table(summary);
  return out;
}

}  // namespace tailrace::evaluate
