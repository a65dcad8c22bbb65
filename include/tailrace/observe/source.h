// Where do metrics come from, and which of them did not come?
//
// A Source fetches once when asked and answers exactly once, within its own time-out: what came,
// and what is wrong with the rest. Loop thread only. Two exist: a Prometheus server's HTTP API, and
// scraping the exporters themselves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tailrace/core/unique_function.h"
#include "tailrace/net/stream.h"
#include "tailrace/observe/series.h"

namespace tailrace::observe {

/// An exporter to read directly. `labels` are added to each of its series where it has none of that
/// name, as a Prometheus server adds those of a target.
struct ScrapeTarget {
  std::string name;  ///< for people: "llm/llama-7c9f:8000"
  net::Url url;      ///< `prefix` is the whole path: "/metrics"
  Labels labels;     ///< namespace, pod, …
};

/// What is wanted: each name with the recent past that rates need.
struct Wanted {
  std::vector<std::string> names;     ///< of series, suffixes included: "…_bucket"
  double window_s = 120;              ///< of history, where the source has one
  std::vector<ScrapeTarget> targets;  ///< for direct scraping; a Prometheus server knows its own
};

/// Something that could not be read: a target, a query, the whole server.
struct SourceProblem {
  std::string subject;  ///< target or query
  std::string message;  ///< one sentence with the remedy
};

struct Fetched {
  std::vector<Series> series;
  std::vector<SourceProblem> problems;
  /// Nothing at all could be read: what is known stays what it was, and gets older.
  bool failed = false;
  /// Exporters that answered, and those that did not, where the source can tell.
  std::vector<std::string> reached, missed;
};

class Source {
 public:
  virtual ~Source() = default;  ///< cancels what is under way; `done` then never runs
  /// One fetch at a time. `now_s`: the caller's calendar.
  virtual void fetch(double now_s, const Wanted& wanted, UniqueFunction<void(Fetched)> done) = 0;
};

}  // namespace tailrace::observe
