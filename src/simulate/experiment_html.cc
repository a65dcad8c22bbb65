#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "simulate/experiment_tables.h"
#include "tailrace/report/html.h"
#include "tailrace/simulate/experiment_report.h"

namespace tailrace::simulate {
namespace {

using report::Figure;
using report::figure;
using report::FigureLine;

/// So many lines differ by colour and dashes.
constexpr std::size_t kSeriesMax = 8;
constexpr std::array kRateKeys = {"workload.load", "workload.rate", "workload.trace.speed"};
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// The cells as series over rates: what differs in the rate alone is one series.
class Series {
 public:
  explicit Series(const Experiment& experiment) : experiment_(experiment) {
    for (std::size_t d = 0; d < experiment.dimensions.size(); ++d) {
      for (const char* key : kRateKeys) {
        if (experiment.dimensions[d].name == key) rate_ = d;
      }
    }
    for (std::size_t i = 0; i < experiment.cells.size(); ++i) add(i);
  }

  std::size_t size() const { return names_.size(); }
  bool over_rates() const { return rate_.has_value(); }
  const std::string& name(std::size_t s) const { return names_[s]; }
  const std::vector<std::size_t>& cells(std::size_t s) const { return cells_[s]; }
  /// At the last rate: what is drawn of single cells.
  std::size_t last(std::size_t s) const { return cells_[s].back(); }
  std::string last_rate() const {
    if (!rate_) return "";
    const Dimension& dimension = experiment_.dimensions[*rate_];
    return fmt::format(", {} {}", dimension.name, dimension.labels.back());
  }

 private:
  void add(std::size_t cell) {
    std::string name;
    for (std::size_t d = 0; d < experiment_.dimensions.size(); ++d) {
      if (d == rate_) continue;
      const Dimension& dimension = experiment_.dimensions[d];
      const std::string& label = dimension.labels[experiment_.cells[cell].labels[d]];
      if (!name.empty()) name += ", ";
      // A policy's or an arm's name says enough.
      name += dimension.name == "arm" || dimension.name == "policy.name"
                  ? label
                  : fmt::format("{} {}", dimension.name, label);
    }
    if (name.empty()) name = experiment_.name;
    const auto series =
        static_cast<std::size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
    if (series == names_.size()) {
      names_.push_back(name);
      cells_.emplace_back();
    }
    cells_[series].push_back(cell);
  }

  const Experiment& experiment_;
  std::optional<std::size_t> rate_;
  std::vector<std::string> names_;
  std::vector<std::vector<std::size_t>> cells_;
};

double mean_or_unknown(const CellResult& cell, std::string_view metric) {
  const auto mean = cell.mean(metric_named(metric));
  return mean ? mean->estimate : kUnknown;
}

Figure against_rate(const Series& series, const ExperimentResult& result, std::string_view metric,
                    std::string_view title) {
  Figure f;
  f.title = title;
  f.description = fmt::format("{} against the rate of requests, one line per arm.", title);
  f.y = {fmt::format("{}, logarithmic", title), true};
  for (std::size_t s = 0; s < std::min(series.size(), kSeriesMax); ++s) {
    FigureLine line{series.name(s), {}, {}, s};
    for (const std::size_t cell : series.cells(s)) {
      const RunResult& run = result.cells[cell].runs.front();
      f.x.title = run.load ? "load: rate over maximum rate" : "requests per second";
      line.x.push_back(run.load ? *run.load : run.rate.value_or(kUnknown));
      line.y.push_back(mean_or_unknown(result.cells[cell], metric));
    }
    f.lines.push_back(std::move(line));
  }
  return f;
}

Figure distribution(const Series& series, const ExperimentResult& result,
                    report::LatencySketch CellResult::* sketch, std::string_view what) {
  Figure f;
  f.title = fmt::format("{}: share of requests below{}", what, series.last_rate());
  f.description = "Cumulative distribution over all seeds, behind the warm-up.";
  f.x = {fmt::format("{}, logarithmic", what), true};
  f.y = {"share of requests", false};
  for (std::size_t s = 0; s < std::min(series.size(), kSeriesMax); ++s) {
    const report::LatencySketch& values = result.cells[series.last(s)].*sketch;
    if (values.count() == 0) continue;
    FigureLine line{series.name(s), {}, {}, s};
    for (int i = 0; i <= 100; ++i) {
      const double p = std::clamp(0.01 * i, 0.001, 0.999);
      line.x.push_back(values.quantile(p));
      line.y.push_back(p);
    }
    f.lines.push_back(std::move(line));
  }
  return f;
}

Figure slow_down_by_class(const Series& series, const ExperimentResult& result) {
  Figure f;
  f.title = "Who pays: slow-down by length of the answer" + series.last_rate();
  f.description = "Mean time in the system over the time alone on an idle engine.";
  f.x = {"answers by length", false};
  f.y = {"slow-down, logarithmic", true};
  f.bars.edges = {0, 1, 2, 3, 4, 5};
  for (const std::string_view name : kLengthClasses) f.bars.categories.emplace_back(name);
  constexpr std::array kMetrics = {"shortest_quarter.slow_down", "second_quarter.slow_down",
                                   "third_quarter.slow_down", "75_to_95.slow_down",
                                   "longest_5.slow_down"};
  for (std::size_t s = 0; s < std::min(series.size(), kSeriesMax); ++s) {
    FigureLine line{series.name(s), {}, {}, s};
    for (std::size_t c = 0; c < kMetrics.size(); ++c) {
      line.x.push_back(static_cast<double>(c) + 0.5);
      line.y.push_back(mean_or_unknown(result.cells[series.last(s)], kMetrics[c]));
    }
    f.lines.push_back(std::move(line));
  }
  return f;
}

Figure lengths_figure(const WorkloadFacts& facts) {
  Figure f;
  f.title = "Lengths that came";
  f.description = "Answers by their length, first seed.";
  f.x = {"tokens, logarithmic", true};
  f.y = {"requests", false};
  f.bars.label = "requests";
  for (const auto& [least, count] : facts.histogram) {
    // Bins without a request are not listed.
    if (!f.bars.edges.empty() && f.bars.edges.back() < static_cast<double>(least)) {
      f.bars.edges.push_back(static_cast<double>(least));
      f.bars.heights.push_back(0);
    }
    if (f.bars.edges.empty()) f.bars.edges.push_back(static_cast<double>(least));
    const std::size_t row = HeatCounts::row_of(least);
    f.bars.edges.push_back(static_cast<double>(HeatCounts::least_of(row + 1)));
    f.bars.heights.push_back(static_cast<double>(count));
  }
  return f;
}

std::vector<report::HeatMap> heat_maps(const Series& series, const ExperimentResult& result) {
  // One scale for all, so that they can be compared.
  std::vector<HeatCounts> all;
  double widest = 0;
  for (std::size_t s = 0; s < std::min(series.size(), kSeriesMax); ++s) {
    all.push_back(result.cells[series.last(s)].heat);
    widest = std::max(widest, all.back().column_seconds());
  }
  std::size_t rows = 1;
  std::size_t columns = 1;
  std::uint64_t darkest = 1;
  for (HeatCounts& counts : all) {
    counts.widen_to(widest);
    for (std::size_t r = 0; r < HeatCounts::kRows; ++r) {
      for (std::size_t c = 0; c < HeatCounts::kColumns; ++c) {
        if (counts.at(r, c) == 0) continue;
        rows = std::max(rows, r + 1);
        columns = std::max(columns, c + 1);
        darkest = std::max(darkest, counts.at(r, c));
      }
    }
  }
  std::vector<report::HeatMap> maps;
  for (std::size_t s = 0; s < all.size(); ++s) {
    report::HeatMap map;
    map.title = series.name(s);
    map.description = "How many answers of which length ended when, all seeds.";
    map.x_title = "seconds from the start to the answer's end";
    map.y_title = "answer's tokens";
    map.columns = columns;
    map.rows = rows;
    map.darkest = darkest;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) map.counts.push_back(all[s].at(r, c));
    }
    for (std::size_t r = 1; r < rows; r += 4) {
      map.y_ticks.emplace_back(static_cast<double>(r), std::to_string(HeatCounts::least_of(r)));
    }
    for (int i = 0; i <= 4; ++i) {
      const double at = static_cast<double>(columns) * i / 4;
      map.x_ticks.emplace_back(at, figure(at * widest));
    }
    maps.push_back(std::move(map));
  }
  return maps;
}

void add_opening(report::HtmlPage& page, const Experiment& experiment,
                 const ExperimentResult& result) {
  page.add_paragraph(fmt::format(
      "{} combinations, {} seeds each. Latencies leave out the first {:.0f} % of the requests. "
      "tailrace simulate wrote this page; docs/simulate.md explains every number.",
      experiment.cells.size(), experiment.seeds.size(), 100 * experiment.warm_up));
  for (const Capacity& capacity : result.capacities) {
    page.add_paragraph(fmt::format(
        "Maximum rate: {} requests a second, measured with {} requests that came at once and were "
        "served in arrival order.",
        figure(capacity.per_second), capacity.requests));
  }
}

/// What ran, so that the page can be understood, and run again, without its file.
void add_settings(report::HtmlPage& page, const Experiment& experiment) {
  using Align = report::Table::Align;
  page.add_heading("Settings in force");
  report::Table shared({{"key", Align::kLeft}, {"value", Align::kLeft}});
  for (const auto& [key, value] : experiment.settings) {
    shared.add_row({report::ascii_cell(key), value.empty() ? "-" : report::ascii_cell(value)});
  }
  page.add_table(shared);
  report::Table own(
      {{"combination", Align::kLeft}, {"key", Align::kLeft}, {"value", Align::kLeft}});
  std::size_t rows = 0;
  for (const Cell& cell : experiment.cells) {
    for (const auto& [key, value] : cell.settings) {
      if (++rows > kSettingsShownMax) continue;
      own.add_row({report::ascii_cell(experiment.label(cell)), report::ascii_cell(key),
                   value.empty() ? "-" : report::ascii_cell(value)});
    }
  }
  if (rows == 0) return;
  page.add_paragraph(
      rows <= kSettingsShownMax
          ? std::string("What varies:")
          : fmt::format("What varies, the first {} of {} values; tailrace simulate --json has all:",
                        kSettingsShownMax, rows));
  page.add_table(own);
}

}  // namespace

std::string to_html(const Experiment& experiment, const ExperimentResult& result) {
  const Series series(experiment);
  report::HtmlPage page(experiment.name);
  add_opening(page, experiment, result);
  page.add_heading("Look here first: the lengths");
  const WorkloadFacts& facts = result.cells.front().facts;
  if (facts.requests == 0) {
    page.add_paragraph("No request came.");
  } else {
    page.add_paragraph(fmt::format(
        "Mean {}, P10 {}, median {}, P90 {}, P99 {} tokens; {:.1f} % were cut at their "
        "cap. Where all "
        "answers are cut at one length, or hardly differ, there is nothing to schedule.",
        figure(facts.mean_length), figure(facts.p10), figure(facts.p50), figure(facts.p90),
        figure(facts.p99), 100 * facts.at_cap));
  }
  if (facts.dropped > 0) {
    page.add_paragraph(
        fmt::format("{} rows of the trace had no answer and were left out.", facts.dropped));
  }
  page.add_figures({lengths_figure(facts)});
  page.add_heading("Results");
  page.add_table(cells_table(experiment, result));
  if (const auto ratios = ratios_table(experiment, result)) {
    const Dimension& compared = experiment.dimensions[*experiment.compared];
    page.add_paragraph(fmt::format("Ratios to {} {}, paired by seed, with 95 % intervals:",
                                   compared.name, compared.labels[experiment.baseline]));
    page.add_table(*ratios);
  }
  if (series.size() > kSeriesMax) {
    page.add_paragraph(
        fmt::format("Figures show the first {} of {} arms.", kSeriesMax, series.size()));
  }
  if (series.over_rates()) {
    page.add_heading("Latency against load");
    page.add_figures({against_rate(series, result, "per_token_s.mean", "mean seconds per token"),
                      against_rate(series, result, "ttft_s.mean", "mean seconds to first token"),
                      against_rate(series, result, "e2e_s.mean", "mean seconds end to end")});
  }
  page.add_heading("Distributions");
  page.add_figures({distribution(series, result, &CellResult::per_token, "seconds per token"),
                    distribution(series, result, &CellResult::ttft, "seconds to the first token"),
                    distribution(series, result, &CellResult::e2e, "seconds end to end")});
  page.add_heading("Who is served when: length of the answer and time of its end");
  page.add_heat_maps(heat_maps(series, result));
  page.add_heading("Who pays");
  page.add_figures({slow_down_by_class(series, result)});
  if (const auto predictions = predictions_table(experiment, result)) {
    page.add_heading("Predictions");
    page.add_paragraph(
        "Kendall's tau of predicted medians and lengths; share of the lengths that lie within "
        "their laws' central intervals. Laws that know what they do not know have 0.5 and 0.9.");
    page.add_table(*predictions);
  }
  page.add_heading("Starvation, preemption, memory");
  page.add_table(fairness_table(experiment, result));
  add_settings(page, experiment);
  return page.text();
}

}  // namespace tailrace::simulate
