// Which conditions have come or gone since the last cycle?
//
// A condition that lasts is said when it appears, not in every cycle; numbers in its message may
// change meanwhile. So many lines in a cycle at most: the rest follows in later ones.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tailrace/observe/observer.h"

namespace tailrace::autoscaler {

struct ConditionChange {
  bool gone = false;
  std::string kind, subject;
  std::string message;  ///< of one that has gone: the last that was said
};

class ConditionLog {
 public:
  explicit ConditionLog(std::size_t most = 20) : most_(most) {}

  /// What to say, given all conditions of a cycle.
  std::vector<ConditionChange> changes(std::span<const observe::Condition> now);

 private:
  std::size_t most_;
  std::map<std::string, ConditionChange> said_;  ///< by kind, subject and message without numbers
};

}  // namespace tailrace::autoscaler
