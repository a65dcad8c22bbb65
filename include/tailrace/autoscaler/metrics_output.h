// What does the autoscaler tell a monitoring system, and a HorizontalPodAutoscaler that reads it?
//
// After each cycle the whole page is made anew from its record: what has vanished is gone, what is
// not known is absent and never 0, and what is held keeps its value. Only who leads says how many
// replicas are wanted, since scalers add up what several say. `wva_*` series have the names and
// labels of the workload-variant-autoscaler. Every series stands in one catalogue, which
// docs/autoscaler-exports.md is generated from. One thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tailrace/autoscaler/brain.h"
#include "tailrace/core/metric_catalogue.h"

namespace tailrace::autoscaler {

struct MetricsOutputConfig {
  bool wva_names = true;
  std::string controller_instance;    ///< a label of wva_* gauges where not empty
  std::string version;                ///< of the program
  double interval_s = 15;             ///< between cycles
  std::size_t variants_max = 10'000;  ///< that have series; further ones are counted only
};

/// What is known of a cycle besides its record.
struct CycleFacts {
  bool leads = true;
  std::optional<bool> elected;  ///< empty: there is no election
  double duration_s = 0;
  double collect_s = 0;  ///< of it: until everything was collected
  /// What went wrong: who says so, and the kind ("trouble", "order").
  std::vector<std::pair<std::string, std::string>> errors;
  /// What was decided from, for the age of data; null: not kept.
  const Snapshot* snapshot = nullptr;
};

std::span<const core::MetricInfo> series_catalogue();
/// docs/autoscaler-exports.md.
std::string autoscaler_metrics_reference();

class MetricsOutput {
 public:
  explicit MetricsOutput(MetricsOutputConfig config);
  MetricsOutput(MetricsOutput&&) noexcept;
  MetricsOutput& operator=(MetricsOutput&&) noexcept;
  ~MetricsOutput();

  void record(const CycleRecord& record, const CycleFacts& facts);
  /// In Prometheus' text format 0.0.4; before the first cycle, what needs none.
  std::string expose() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tailrace::autoscaler
