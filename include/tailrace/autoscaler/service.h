// How do the parts of autoscaler.yaml become one running autoscaler?
//
// Makes database, source, roster, actuators, loop and listener as the configuration asks, and ends
// them in the right order. Loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tailrace/autoscaler/config.h"
#include "tailrace/autoscaler/control_loop.h"
#include "tailrace/autoscaler/database.h"
#include "tailrace/net/event_loop.h"
#include "tailrace/net/stream.h"

namespace tailrace::autoscaler {

struct ServiceOptions {
  bool once = false;     ///< one cycle
  bool dry_run = false;  ///< nothing is changed, nothing written down; others may run meanwhile
  std::string version;   ///< of the program
  /// Of the service before, which has stopped: gone on with where the path is the same and the file
  /// in its place, or where no new one can be opened there, which each cycle then says.
  std::shared_ptr<Database> database;
  bool must_go_on = false;  ///< a decision log that cannot be opened is tried again in each cycle
};

class Service {
 public:
  /// Errors: those of the parts, naming the key of the configuration. Loop and network must outlive
  /// it.
  static Result<std::unique_ptr<Service>> make(net::EventLoop& loop, net::Network& network,
                                               Config config, ServiceOptions options);
  virtual ~Service() = default;

  /// Cycles until stop(). With `once`, `on_end` gets the one report.
  virtual void start(UniqueFunction<void(const CycleReport&)> on_end) = 0;
  virtual void stop(UniqueFunction<void()> done) = 0;
  /// That it writes to; null in a dry run.
  virtual std::shared_ptr<Database> database() const = 0;
  /// Of the listener for metrics; empty: none.
  virtual std::optional<net::Endpoint> endpoint() const = 0;
};

}  // namespace tailrace::autoscaler
