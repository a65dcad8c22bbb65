// How many replicas, and why?
//
// Rules change a decision one after the other: optimizer, stabilisation, bounds, scale to zero,
// limits. Each leaves a step behind, so that a decision can say how its number came about.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/capacity/analysis.h"

namespace tailrace::capacity {

enum class Action { kHold, kScaleUp, kScaleDown };
std::string_view to_string(Action action);

/// One step that changed (or could have changed) a target, in the order in which they happened:
/// "optimizer: cheapest per request/s, 2 for 12.3 requests/s", "max: 5 cut to 4", ….
struct DecisionStep {
  std::string rule;
  std::string text;
  std::int64_t before = 0, after = 0;
};

/// Who decides. A generation is one term of office: a new leader, or the same one again, has a
/// larger one.
struct Writer {
  std::string id;
  std::uint64_t generation = 0;

  friend bool operator==(const Writer&, const Writer&) = default;
};

struct Decision {
  ModelKey key;
  std::string variant, accelerator;
  std::int64_t desired = 0, current = 0, pending = 0;
  Action action = Action::kHold;  ///< `desired` beside observed()
  std::string reason;             ///< one sentence: what changed the number last, or why it stays
  std::string waits_for;          ///< of a decision that holds: what would move it; may be empty
  /// False where the cycle knew too little: the replicas are held, which recommends nothing.
  bool informed = true;
  Writer writer;
  std::vector<DecisionStep> steps;  ///< how `desired` came about

  /// Replicas that are there or on their way; what a decision starts from.
  std::int64_t observed() const;
  /// Records a rule, also one that changed nothing, and sets `desired`, `action` and `reason`.
  void apply(std::string_view rule, std::string text, std::int64_t after);
};

/// Signs the decisions of a cycle.
void sign(std::span<Decision> decisions, const Writer& writer);

/// What may be written now, by whom, over which replicas? A decision of another writer or another
/// term, or one taken when other replicas were observed, is void: it becomes a hold at the replicas
/// observed now, and the next cycle decides from those.
Decision reconcile(Decision decision, const Writer& holder, std::int64_t current,
                   std::int64_t pending);

}  // namespace tailrace::capacity
