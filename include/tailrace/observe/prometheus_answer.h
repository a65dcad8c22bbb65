// What did a Prometheus server answer to a query?
//
// Reads the JSON of /api/v1/query and /api/v1/query_range, as Prometheus, Thanos, Mimir and
// VictoriaMetrics write it. An empty answer is no series: never a zero. A series that cannot be
// read is a problem, and the rest is used.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/observe/series.h"

namespace tailrace::observe {

struct PrometheusAnswerLimits {
  std::size_t series_max = 200'000;
  std::size_t points_max = 10'000'000;  ///< over all series
  std::size_t problems_max = 10;        ///< the last one counts those beyond
};

struct PrometheusAnswer {
  enum class Kind { kVector, kMatrix, kScalar, kString };
  Kind kind = Kind::kVector;
  /// In the order of the answer. A scalar is one series without a name; a vector's have one point
  /// each. A series whose name an expression has removed has an empty one.
  std::vector<Series> series;
  std::string text;  ///< of a kString
  /// What the server itself warns of: partial answers among others.
  std::vector<std::string> warnings;
  std::vector<std::string> problems;  ///< parts that could not be read, one sentence each
};

/// Errors: kInvalidArgument when the server refuses the query as wrong, kUnavailable when it says
/// that it could not do it (time-out, overload), kDataLoss for what is no such answer: HTML, JSON
/// that is cut, a wrong type.
Result<PrometheusAnswer> parse_prometheus_answer(std::string_view body,
                                                 const PrometheusAnswerLimits& limits = {});

}  // namespace tailrace::observe
