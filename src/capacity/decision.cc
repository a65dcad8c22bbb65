#include "tailrace/capacity/decision.h"

#include <fmt/format.h>

#include <utility>

#include "capacity/counts.h"

namespace tailrace::capacity {

std::string_view to_string(Action action) {
  switch (action) {
    case Action::kHold:
      return "hold";
    case Action::kScaleUp:
      return "up";
    case Action::kScaleDown:
      return "down";
  }
  return "";
}

std::string_view to_string(SloSource source) {
  switch (source) {
    case SloSource::kNone:
      return "none";
    case SloSource::kExplicit:
      return "explicit";
    case SloSource::kInferred:
      return "inferred";
    case SloSource::kObserved:
      return "observed";
  }
  return "";
}

std::string_view to_string(Evidence evidence) {
  switch (evidence) {
    case Evidence::kUnknown:
      return "unknown";
    case Evidence::kIdle:
      return "idle";
    case Evidence::kUnreachable:
      return "unreachable";
    case Evidence::kSized:
      return "sized";
  }
  return "";
}

std::int64_t Decision::observed() const {
  return add_counts(current, pending);
}

void Decision::apply(std::string_view rule, std::string text, std::int64_t after) {
  if (after != desired || reason.empty()) reason = text;
  steps.push_back({std::string(rule), std::move(text), desired, after});
  desired = after;
  const std::int64_t from = observed();
  action = desired > from ? Action::kScaleUp : desired < from ? Action::kScaleDown : Action::kHold;
}

void sign(std::span<Decision> decisions, const Writer& writer) {
  for (Decision& decision : decisions) decision.writer = writer;
}

Decision reconcile(Decision decision, const Writer& holder, std::int64_t current,
                   std::int64_t pending) {
  const std::int64_t before = decision.observed();
  decision.current = current;
  decision.pending = pending;
  const std::int64_t now = decision.observed();
  const bool own = decision.writer == holder;
  if (own && now == before) return decision;
  decision.informed = false;
  decision.waits_for = "the next cycle";
  if (!own) {
    decision.apply(
        "writer",
        fmt::format("decided by {} in term {}, but {} holds term {}: void", decision.writer.id,
                    decision.writer.generation, holder.id, holder.generation),
        now);
  } else {
    decision.apply("observed",
                   fmt::format("decided over {} replicas, but {} are there now: void", before, now),
                   now);
  }
  return decision;
}

}  // namespace tailrace::capacity
