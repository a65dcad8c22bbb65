// How many replicas should each variant have now?
//
// One cycle over everything that was collected: settings, aggregation, learning, SLO, sizing,
// optimizer, stabilisation, bounds, limits; decisions with their reasons come out. Deterministic:
// the same calls on the same state give the same bytes. No clock, no I/O, one thread; what it
// remembers from cycle to cycle is the caller's CycleState. Nothing in the input makes it fail:
// what is unknown or wrong holds the replicas of the model that it belongs to.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/capacity/analysis.h"
#include "tailrace/capacity/config.h"
#include "tailrace/capacity/decision.h"
#include "tailrace/capacity/enforcer.h"
#include "tailrace/capacity/optimizer.h"
#include "tailrace/capacity/stabilisation.h"
#include "tailrace/capacity/variant.h"
#include "tailrace/tune/parameter_store.h"

namespace tailrace::capacity {

struct CycleConfig {
  Config models = Config::with_defaults();
  OptimizerConfig optimizer;
  /// All GPUs, those in use included; used where the input has no limits.
  std::optional<GpuLimits> total_gpus = std::nullopt;
  bool limit_to_nodes = false;  ///< growth stops at the input's node_gpus, too
  Writer writer = {};
};

struct CycleInput {
  std::vector<ModelState> models;   ///< distinct keys
  std::optional<GpuLimits> limits;  ///< free ones
  /// All that a cluster's nodes have, by kind; empty: not known.
  std::optional<std::map<std::string, std::int64_t>> node_gpus = std::nullopt;
  /// Where a model has none, its settings and what its pods reported from cycle to cycle say.
  std::map<ModelKey, ZeroEvidence> zero;
};

struct CycleResult {
  std::vector<ModelAnalysis> models;  ///< in the order of the input
  std::vector<Decision> decisions;    ///< one per variant, in the order of the models

  /// Some model with variants got no decision of its own: its replicas are held.
  bool any_failed() const;
};

class CycleState {
 public:
  /// Without stabilisation each cycle stands for itself.
  explicit CycleState(const std::optional<StabilisationConfig>& stabilisation);
  CycleState(CycleState&&) noexcept;
  CycleState& operator=(CycleState&&) noexcept;
  ~CycleState();

  /// Other windows and steps from the next cycle on; what was recommended so far still counts.
  void stabilise(const std::optional<StabilisationConfig>& config);

  /// All that the next cycle goes on from, as one JSON document: what was learnt, targets that have
  /// settled, windows, clocks. Who restores it decides as if there had been no restart. `now_s` is
  /// the caller's calendar.
  std::string save(double now_s);
  /// Before the first cycle; documents of tune::ParameterStore are read too. Errors: kDataLoss or
  /// kUnsupported saying what is wrong; then nothing has changed.
  Result<void> restore(std::string_view document);

 private:
  friend void learn_cycle(double, const std::vector<ModelState>&, const Config&, CycleState&);
  friend CycleResult run_cycle(double, const CycleInput&, const CycleConfig&, CycleState&);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Learns from what was collected, and decides nothing: for records of the past. Times do not
/// decrease from call to call.
void learn_cycle(double now_s, const std::vector<ModelState>& models, const Config& config,
                 CycleState& state);

/// Learns and decides.
CycleResult run_cycle(double now_s, const CycleInput& input, const CycleConfig& config,
                      CycleState& state);

}  // namespace tailrace::capacity
