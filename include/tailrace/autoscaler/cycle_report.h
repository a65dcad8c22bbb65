// What happened in one cycle, from what was seen to what was done?
//
// One structure and its JSON: the decision log has a line for each decision, history and the
// listener have whole cycles.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tailrace/autoscaler/brain.h"

namespace tailrace::autoscaler {

/// Something that an operator should know of; not about a metric.
struct Trouble {
  std::string subject;  ///< "settings", "journal", "collector", …
  std::string message;  ///< one sentence with the remedy
};

/// What became of an order: each actuator's word on it.
struct OrderResult {
  bool done = false;  ///< all of them did it
  std::map<std::string, Outcome> by_actuator;

  std::string message() const;  ///< "processes: started 2; keda: …"
};

struct CycleReport {
  CycleRecord record;
  bool leads = true;
  std::string leader;  ///< who does; "": unknown
  bool dry_run = false;
  std::map<std::string, OrderResult> results;  ///< by order id
  std::vector<Trouble> troubles;
  double collect_s = 0, think_s = 0, apply_s = 0;  ///< how long each took
  std::shared_ptr<const Snapshot> snapshot;        ///< what it was decided from

  /// What went wrong: who says so, and the kind: "trouble", or "order" for one that was not done.
  std::vector<std::pair<std::string, std::string>> errors() const;
  std::uint64_t undecided() const;      ///< models whose replicas are held for want of knowledge
  std::uint64_t orders_failed() const;  ///< that some actuator did not carry out
  /// No decision could be taken of something: blind, or a model failed.
  bool failed() const { return record.blind.has_value() || record.result.any_failed(); }
  /// Some model's demand is above what it may have: a limit or an SLO that no rate keeps.
  bool slo_unreachable() const;
};

/// A line for each decision, in their order: id, inputs, parameters with their confidence, SLO and
/// source, what binds, reason, outcome. Without line ends.
std::vector<std::string> decision_lines(const CycleReport& report);
/// The same line with another outcome: for an order whose end was found out later. The line as it
/// was where it is none of ours.
std::string with_outcome(const std::string& line, bool done, const std::string& message);

/// The whole cycle as one JSON document.
std::string report_json(const CycleReport& report);

/// For people: a table of variants (current, pending, desired, why, what it waits for), then
/// conditions and what is wrong.
std::string report_table(const CycleReport& report);

}  // namespace tailrace::autoscaler
