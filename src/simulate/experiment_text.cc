#include <fmt/format.h>

#include "simulate/experiment_tables.h"
#include "simulate/order_place.h"
#include "tailrace/core/printable.h"
#include "tailrace/simulate/experiment_report.h"

namespace tailrace::simulate {
namespace {

using report::figure;

std::string lengths_text(const ExperimentResult& result) {
  const WorkloadFacts& f = result.cells.front().facts;
  if (f.requests == 0) return "lengths: unknown, no request came\n";
  std::string text = fmt::format(
      "lengths: mean {}, P10 {}, P50 {}, P90 {}, P99 {}, {:.1f} % at their cap; {} requests\n",
      figure(f.mean_length), figure(f.p10), figure(f.p50), figure(f.p90), figure(f.p99),
      100 * f.at_cap, f.requests);
  if (f.dropped > 0) text += fmt::format("trace: left out {} rows without an answer\n", f.dropped);
  return text;
}

/// What would be missed, or misunderstood, in the tables.
std::string notes_text(const Experiment& experiment, const ExperimentResult& result) {
  std::string text;
  for (std::size_t i = 0; i < result.cells.size(); ++i) {
    for (const std::string& note : notes(experiment, result, i)) {
      text += fmt::format("warning: {}: {}\n",
                          core::printable(experiment.label(experiment.cells[i])), note);
    }
  }
  return text;
}

}  // namespace

std::string to_text(const Experiment& experiment, const ExperimentResult& result) {
  std::string text = lengths_text(result);
  for (const Capacity& capacity : result.capacities) {
    text += fmt::format("maximum rate: {} requests/s ({} at once, in arrival order)\n",
                        figure(capacity.per_second), capacity.requests);
  }
  text += order_text(experiment);
  text += notes_text(experiment, result);
  text += "\n" + cells_table(experiment, result).text();
  if (const auto ratios = ratios_table(experiment, result)) {
    const Dimension& compared = experiment.dimensions[*experiment.compared];
    text += fmt::format("\nRatios to {} {}, same seeds{}\n\n{}", core::printable(compared.name),
                        core::printable(compared.labels[experiment.baseline]),
                        experiment.seeds.size() > 1 ? " (95 % interval)" : "", ratios->text());
  }
  if (const auto predictions = predictions_table(experiment, result)) {
    text += fmt::format(
        "\nPredictions: order of lengths, and share of them in the laws' "
        "intervals\n\n{}",
        predictions->text());
  }
  return text;
}

}  // namespace tailrace::simulate
