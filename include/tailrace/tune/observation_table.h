// Which cycles of observations do the rows of a recording make?
//
// Rows as a table names them: a header, then cells, rows of one time one after the other. Reading
// the file is the caller's: a row at a time comes in, a cycle at a time comes out, and memory is
// one cycle. Not for two threads at once.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/tune/observation.h"

namespace tailrace::tune {

/// What the pods of one variant reported at one time, in the order of the rows.
using Cycle = std::vector<Observation>;

class ObservationTable {
 public:
  static constexpr std::size_t kCycleRowsMax = 100'000;
  static constexpr std::size_t kPodBytesMax = 1'024;

  /// `header`: time_s, pod, rate, input, output, ttft_ms, itl_ms, and any of running, requests,
  /// output_cv, input_cv, prefix_hit, waiting, itl_per_sequence_ms,
  /// itl_per_sequence_error; in any order. Errors: kInvalidArgument naming a
  /// column that is missing, unknown or there twice.
  static Result<ObservationTable> open(std::span<const std::string> header);

  /// Takes the next row, one cell for each column. Returns the cycle that it ends, if its time is
  /// later than that of the rows before. An empty cell or NaN is a missing number. Errors:
  /// kInvalidArgument naming column and value for a cell that is no number, a time that is missing
  /// or goes back, a pod's name that is too long; kResourceExhausted for a cycle of too many rows.
  Result<std::optional<Cycle>> add(std::span<const std::string> cells);

  /// The last cycle, when there are no more rows; empty if there were none.
  Cycle finish() { return std::move(cycle_); }

 private:
  /// For each column, its place among the known ones.
  std::vector<std::size_t> columns_;
  Cycle cycle_;
  std::set<std::string> pods_;  ///< that the cycle has a row of
};

}  // namespace tailrace::tune
