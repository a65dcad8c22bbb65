// What does the windowed estimator remember from one cycle to the next, and how is it written down?
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/tune/estimator.h"
#include "tune/windowed_fit.h"

namespace tailrace::tune {

inline constexpr std::size_t kRowsMax =
    40;  ///< between cycles; a fit sees at most kRowsInCycle more
inline constexpr std::size_t kRowsInCycle = 24;
inline constexpr std::size_t kPodsMax = 1024;

/// What a pod reported last, to know a report that has stopped changing.
struct PodReport {
  std::uint64_t fingerprint = 0;
  std::int64_t cycle = 0;
  double time_s = 0;
  double waiting = 0;
  double rate_per_s = 0;
};

struct WindowedState {
  std::int64_t cycle = 0;
  std::vector<Row> rows;
  std::vector<Row> rejected;     ///< of the present run of rejections
  std::int64_t rejections = 0;   ///< cycles in a row
  int direction = 0;             ///< of that run: +1 slower than foretold, −1 faster
  std::vector<PriorTerm> prior;  ///< beside the ratios that hold for all engines
  std::optional<Vector3> parameters;
  Matrix3 covariance = Matrix3::Zero();
  Scales scales = kScalesExpected;
  std::int64_t learnt = 0;  ///< cycles accepted since the window was last dropped
  double holdout_sum = 0, holdout_weight = 0;  ///< squared errors, the newest count most
  std::map<std::uint64_t, PodReport> pods;     ///< by hash of the name
  double residence_share = 0;  ///< of an interval, that requests of the newest rows last
  std::optional<queueing::Workload> latest;  ///< lengths of the latest usable cycle
  ParameterEstimate estimate;
};

std::string to_json(const WindowedState& state);
/// Errors: kDataLoss saying what is wrong; kUnsupported for another version.
Result<WindowedState> windowed_state_from_json(std::string_view document);

}  // namespace tailrace::tune
