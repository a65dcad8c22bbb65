// Which tables do a terminal and a page both show of an experiment?
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/report/table.h"
#include "tailrace/simulate/experiment_run.h"

namespace tailrace::simulate {

/// One row a cell: its labels, its rate, the metrics that matter most, and the verdict.
report::Table cells_table(const Experiment& experiment, const ExperimentResult& result);
/// One row for each cell that has a baseline; nothing if none has.
std::optional<report::Table> ratios_table(const Experiment& experiment,
                                          const ExperimentResult& result);
/// One row a cell: starvation, preemption, memory.
report::Table fairness_table(const Experiment& experiment, const ExperimentResult& result);

/// What a reader of a cell must know: a predictor that foretold nothing of many requests, a load
/// that is not the one asked for.
std::vector<std::string> notes(const Experiment& experiment, const ExperimentResult& result,
                               std::size_t cell);

/// One row for each cell whose requests had laws: how well these foretold lengths; nothing if none.
std::optional<report::Table> predictions_table(const Experiment& experiment,
                                               const ExperimentResult& result);

/// A metric that exists: naming another is a failed check.
const Metric& metric_named(std::string_view name);

}  // namespace tailrace::simulate
