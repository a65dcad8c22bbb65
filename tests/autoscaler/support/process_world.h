// What do replicas do in virtual time, on a machine and beside a gateway that tests script?
#pragma once

#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/temp_folder.h"
#include "tailrace/autoscaler/process_actuator.h"
#include "tailrace/net/http_server.h"
#include "tailrace/net/sim_network.h"

namespace tailrace::autoscaler::testing {

/// A machine whose programs are engines that answer their health check after a while.
class Machine final : public ProcessRunner {
 public:
  struct Program {
    ProcessId id;
    ProcessSpec spec;
    std::uint16_t port = 0;
    bool alive = true;
    std::string end;
    std::vector<int> signals;
    std::unique_ptr<net::HttpServer> server;
  };

  Machine(net::SimLoop& loop, net::SimNetwork& network) : loop_(loop), network_(network) {}

  Result<ProcessId> start(const ProcessSpec& spec) override;
  ProcessLook look(const ProcessId& id) override;
  void signal(const ProcessId& id, int signal) override;
  std::optional<ProcessId> find(const std::string& name, const std::string& value) override;
  void end_left(const std::string& name, const std::string& value,
                const ProcessId& ended) override {
    left_ended.push_back(fmt::format("{}={} {}", name, value, ended.pid));
  }
  bool port_is_free(const std::string& host, std::uint16_t port) override;

  void end(int pid, std::string how);
  Program* program(int pid);
  std::size_t alive() const;

  Duration start_up = std::chrono::seconds(3);
  Duration lives_for{0};         ///< not 0: every program ends by itself after so long
  bool heeds_terminate = true;   ///< ends on SIGTERM
  std::optional<Error> refuses;  ///< to start anything
  std::vector<std::unique_ptr<Program>> programs;
  std::vector<std::string> left_ended;  ///< whose leavings were ended

 private:
  net::SimLoop& loop_;
  net::SimNetwork& network_;
};

/// An admin listener with a table of backends.
class FakeGateway {
 public:
  struct Backend {
    std::string url;
    std::string body;
    int running = 0;
    bool draining = false;
  };

  FakeGateway(net::SimLoop& loop, net::SimNetwork& network) : loop_(loop), network_(network) {}
  void start();
  void stop();  ///< and forgets every backend, as a restart does
  net::Url url() const { return {{"10.0.0.2", 9090, false}, ""}; }

  std::map<std::string, Backend> backends;
  std::vector<std::string> calls;  ///< "PUT small-0", "DELETE small-0"; no GET
  std::vector<std::string> tokens;

 private:
  void handle(const std::shared_ptr<net::Exchange>& exchange);

  net::SimLoop& loop_;
  net::SimNetwork& network_;
  std::unique_ptr<net::HttpServer> server_;
};

class ProcessWorld {
 public:
  ProcessWorld();

  /// An autoscaler on this machine, beside the one that may run.
  Result<std::unique_ptr<ProcessActuator>> make();
  /// An autoscaler starts, or starts again.
  void start();
  /// An autoscaler starts and is told to run so many replicas of `small`; 6 s later, long enough
  /// for them to be ready.
  void start_with(std::int64_t replicas);
  void kill() { actuator.reset(); }  ///< as kill -9: the programs live on
  /// A decision for the variant; what came of it.
  Outcome decide(const std::string& variant, std::int64_t desired, bool informed = true);
  /// An order for the variant, of a decision that had no metrics and changes nothing.
  static Order order_for(const std::string& variant);
  /// Hands an order over; what came of it.
  Outcome carry_out(const Order& order);
  void run_for(Duration duration) { loop.run_for(duration); }
  int count(ReplicaState state) const;
  std::vector<std::string> names(ReplicaState state) const;

  net::SimLoop loop;
  net::SimNetwork network{loop, 1};
  ManualCalendar calendar{1'700'000'000};
  Machine machine{loop, network};
  FakeGateway gateway{loop, network};
  TempFolder folder;
  ProcessActuatorConfig config;
  std::unique_ptr<ProcessActuator> actuator;
};

}  // namespace tailrace::autoscaler::testing
