// What was decided in past cycles, and why?
//
// Whole cycles as JSON documents (cycle_report.h) in the database, for as long as was asked for.
// Loop thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/autoscaler/database.h"

namespace tailrace::autoscaler {

struct PastCycle {
  std::uint64_t cycle = 0;
  double time_s = 0;
  std::string document;
};

class History {
 public:
  explicit History(Database& database) : database_(database) {}

  /// Keeps a cycle and forgets those from before `forget_before_s`.
  Result<void> add(const PastCycle& cycle, double forget_before_s);
  /// The latest at or before `time_s`, or of all; empty: there is none.
  Result<std::optional<PastCycle>> latest(std::optional<double> time_s = std::nullopt) const;
  /// Of that number; the latest where restarts had the number twice.
  Result<std::optional<PastCycle>> of_cycle(std::uint64_t cycle) const;

 private:
  Database& database_;
};

}  // namespace tailrace::autoscaler
