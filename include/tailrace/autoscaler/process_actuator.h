// How do replicas come and go on one machine?
//
// A replica is an engine process that this actuator starts from a command template. It becomes
// ready when its health check passes, is then registered with the gateway's admin API, and on the
// way down first leaves the gateway, finishes its answers, and is then asked and at last made to
// end. One that dies is replaced, after a pause that grows while it keeps dying. Replicas outlive
// the autoscaler: what runs is written down before and after each step, and the next autoscaler
// goes on with it. One autoscaler at a time works in a folder. Loop thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/autoscaler/config.h"
#include "tailrace/autoscaler/process_runner.h"
#include "tailrace/autoscaler/world.h"
#include "tailrace/core/calendar.h"
#include "tailrace/core/time.h"
#include "tailrace/net/stream.h"

namespace tailrace::autoscaler {

/// One way to serve a model with processes.
struct ProcessVariant {
  capacity::ModelKey key;
  std::string name;  ///< letters, digits, ".", "_" and "-"; distinct
  /// Program and arguments. {port}, {host}, {name} (of the replica), {model} and {index} (from 0,
  /// the smallest that is free) are filled in.
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;
  std::string folder;               ///< to run in; "": the autoscaler's
  std::vector<std::string> models;  ///< names under which the gateway serves it; empty: key.model
  int slots = 16;                   ///< requests that the gateway gives it at once
  std::string health_path = "/health";
  std::int64_t initial = 0;  ///< replicas before anything was ever decided
  /// That its replicas listen on, one port each; 0: those of the configuration.
  std::uint16_t port_first = 0, port_last = 0;
  Duration start_limit = std::chrono::minutes(10);  ///< then one that is not ready has failed
  Duration drain_limit = std::chrono::seconds(60);  ///< then running answers are cut
  Duration stop_limit = std::chrono::seconds(15);   ///< from SIGTERM to SIGKILL
};

struct ProcessActuatorConfig {
  std::vector<ProcessVariant> variants;
  std::string folder;  ///< registry and logs; made where missing
  std::string host = "127.0.0.1";
  std::uint16_t port_first = 18000, port_last = 18999;
  std::int64_t replicas_max = 64;   ///< of all variants: a wrong number must not fell the machine
  std::optional<net::Url> gateway;  ///< its admin listener; empty: nobody is told
  std::string gateway_token;        ///< "": none
  std::vector<std::string> hidden;  ///< names in the environment that engines must not see
  std::size_t log_bytes_max = std::size_t{8} << 20;  ///< of each replica; the older half goes
  Duration poll = std::chrono::milliseconds(500);
  Duration reconcile = std::chrono::seconds(2);  ///< with the gateway
  Duration call_timeout = std::chrono::seconds(5);
  Duration backoff_first = std::chrono::seconds(1), backoff_max = std::chrono::minutes(5);
  Duration stable_after = std::chrono::minutes(2);  ///< ready for so long: failures are forgotten

  /// Errors: kInvalidArgument naming the variant, the value and the remedy.
  Result<void> check() const;
};

/// Of the settings of a checked autoscaler.yaml, its secrets read.
ProcessActuatorConfig process_actuator_config(const Config& config);

enum class ReplicaState {
  kStarting,  ///< runs and is not ready
  kReady,
  kDraining,  ///< leaves the gateway, finishes its answers
  kStopping,  ///< was asked to end
  kFailed,    ///< ended without being asked; is started again
};
std::string_view to_string(ReplicaState state);

struct ReplicaStatus {
  capacity::ModelKey key;
  std::string variant, name;  ///< name: at the gateway, "small-0"
  int index = 0;
  ReplicaState state = ReplicaState::kStarting;
  net::Url url;             ///< of the engine, without path
  double started_at_s = 0;  ///< calendar; of its latest start
  int pid = 0;              ///< 0: none
  int failures = 0;         ///< in a row
  std::string message;      ///< what is wrong with it; "": nothing
};

class ProcessActuator : public Actuator {
 public:
  /// Takes over what an earlier autoscaler left running. Errors: kInvalidArgument (check()),
  /// kUnavailable (another autoscaler works in the folder), kDataLoss (its registry cannot be
  /// read), kInternal. `loop`, `network`, `calendar` and `runner` must outlive it.
  static Result<std::unique_ptr<ProcessActuator>> make(net::EventLoop& loop, net::Network& network,
                                                       const Calendar& calendar,
                                                       ProcessRunner& runner,
                                                       ProcessActuatorConfig config);

  std::string_view name() const override { return "processes"; }

  /// Every replica, by variant in the order of the configuration, then by index. Ready ones serve;
  /// starting and failed ones are on their way; draining and stopping ones count no more.
  virtual std::vector<ReplicaStatus> replicas() const = 0;
  /// Replicas of a variant that are wanted. Empty for an unknown one.
  virtual std::optional<std::int64_t> target(std::string_view variant) const = 0;
  /// What is wrong with the gateway's admin API, as of the last attempt; "": nothing.
  virtual std::string gateway_problem() const = 0;
  /// Drains and ends every replica, then `done`. Targets stay written: a later autoscaler starts as
  /// many again.
  virtual void stop_all(UniqueFunction<void()> done) = 0;
};

}  // namespace tailrace::autoscaler
