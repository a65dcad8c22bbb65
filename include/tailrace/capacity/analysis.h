// What can each variant of a model take, and is that too little or too much?
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/capacity/forecast.h"
#include "tailrace/capacity/variant.h"
#include "tailrace/queueing/sizing.h"
#include "tailrace/tune/estimator.h"

namespace tailrace::capacity {

enum class SloSource { kNone, kExplicit, kInferred, kObserved };
std::string_view to_string(SloSource source);

struct SloTarget {
  queueing::Targets targets;
  SloSource source = SloSource::kNone;
  std::string reason;  ///< where the numbers come from, for people
};

/// What is known of a variant's capacity. It decides whether its replicas may go, and whether the
/// others' may: what is unknown stays, and keeps the rest of its model from shrinking.
enum class Evidence {
  kUnknown,      ///< nothing usable reported, or no parameters yet
  kIdle,         ///< its pods report, and by every signal none has traffic; capacity not known
  kUnreachable,  ///< analysed: no rate keeps the SLO
  kSized,        ///< per_replica_per_s holds
};
std::string_view to_string(Evidence evidence);

/// One variant's part of an analysis. A variant that could not be analysed keeps its place, with
/// zero capacity and the reason (specification 4.4).
struct VariantCapacity {
  std::string name, accelerator;
  double cost = 10;
  int gpus_per_replica = 1;
  Role role = Role::kBoth;
  std::int64_t current = 0, pending = 0, min = 0;
  std::optional<std::int64_t> max;
  double per_replica_per_s = 0;  ///< 0: placeholder
  double total_per_s = 0;        ///< of current + pending replicas
  double demand_per_s = 0;       ///< arriving, and what its backlog adds
  double utilization = 0;
  Evidence evidence = Evidence::kUnknown;
  std::optional<std::string> failure;  ///< why it is a placeholder
  tune::ParameterEstimate parameters;
  std::optional<queueing::Sizing> sizing;
  std::optional<queueing::Workload> workload;  ///< per replica, of its busy pods
};

/// What one role of a model needs, where prefill and decode run on pods of their own.
struct RoleNeed {
  double demand_per_s = 0, backlog_per_s = 0;
  double required_per_s = 0, spare_per_s = 0;  ///< never both above 0
};

/// Required and spare are never both above 0.
struct ModelAnalysis {
  ModelKey key;
  double priority = 1;
  bool active = true;                  ///< false: no `default` entry; replicas are held
  std::optional<std::string> failure;  ///< every variant failed, or no SLO: no decision
  SloTarget slo;
  double supply_per_s = 0;           ///< of current + pending replicas
  double demand_per_s = 0;           ///< arriving, and what the backlog adds
  double backlog_per_s = 0;          ///< of demand_per_s: what only waits for capacity
  std::optional<Forecast> forecast;  ///< what demand_per_s is made of; empty: of what arrives now
  double required_per_s = 0, spare_per_s = 0;
  /// Where not empty, each role grows and shrinks by its own need, and the sums above are for
  /// people.
  std::map<Role, RoleNeed> roles;
  std::vector<VariantCapacity> variants;  ///< in the order of the input
  std::vector<std::string> notes;         ///< what was missing, or else counts; for people
};

/// False: no variant was understood and nobody else tells of demand, so its 0 (and that of supply)
/// says nothing.
bool demand_known(const ModelAnalysis& model);

}  // namespace tailrace::capacity
