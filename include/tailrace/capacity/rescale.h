// Who gets how many GPUs of a pool that is too small for everybody?
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "tailrace/capacity/analysis.h"

namespace tailrace::capacity {

/// One claim on a budget of GPUs of one kind.
struct RescaleClaim {
  std::string id;
  double priority = 1;
  double demand = 0;       ///< GPUs
  std::int64_t floor = 0;  ///< GPUs
  std::int64_t cap = 0;    ///< GPUs
};
struct RescaleResult {
  std::map<std::string, std::int64_t> targets;
  bool over_budget = false;  ///< the floors alone exceed the budget: everybody gets his floor
};
/// Floors first, the rest in proportion to priority · demand, capped at min(demand, cap) with
/// re-splitting, whole GPUs by largest remainder, ties by id. Ids are distinct.
RescaleResult rescale_by_priority(std::int64_t budget, std::span<const RescaleClaim> claims);

/// A model's GPUs over its roles: floors first, the rest in proportion to the weights.
std::map<Role, std::int64_t> split_by_role(std::int64_t total,
                                           const std::map<Role, std::int64_t>& floors,
                                           const std::map<Role, double>& weights);

}  // namespace tailrace::capacity
