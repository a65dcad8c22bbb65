// What does a cycle know, and who carries out what it decides?
//
// Collector and Actuator are the two sides of the control loop that touch the world: Kubernetes, a
// machine's own processes, a simulation. Both answer exactly once for each call, within their own
// time-outs; what they could not find out or do is in the answer. Loop thread only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/capacity/cycle.h"
#include "tailrace/core/unique_function.h"
#include "tailrace/observe/observer.h"

namespace tailrace::autoscaler {

/// Memory for context of all replicas of a variant, in tokens.
struct KvUse {
  capacity::ModelKey key;
  std::string variant;
  double used_tokens = 0, capacity_tokens = 0;
};

/// GPUs of a cluster's nodes, by kind, those in use included.
struct ClusterGpus {
  bool known = false;  ///< false: nodes could not be read, and the rest is empty
  std::map<std::string, std::int64_t> count;
  std::map<std::string, std::string> vendor;
};

/// All that one cycle decides from.
struct Snapshot {
  double time_s = 0;  ///< calendar
  std::vector<capacity::ModelState> models;
  std::optional<capacity::GpuLimits> limits;
  std::map<capacity::ModelKey, capacity::ZeroEvidence> zero;
  /// Empty where there is no cluster.
  std::optional<ClusterGpus> gpus;
  std::vector<KvUse> kv;  ///< of variants of which every replica says it
  std::map<std::string, std::size_t> unmatched_pods;  ///< by namespace: of no variant
  std::vector<observe::Condition> conditions;
  /// The replicas of nothing are known: no decision may be taken.
  std::optional<std::string> blind;
};

class Collector {
 public:
  virtual ~Collector() = default;
  virtual void collect(double now_s, UniqueFunction<void(Snapshot)> done) = 0;
};

/// One decision to carry out. `id` is unique and the same when a restarted loop asks again:
/// carrying it out twice must do no more than once.
struct Order {
  std::string id;
  capacity::Decision decision;
};

struct Outcome {
  std::string id;
  bool done = false;
  std::string message;  ///< what was done, or why not and what will be
};

class Actuator {
 public:
  virtual ~Actuator() = default;
  virtual std::string_view name() const = 0;
  /// Every decision of a cycle, holds included (gauges show them too); orders for the same target
  /// replace older ones.
  virtual void apply(std::vector<Order> orders,
                     UniqueFunction<void(std::vector<Outcome>)> done) = 0;
};

}  // namespace tailrace::autoscaler
