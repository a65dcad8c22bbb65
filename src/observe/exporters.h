// Which process said which series?
//
// Series are put together by the process that exported them: namespace, pod and instance as a
// scraper labels them. Labels of scraping itself are taken off, so that a process that two jobs or
// two Prometheus servers scrape says everything once.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "observe/series_history.h"
#include "tailrace/observe/observer.h"

namespace tailrace::observe {

/// Where a series came from; any of them may be empty.
struct Origin {
  std::string ns, pod, instance;

  std::string host() const;  ///< of the instance
  std::string port() const;
  /// What people call it: the pod, else the instance.
  const std::string& name() const { return pod.empty() ? instance : pod; }
  friend auto operator<=>(const Origin&, const Origin&) = default;
};
Origin origin_of(const Labels& labels);

/// A series of an exporter: what is its own of the labels, and what it said.
struct Said {
  Labels labels;
  const Track* track = nullptr;

  std::string_view label(std::string_view name) const;
};

struct Exporter {
  Origin origin;
  std::string variant;  ///< label llm_d_ai_variant
  std::optional<EngineKind> engine;
  bool gateway = false;  ///< says something that a gateway says
  std::set<std::string, std::less<>> models;
  std::map<std::string, std::vector<Said>, std::less<>> said;  ///< by name of the series
  double newest_s = 0;
  double began_s = -HUGE_VAL;  ///< the newest sign of a restart; −infinity: none was seen

  const std::vector<Said>& named(std::string_view name) const;  ///< empty where there are none
  /// process_start_time_seconds
  std::span<const Point> starts() const;
};

/// By origin. `history` must outlive them.
std::vector<Exporter> exporters_of(const SeriesHistory& history);

/// Which engine's series this is, by its prefix.
std::optional<EngineKind> engine_of(std::string_view series_name);

}  // namespace tailrace::observe
