// What would the autoscaler do to a simulated fleet, and what would its requests meet?
//
// The production Brain decides, cycle by cycle, from what simulated engines report: rates and means
// over a window, made of counters as observe makes them. Requests come, engines start, drain and go
// as in simulate/elastic_run.h. A Law may stand in the Brain's place, to compare with. Same
// arguments, same bytes. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/autoscaler/brain.h"
#include "tailrace/simulate/elastic_run.h"

namespace tailrace::autoscaler {

struct SimulatedVariant {
  simulate::ElasticVariant engines;
  std::string accelerator;
  double cost = 10;
  std::int64_t min = 0;
  std::optional<std::int64_t> max;
};

struct SimulatedFleet {
  std::vector<SimulatedVariant> variants;
  simulate::ElasticSpec run;  ///< its variants are taken from above
  double window_s = 60;       ///< that engines' rates and means are taken over
};

/// A request meets targets if its own TTFT and its own mean time between tokens are within them.
struct RequestTargets {
  double ttft_ms = 0, itl_ms = 0;

  bool met(const simulate::RequestRecord& record) const;
};

/// One cycle as it was.
struct FleetCycle {
  double time_s = 0;
  std::vector<std::int64_t> ready, starting, wanted;  ///< by variant
  double arrivals_per_s = 0;                          ///< since the cycle before
  std::size_t waiting = 0;                            ///< before the engines
};

struct FleetRun {
  simulate::ElasticTotals totals;
  std::vector<simulate::RequestRecord> requests;  ///< in the order of their ends
  std::vector<FleetCycle> cycles;

  /// Of the requests that came in [from_s, to_s), those that met the targets; 1 where none came.
  double goodput(const RequestTargets& targets, double from_s, double to_s) const;
  double engine_s() const;  ///< of all variants together
};

/// Makes the Brain's snapshot of what a simulated fleet reports.
class FleetObserver {
 public:
  FleetObserver(const SimulatedFleet& fleet, capacity::ModelKey key);
  Snapshot look(const simulate::FleetReport& report);

 private:
  tune::Observation observe(const simulate::EngineReport& engine, double now_s) const;

  const SimulatedFleet& fleet_;
  capacity::ModelKey key_;
  std::vector<simulate::FleetReport> past_;  ///< those that windows begin at, oldest first
};

/// Engines wanted of each variant, by another rule than the Brain's.
using Law = std::function<std::vector<int>(const Snapshot&)>;

/// Errors: those of run_elastic().
Result<FleetRun> run_fleet(const SimulatedFleet& fleet, const Law& law);
/// With the Brain under `settings`, as read from the analyzer's configuration. `watch`, where
/// given, sees every cycle's record.
Result<FleetRun> run_fleet(const SimulatedFleet& fleet, const capacity::CycleConfig& settings,
                           const std::function<void(const CycleRecord&)>& watch = nullptr);

}  // namespace tailrace::autoscaler
