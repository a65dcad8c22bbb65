// What runs, what was measured of it, and how do the two meet in one snapshot?
//
// A Roster knows which variants there are and how many replicas serve: the processes of this
// machine, or a cluster's objects. A SnapshotCollector asks it, fetches metrics for what it names,
// reads them, and joins both. Where the roster cannot tell the replicas of anything the snapshot is
// blind; where the metrics' source fails, replicas are known and what they do is not. Loop thread
// only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/autoscaler/config.h"
#include "tailrace/autoscaler/model_states.h"
#include "tailrace/autoscaler/process_actuator.h"
#include "tailrace/autoscaler/world.h"
#include "tailrace/kubernetes/discovery.h"
#include "tailrace/observe/observer.h"
#include "tailrace/observe/source.h"

namespace tailrace::autoscaler {

/// What a roster knows now.
struct Known {
  std::vector<KnownVariant> variants;
  std::vector<observe::ScrapeTarget> targets;  ///< exporters of their pods, and of gateways
  std::vector<observe::Condition> conditions;
  std::optional<ClusterGpus> gpus;   ///< empty: no cluster
  std::optional<std::string> blind;  ///< why nothing is known
};

class Roster {
 public:
  virtual ~Roster() = default;
  virtual void look(double now_s, UniqueFunction<void(Known)> done) = 0;
};

/// The variants of `config` (platform machine). `replicas` says which processes there are.
std::unique_ptr<Roster> machine_roster(const Config& config,
                                       const std::function<std::vector<ReplicaStatus>()>& replicas);
/// A cluster's; `discovery` must outlive it. `seen` gets what was found, before anything is decided
/// from it.
std::unique_ptr<Roster> cluster_roster(kubernetes::Discovery& discovery, const Config& config,
                                       std::function<void(const kubernetes::Inventory&)> seen);

class SnapshotCollector final : public Collector {
 public:
  /// Roster and source must outlive it.
  SnapshotCollector(Roster& roster, observe::Source& source, const observe::ObserverConfig& config);
  ~SnapshotCollector() override;
  void collect(double now_s, UniqueFunction<void(Snapshot)> done) override;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Windows and ages of `config`.
observe::ObserverConfig observer_config(const Config& config);

}  // namespace tailrace::autoscaler
