// What does the autoscaler decide from a snapshot, and what does it remember?
//
// The part of the control loop that thinks and does not touch: settings, forecast over the start-up
// time, one capacity cycle, orders with their ids. Deterministic; the simulator and the real loop
// call the same functions. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/autoscaler/world.h"
#include "tailrace/capacity/config.h"
#include "tailrace/capacity/cycle.h"

namespace tailrace::autoscaler {

/// What the settings say of all models together.
struct InForce {
  capacity::OptimizerKind optimizer = capacity::OptimizerKind::kCostAware;
  bool limited = false;        ///< growth stops where GPUs are counted and gone
  bool scale_to_zero = false;  ///< of models without an entry of their own
};

/// What one cycle came to: the record that logs, `explain`, events and tests share.
struct CycleRecord {
  std::uint64_t cycle = 0;
  double time_s = 0;
  capacity::CycleResult result;
  std::vector<Order> orders;
  std::vector<observe::Condition> conditions;
  std::optional<std::string> blind;
  std::optional<InForce> in_force;  ///< empty: settings without a `default` entry
};

class Brain {
 public:
  explicit Brain(const std::optional<capacity::StabilisationConfig>& stabilisation);
  Brain(Brain&&) noexcept;
  Brain& operator=(Brain&&) noexcept;
  ~Brain();

  /// Takes effect in the next cycle.
  void configure(capacity::CycleConfig config);
  /// The same for windows and steps; what was recommended so far still counts.
  void stabilise(const std::optional<capacity::StabilisationConfig>& stabilisation);
  /// Ids of orders never repeat: the next cycle's number is above this.
  void count_from(std::uint64_t cycle);
  CycleRecord think(const Snapshot& snapshot);

  /// Everything that a successor needs so that it changes no replica count by itself: what was
  /// learnt, SLOs that have settled, stabilisation windows and clocks (capacity::CycleState).
  std::string save(double now_s);
  /// Before the first cycle. Errors: kDataLoss, kUnsupported; then nothing has changed.
  Result<void> restore(std::string_view document);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tailrace::autoscaler
