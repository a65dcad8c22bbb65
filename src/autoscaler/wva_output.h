// What do scalers, dashboards and alerts find that were made for the workload-variant-autoscaler?
//
// Its series with its names, labels and types, each with a value of ours that means the same. What
// has no meaning here is not exported (docs/autoscaler-exports.md says which and why); what is not
// known is absent.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autoscaler/metrics_page.h"
#include "tailrace/autoscaler/metrics_output.h"

namespace tailrace::autoscaler {

/// The rule that set the number: the last one that changed it.
std::string rule_of(const capacity::Decision& decision);

class WvaOutput {
 public:
  WvaOutput(std::string controller_instance, double interval_s)
      : instance_(std::move(controller_instance)), interval_s_(interval_s) {}

  void record(const CycleRecord& record, const CycleFacts& facts);
  /// What is known without leading.
  void counters(Page& page) const;
  /// Of the latest cycle that decided.
  void fleet(Page& page) const;
  void decision(Page& page, const capacity::Decision& decision) const;
  void variant(Page& page, const capacity::ModelAnalysis& model,
               const capacity::VariantCapacity& variant) const;

 private:
  using Names = std::pair<std::string, std::string>;
  enum Freshness : std::size_t { kFresh, kStale, kMissing, kStates };

  Labels own(Labels labels) const;  ///< and whose they are, where that is configured
  void count(const CycleRecord& record);
  void look(const CycleRecord& record, const Snapshot& snapshot);

  std::string instance_;
  double interval_s_;
  // Counters outlive the cycle that moved them; those of a variant go with it.
  std::map<Names, std::map<Names, double>> scalings_;  ///< (namespace, variant) → (up, reason)
  std::map<Names, double> limited_;
  std::map<std::string, double> enforced_, unmapped_;
  std::map<Names, double> errors_;  ///< (component, kind)
  double collection_errors_ = 0;
  static constexpr std::array kCycleBounds{0.01, 0.025, 0.05, 0.1,  0.25, 0.5,
                                           1.0,  2.5,   5.0,  10.0, 30.0, 60.0};
  static constexpr std::array kCollectBounds{0.001, 0.005, 0.01, 0.025, 0.05,
                                             0.1,   0.25,  0.5,  1.0,   2.5};
  Histogram succeeded_{kCycleBounds}, failed_{kCycleBounds}, collected_{kCollectBounds};
  // The latest cycle that decided.
  std::optional<InForce> in_force_;
  std::size_t models_ = 0;
  std::map<std::string, double> pods_;                      ///< by namespace
  std::map<std::string, std::array<double, kStates>> age_;  ///< by variant: pods
  std::map<std::pair<capacity::ModelKey, std::string>, KvUse> kv_;
  std::optional<bool> nodes_read_;
  std::map<std::string, double> free_gpus_;  ///< of the latest cycle that could read nodes
  std::map<std::string, std::string> vendors_;
};

}  // namespace tailrace::autoscaler
