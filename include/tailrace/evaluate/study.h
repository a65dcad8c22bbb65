// What does one call of `tailrace evaluate` ask for, and what comes of it?
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/evaluate/poison.h"
#include "tailrace/evaluate/set_report.h"

namespace tailrace::evaluate {

struct StudyOptions {
  std::vector<std::string> inputs;      ///< files or folders, each a set of its own
  std::vector<std::string> predictors;  ///< names of contestants; empty: all
  ReadOptions read;
  bool together = false;    ///< all inputs as one stream
  bool in_order = false;    ///< as the rows stand in the files, else shuffled by the seed
  std::size_t answers = 0;  ///< at most so many rows of each prompt and model; 0: all
  std::size_t skip = 0;     ///< rows learned before scoring begins
  std::uint64_t seed = 1;
  std::optional<LeaveOneOutOptions> leave_one_out;  ///< its seed and progress are set by the study
  std::vector<std::string> poisons;                 ///< names of attacks; "all" stands for each
  double poison_share = 0.3;                        ///< of the attacker's rows, above 0 to 0.9
  // Measured at the edge, so that without them the same call gives the same bytes.
  std::function<double()> cpu_seconds;
  std::function<double()> heap_bytes;
  /// What is being done, and how far it is.
  std::function<void(std::string_view what, std::size_t done, std::size_t of)> progress;
};

/// Predictors that learn (no oracles, no mere orders) take part in leaving models out and in
/// attacks; where none is named, the online predictor alone. Errors: those of read_rows and
/// leave_one_model_out; kInvalidArgument naming an option.
Result<std::vector<SetReport>> run_study(const StudyOptions& options);

}  // namespace tailrace::evaluate
