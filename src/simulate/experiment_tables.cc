#include "simulate/experiment_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tailrace/core/check.h"

namespace tailrace::simulate {
namespace {

using report::figure;
using report::Table;

struct Shown {
  std::string_view title;
  std::string_view metric;
};
constexpr Shown kColumns[] = {{"s/token", "per_token_s.mean"},
                              {"TTFT s", "ttft_s.mean"},
                              {"TTFT P99", "ttft_s.p99"},
                              {"e2e s", "e2e_s.mean"},
                              {"e2e P99", "e2e_s.p99"},
                              {"out tok/s", "output_tokens_per_s"},
                              {"preempt.", "preemptions_per_request"},
                              {"KV", "kv_share"}};
constexpr Shown kLost[] = {{"refused", "refused"}, {"unfinished", "unfinished"}};
constexpr Shown kRatios[] = {{"s/token", "per_token_s.mean"},
                             {"TTFT", "ttft_s.mean"},
                             {"e2e", "e2e_s.mean"},
                             {"e2e P99", "e2e_s.p99"},
                             {"longest 5 %", "longest_5.slow_down"},
                             {"out tok/s", "output_tokens_per_s"}};

constexpr Shown kFairness[] = {{"longest wait s", "wait_s.max"},
                               {"starved", "starved"},
                               {"shortest quarter", "shortest_quarter.slow_down"},
                               {"longest 5 %", "longest_5.slow_down"},
                               {"preempt. a request", "preemptions_per_request"},
                               {"recomputed tokens", "recomputed_tokens"},
                               {"KV held", "kv_share"},
                               {"engines busy", "utilisation"},
                               {"goodput", "goodput"}};

constexpr Shown kPredictions[] = {
    {"tau", "tau"}, {"within 50 %", "within_50"}, {"within 90 %", "within_90"}};

std::string ascii(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < 0x80 && c >= 0x20 ? c : '?';
  return out;
}

/// "0.123" or, of several seeds, "0.123 +-0.004", or the interval's ends where it was cut.
std::string with_error(const std::optional<report::Interval>& found) {
  if (!found) return "-";
  std::string text = figure(found->estimate);
  if (!std::isfinite(found->high)) return text;
  const double above = found->high - found->estimate;
  const double below = found->estimate - found->low;
  // Cut at one end: half of its width is not the whole truth.
  if (std::abs(above - below) > 1e-9 * (above + below)) {
    return text + fmt::format(" ({}-{})", figure(found->low, 2), figure(found->high, 2));
  }
  return text + " +-" + figure(above, 2);
}

/// "4.51 (4.30-4.72)".
std::string with_ends(const std::optional<report::Interval>& found) {
  if (!found) return "-";
  std::string text = figure(found->estimate);
  if (std::isfinite(found->low)) {
    text += fmt::format(" ({}-{})", figure(found->low), figure(found->high));
  }
  return text;
}

std::string load_of(const CellResult& cell) {
  const RunResult& run = cell.runs.front();
  if (!run.rate) return run.totals.offered > 1 ? "at once" : "-";
  std::string text = figure(*run.rate) + "/s";
  if (run.load) text += fmt::format(" = {:.2f}", *run.load);
  return text;
}

std::vector<Table::Column> label_columns(const Experiment& experiment) {
  std::vector<Table::Column> columns;
  for (const Dimension& dimension : experiment.dimensions) {
    columns.push_back({ascii(dimension.name), Table::Align::kLeft});
  }
  if (columns.empty()) columns.push_back({"experiment", Table::Align::kLeft});
  return columns;
}

std::vector<std::string> label_cells(const Experiment& experiment, std::size_t i) {
  std::vector<std::string> cells;
  for (std::size_t d = 0; d < experiment.dimensions.size(); ++d) {
    cells.push_back(ascii(experiment.dimensions[d].labels[experiment.cells[i].labels[d]]));
  }
  if (cells.empty()) cells.push_back(ascii(experiment.name));
  return cells;
}

}  // namespace

const Metric& metric_named(std::string_view name) {
  const auto all = metrics();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Metric& m) { return m.name == name; });
  TAILRACE_CHECK(found != all.end());
  return *found;
}

std::vector<std::string> notes(const Experiment& experiment, const ExperimentResult& result,
                               std::size_t cell) {
  constexpr double kFarLoad = 0.1;
  const Cell& asked = experiment.cells[cell];
  std::uint64_t offered = 0, foretold = 0;
  double load = 0;
  bool has_load = true;
  for (const RunResult& run : result.cells[cell].runs) {
    offered += run.totals.offered;
    foretold += run.foretold;
    load += run.load.value_or(0);
    has_load = has_load && run.load;
  }
  std::vector<std::string> said;
  if (asked.spec.predictor.kind != PredictorSpec::Kind::kNone && 2 * foretold < offered) {
    said.push_back(
        fmt::format("the predictor foretold {} of {} requests; the others were ordered "
                    "as without one",
                    foretold, offered));
  }
  load /= static_cast<double>(result.cells[cell].runs.size());
  if (asked.load && has_load && std::abs(load / *asked.load - 1) > kFarLoad) {
    said.push_back(
        fmt::format("load {:.2f} was asked for and {:.2f} came; docs/simulate.md says "
                    "why",
                    *asked.load, load));
  }
  return said;
}

report::Table cells_table(const Experiment& experiment, const ExperimentResult& result) {
  auto columns = label_columns(experiment);
  columns.push_back({"rate = load"});
  for (const Shown& shown : kColumns) columns.push_back({std::string(shown.title)});
  std::vector<Shown> lost;  // what is so nowhere needs no column
  for (const Shown& shown : kLost) {
    const Metric& metric = metric_named(shown.metric);
    const auto some = [&](const CellResult& cell) {
      return std::any_of(cell.runs.begin(), cell.runs.end(),
                         [&](const RunResult& run) { return metric.of(run).value_or(0) > 0; });
    };
    if (std::any_of(result.cells.begin(), result.cells.end(), some)) lost.push_back(shown);
  }
  for (const Shown& shown : lost) columns.push_back({std::string(shown.title)});
  columns.push_back({"verdict", Table::Align::kLeft});
  Table table(columns);
  for (std::size_t i = 0; i < result.cells.size(); ++i) {
    const CellResult& cell = result.cells[i];
    auto row = label_cells(experiment, i);
    row.push_back(load_of(cell));
    for (const Shown& shown : kColumns)
      row.push_back(with_error(cell.mean(metric_named(shown.metric))));
    for (const Shown& shown : lost)
      row.push_back(with_error(cell.mean(metric_named(shown.metric))));
    row.emplace_back(cell.verdict());
    table.add_row(std::move(row));
  }
  return table;
}

std::optional<report::Table> ratios_table(const Experiment& experiment,
                                          const ExperimentResult& result) {
  if (!experiment.compared) return std::nullopt;
  auto columns = label_columns(experiment);
  for (const Shown& shown : kRatios) columns.push_back({std::string(shown.title)});
  Table table(columns);
  for (std::size_t i = 0; i < result.cells.size(); ++i) {
    const auto baseline = experiment.baseline_of(i);
    if (!baseline) continue;
    auto row = label_cells(experiment, i);
    for (const Shown& shown : kRatios) {
      row.push_back(
          with_ends(ratio(result.cells[i], result.cells[*baseline], metric_named(shown.metric))));
    }
    table.add_row(std::move(row));
  }
  if (table.rows().empty()) return std::nullopt;
  return table;
}

report::Table fairness_table(const Experiment& experiment, const ExperimentResult& result) {
  auto columns = label_columns(experiment);
  for (const Shown& shown : kFairness) columns.push_back({std::string(shown.title)});
  Table table(columns);
  for (std::size_t i = 0; i < result.cells.size(); ++i) {
    auto row = label_cells(experiment, i);
    for (const Shown& shown : kFairness) {
      row.push_back(with_error(result.cells[i].mean(metric_named(shown.metric))));
    }
    table.add_row(std::move(row));
  }
  return table;
}

std::optional<report::Table> predictions_table(const Experiment& experiment,
                                               const ExperimentResult& result) {
  auto columns = label_columns(experiment);
  for (const Shown& shown : kPredictions) columns.push_back({std::string(shown.title)});
  Table table(columns);
  for (std::size_t i = 0; i < result.cells.size(); ++i) {
    const CellResult& cell = result.cells[i];
    if (!cell.mean(metric_named("tau")) && !cell.mean(metric_named("within_90"))) continue;
    auto row = label_cells(experiment, i);
    for (const Shown& shown : kPredictions) {
      row.push_back(with_error(cell.mean(metric_named(shown.metric))));
    }
    table.add_row(std::move(row));
  }
  if (table.rows().empty()) return std::nullopt;
  return table;
}

}  // namespace tailrace::simulate
