// How is an experiment's outcome shown to people and to programs?
#pragma once

#include <string>

#include "tailrace/simulate/experiment_run.h"

namespace tailrace::simulate {

/// One JSON document; docs/simulate.md explains its fields. Unknown is null.
std::string to_json(const Experiment& experiment, const ExperimentResult& result);
/// A table of the cells, and one of each against its baseline. ASCII.
std::string to_text(const Experiment& experiment, const ExperimentResult& result);
/// One self-contained page: tables, figures, no script, nothing from elsewhere. Figures of single
/// cells show the last rate of the grid, and eight arms at most.
std::string to_html(const Experiment& experiment, const ExperimentResult& result);

}  // namespace tailrace::simulate
