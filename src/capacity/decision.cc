#include "tailrace/capacity/decision.h"

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

}  // namespace tailrace::capacity
