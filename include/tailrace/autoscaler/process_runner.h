// How does this machine start a program, see whether it still lives, and end it?
//
// A process is known by its id and the moment it started, so that an id that the system gave to
// somebody else is never taken for ours, and a program that was started before this one can still
// be found. Nothing here waits. Loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tailrace/core/result.h"

namespace tailrace::autoscaler {

struct ProcessId {
  int pid = 0;
  std::uint64_t started = 0;  ///< clock ticks since the machine's start
  std::string boot;           ///< which start of the machine that was

  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

struct ProcessSpec {
  std::vector<std::string> argv;                                 ///< the first is looked up in PATH
  std::vector<std::pair<std::string, std::string>> environment;  ///< added to ours
  std::vector<std::string> hidden;  ///< names of our environment that it must not see: tokens
  std::string folder;               ///< it runs in; "": ours
  std::string log_path;             ///< standard output and error are appended here
};

struct ProcessLook {
  bool alive = false;
  std::string end;  ///< of one that has ended: "exit status 3", "signal 9", "ended" where not known
};

class ProcessRunner {
 public:
  virtual ~ProcessRunner() = default;

  /// In a process group of its own, with none of our descriptors. It outlives us. Errors:
  /// kInvalidArgument and kNotFound for a program that cannot be run, kInternal.
  virtual Result<ProcessId> start(const ProcessSpec& spec) = 0;
  /// What is left of the group of one that has ended is killed.
  virtual ProcessLook look(const ProcessId& id) = 0;
  /// To its whole group; nothing where it has ended.
  virtual void signal(const ProcessId& id, int signal) = 0;
  /// The leader of a group that was started with `name`=`value` in its environment and lives.
  virtual std::optional<ProcessId> find(const std::string& name, const std::string& value) = 0;
  /// Kills what `ended`, which has ended, left in sessions of their own: what has
  /// `name`=`value` in its environment, began no earlier and has lost its parent, with what that
  /// started. Others with that environment stay, such as a shell that took it over.
  virtual void end_left(const std::string& name, const std::string& value,
                        const ProcessId& ended) = 0;
  /// Could a program listen there now?
  virtual bool port_is_free(const std::string& host, std::uint16_t port) = 0;
};

std::unique_ptr<ProcessRunner> make_process_runner();

}  // namespace tailrace::autoscaler
