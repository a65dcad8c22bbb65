// What does an exporter's page say?
//
// Reads the two texts that exporters write: Prometheus text exposition 0.0.4 and OpenMetrics 1.0.
// A line that cannot be read is a problem with its number, and the rest is used; nothing broken
// becomes a number. Memory is bounded by what is wanted and by the limits, whatever comes.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/observe/series.h"

namespace tailrace::observe {

enum class ExpositionFormat { kPrometheusText, kOpenMetrics };

/// What "# TYPE" says of a family; kUnknown is "untyped" in the older text.
enum class MetricType {
  kUnknown,
  kCounter,
  kGauge,
  kHistogram,
  kGaugeHistogram,
  kSummary,
  kInfo,
  kStateSet
};

struct ExpositionOptions {
  ExpositionFormat format = ExpositionFormat::kPrometheusText;
  /// Of points that carry no time of their own, in Unix seconds.
  double time_s = 0;
  /// The names of series to keep, suffixes included. Null: all. Borrowed for the call.
  const std::set<std::string, std::less<>>* only = nullptr;
  std::size_t series_max = 200'000;
  std::size_t labels_max = 64;            ///< of one series
  std::size_t line_bytes_max = 64 << 10;  ///< a longer line is a problem
  std::size_t problems_max = 10;          ///< further ones are only counted
};

struct LineProblem {
  std::size_t line = 0;  ///< from 1
  std::string message;
};

struct Exposition {
  std::vector<Series> series;  ///< as they came; labels with an empty value are left out
  /// Of the families that have a wanted series, by the family's name.
  std::map<std::string, MetricType> types;
  std::vector<LineProblem> problems;
  std::size_t problems_left_out = 0;  ///< beyond problems_max
  std::size_t samples = 0;            ///< lines that were read, wanted or not
};

/// A series that comes twice keeps its first point, unless the later ones carry later times of
/// their own. Exemplars are skipped. Text behind the last line end is a problem, since it may be
/// cut, and so is OpenMetrics text without "# EOF".
Exposition parse_exposition(std::string_view text, const ExpositionOptions& options);

}  // namespace tailrace::observe
