// What was measured, of whom, and when?
//
// One representation for what a Prometheus server answers and for what an engine's own /metrics
// says: named, labelled series of points. Times are Unix seconds. Nothing here knows what a name
// means.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tailrace::observe {

using Labels = std::map<std::string, std::string>;

/// What makes two series the same: name and all labels.
struct SeriesKey {
  std::string name;  ///< "vllm:num_requests_running"
  Labels labels;

  friend auto operator<=>(const SeriesKey&, const SeriesKey&) = default;
};

struct Point {
  double time_s = 0;  ///< when the exporter was read
  double value = 0;   ///< any double: NaN and infinities come as the exporter wrote them
};

struct Series {
  SeriesKey key;
  std::vector<Point> points;  ///< by rising time
};

}  // namespace tailrace::observe
