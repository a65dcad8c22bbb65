// What is odd, said once each and not without end?
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tailrace/observe/observer.h"

namespace tailrace::observe {

/// Holds at most `most` conditions; the last then says how many more there were.
class ConditionList {
 public:
  explicit ConditionList(std::size_t most) : most_(most) {}

  void add(ConditionKind kind, std::string subject, std::string message);
  std::vector<Condition> take();

 private:
  std::size_t most_, left_out_ = 0;
  std::vector<Condition> all_;
};

/// "a, b, c and 7 more"; each name is made printable and short.
std::string listed(const std::vector<std::string>& names, std::size_t most = 5);

}  // namespace tailrace::observe
