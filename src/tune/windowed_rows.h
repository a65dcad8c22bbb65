// Which of the reported numbers can teach, and which operating points are worth keeping?
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tailrace/tune/observation.h"
#include "tune/windowed_state.h"

namespace tailrace::tune {

struct Intake {
  std::vector<Row> rows;                     ///< at most kRowsInCycle
  std::optional<queueing::Workload> latest;  ///< mean over the pods that report lengths
  std::string why;                           ///< what was left out, if anything
};

/// Turns a cycle's reports into rows, in an order of its own, and leaves out what is missing, zero,
/// not a number, out of range, stale (time or numbers of this pod's last report once more) or
/// saturated. Updates what `state` knows of the pods.
Intake take_in(std::span<const Observation> cycle, const queueing::ServiceModel& model,
               WindowedState& state);

/// Into the row at nearly the same operating point, as a mean by what both are worth, the old one
/// at most nine times the new; else as a row of its own. `width` 1: rates within 5 %, lengths 10 %.
void merge_into(std::vector<Row>& rows, Row row, double width);

/// Drops the rows that tell least about the parameters, until `most` are left.
void keep_what_tells_most(std::vector<Row>& rows, const Matrix3& covariance, std::int64_t now,
                          std::size_t most);

/// Largest less smallest logarithm.
struct Spread {
  double rate = 0, lengths = 0;
};
Spread spread_of(std::span<const Row> rows);

}  // namespace tailrace::tune
