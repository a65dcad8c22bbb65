#include <fmt/format.h>

#include "evaluate/report_tables.h"
#include "tailrace/report/html.h"

namespace tailrace::evaluate {
namespace {

using report::Figure;
using report::FigureLine;

constexpr std::string_view kHowToRead =
    "Every row was predicted before its length was learned. Log score: mean of ln of the "
    "probability that the law gave to the very number of tokens that came, higher is better; a law "
    "that gave none counts as 1e-12. tau: Kendall's tau-b between the law's median and the length; "
    "pairs: share of pairs that the medians rank rightly. loss: pinball loss of a quantile, "
    "tokens, "
    "lower is better. in 90 %: share of lengths inside the law's central 90 % interval. R2 mu and "
    "spread: how well the law of a prompt's first prediction matches mean and standard deviation "
    "of "
    "ln tokens over all its answers; below 0 it is worse than one value for all. vouched: share of "
    "predictions that their predictor itself called calibrated.";

bool is_judged(const Evaluation& e) {
  return !e.order_only && e.scores.rows > 0;
}

Figure reliability_figure(const SetReport& r) {
  Figure f;
  f.title = "Reliability";
  f.description =
      "Share of lengths below each quantile of their laws; on the diagonal a law means "
      "what it says.";
  f.x.title = "quantile of the law";
  f.y.title = "share of lengths below";
  std::size_t style = 0;
  f.lines.push_back({"ideal", {0, 1}, {0, 1}, 4});
  for (const Evaluation& e : r.evaluations) {
    if (!is_judged(e)) continue;
    FigureLine line{e.predictor, {0}, {0}, style == 4 ? ++style : style};
    for (std::size_t i = 0; i < kReliabilityPoints; ++i) {
      line.x.push_back(static_cast<double>(i + 1) / (kReliabilityPoints + 1));
      line.y.push_back(e.scores.reliability[i]);
    }
    line.x.push_back(1);
    line.y.push_back(1);
    f.lines.push_back(std::move(line));
    ++style;
  }
  return f;
}

Figure pit_figure(const Evaluation& e) {
  Figure f;
  f.title = fmt::format("Where lengths fall in the laws of {}", e.predictor);
  f.description =
      "Histogram of the randomised probability integral transform; flat for a perfect law.";
  f.x.title = "place in the law (0: shortest, 1: longest)";
  f.y.title = "share of rows";
  f.bars.label = e.predictor;
  for (std::size_t i = 0; i <= kPitBins; ++i) {
    f.bars.edges.push_back(static_cast<double>(i) / kPitBins);
  }
  f.bars.heights.assign(e.scores.pit.begin(), e.scores.pit.end());
  f.lines.push_back({"flat", {0, 1}, {1.0 / kPitBins, 1.0 / kPitBins}, 4});
  return f;
}

Figure coverage_figure(const Evaluation& e) {
  Figure f;
  f.title = fmt::format("Coverage of the intervals of {}", e.predictor);
  f.description =
      "Bars: share of lengths inside the central 50, 80, 90 and 99 % intervals. Lines: "
      "what it should be.";
  f.x.title = "central interval of the law";
  f.y.title = "share of lengths inside";
  f.bars.label = "covered";
  for (std::size_t i = 0; i <= kCoverages.size(); ++i) {
    f.bars.edges.push_back(static_cast<double>(i));
  }
  f.bars.heights.assign(e.scores.coverage.begin(), e.scores.coverage.end());
  for (std::size_t i = 0; i < kCoverages.size(); ++i) {
    const double left = static_cast<double>(i);
    f.bars.categories.push_back(fmt::format("{:g} %", 100 * kCoverages[i]));
    f.lines.push_back(
        {i == 0 ? "nominal" : "", {left, left + 1}, {kCoverages[i], kCoverages[i]}, 1});
  }
  return f;
}

Figure curve_figure(const SetReport& r, std::string_view title, double (*value)(const Scores&)) {
  Figure f;
  f.title = title;
  f.description = "By the number of rows learned before, on stretches that grow.";
  f.x = {"rows learned", true};
  f.y.title = title;
  std::size_t style = 0;
  for (const Evaluation& e : r.evaluations) {
    if (!is_judged(e)) continue;
    FigureLine line{e.predictor, {}, {}, style++};
    for (const CurvePoint& p : e.curve) {
      line.x.push_back(static_cast<double>(p.to));
      line.y.push_back(value(p.scores));
    }
    f.lines.push_back(std::move(line));
  }
  return f;
}

void add_set(const SetReport& r, report::HtmlPage& page) {
  page.add_heading(headline(r));
  page.add_table(score_table(r));
  page.add_figures({reliability_figure(r),
                    curve_figure(r, "tau", [](const Scores& s) { return s.tau; }),
                    curve_figure(r, "surprise, nats (log score without its sign)",
                                 [](const Scores& s) { return -s.log_score; })});
  for (const Evaluation& e : r.evaluations) {
    if (is_judged(e)) page.add_figures({pit_figure(e), coverage_figure(e)});
  }
  page.add_paragraph("Learning curve, by rows seen:");
  page.add_table(curve_table(r));
  if (has_cost(r)) {
    page.add_paragraph("CPU time a call and memory:");
    page.add_table(cost_table(r));
  }
  for (const LeaveOneOut& l : r.left_out) {
    page.add_paragraph(left_out_summary(l));
    page.add_table(left_out_table(l));
  }
  if (!r.poisons.empty()) {
    page.add_paragraph("Honest tenants, without an attacker and attacked:");
    page.add_table(poison_table(r));
  }
}

}  // namespace

std::string to_html(std::span<const SetReport> reports) {
  report::HtmlPage page("How good are the length predictions?");
  page.add_paragraph(kHowToRead);
  for (const SetReport& r : reports) add_set(r, page);
  return page.text();
}

}  // namespace tailrace::evaluate
