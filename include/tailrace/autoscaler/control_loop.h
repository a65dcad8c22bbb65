// When is looked, thought and acted, and what if one of them goes wrong?
//
// One cycle: settings, collect, think, write the orders down, have all actuators carry them out at
// once, record how it went. Cycles never overlap: one that takes longer than the interval delays
// the next, and says so. A cycle that could not decide is repeated soon, with pauses that grow up
// to the interval. Only a leader's orders are carried out; one that does not lead thinks along, so
// that taking over changes nothing. One event loop, one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tailrace/autoscaler/cycle_report.h"
#include "tailrace/autoscaler/decision_log.h"
#include "tailrace/autoscaler/history.h"
#include "tailrace/autoscaler/journal.h"
#include "tailrace/autoscaler/settings_source.h"
#include "tailrace/autoscaler/state_store.h"
#include "tailrace/autoscaler/world.h"
#include "tailrace/core/calendar.h"
#include "tailrace/core/time.h"
#include "tailrace/kubernetes/lease.h"
#include "tailrace/net/event_loop.h"

namespace tailrace::autoscaler {

struct LoopConfig {
  Duration interval = std::chrono::seconds(15);
  Duration apply_timeout = std::chrono::seconds(30);
  Duration state_every = std::chrono::seconds(60);
  Duration history_keep = std::chrono::hours(24 * 7);
  std::string identity = "tailrace-autoscaler";  ///< who signs decisions
  std::uint64_t generation = 1;                  ///< of decisions, where there is no elector
  /// A single cycle waits so long to lead, where there is an elector: another leader's lease may
  /// have to run out first.
  Duration lead_wait{0};
  bool dry_run = false;  ///< nothing is written down or carried out
};

/// What the loop works with; all of it outlives the loop. Null is not there.
struct LoopParts {
  net::EventLoop* loop = nullptr;
  const Calendar* calendar = nullptr;
  SettingsSource* settings = nullptr;
  Collector* collector = nullptr;
  std::vector<Actuator*> actuators;
  Journal* journal = nullptr;
  History* history = nullptr;
  DecisionLog* decision_log = nullptr;
  StateStore* state = nullptr;
  kubernetes::LeaderElector* elector = nullptr;
};

class ControlLoop {
 public:
  ControlLoop(LoopConfig config, LoopParts parts);
  ~ControlLoop();
  ControlLoop(const ControlLoop&) = delete;
  ControlLoop& operator=(const ControlLoop&) = delete;

  /// Loads what was learnt, then cycles until stop(). `on_report` runs after each one.
  void start(std::function<void(const CycleReport&)> on_report);
  /// The same for one cycle, which comes to `done`. Where another one leads still after lead_wait,
  /// the cycle is without effect.
  void run_once(UniqueFunction<void(const CycleReport&)> done);

  /// Ends: what is being collected is abandoned, orders under way are waited for, state is saved
  /// and the lease given back; then `done`.
  void stop(UniqueFunction<void()> done);

  /// The latest cycle; null before the first.
  const CycleReport* latest() const;
  /// Empty: cycles come as they should. Else the reason why they do not.
  std::string unhealthy() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tailrace::autoscaler
