// What did the last autoscaler on this machine leave running?
//
// A JSON file that is replaced as a whole at every step. An entry is written before its process is
// started, so that a crash in between loses none: the process carries the entry's name in its
// environment.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/autoscaler/process_actuator.h"

namespace tailrace::autoscaler {

/// In the actuator's folder.
inline constexpr std::string_view kRegistryFile = "/replicas.json";

struct RegistryEntry {
  std::string variant, name;
  int index = 0;
  std::uint16_t port = 0;
  ReplicaState state = ReplicaState::kStarting;
  std::optional<ProcessId> process;  ///< empty: about to be started, or ended
  double started_at_s = 0;
  int failures = 0;
  std::uint16_t gateway_port = 0;  ///< under which the gateway may know it; 0: it does not

  friend bool operator==(const RegistryEntry&, const RegistryEntry&) = default;
};

struct Registry {
  std::map<std::string, std::int64_t, std::less<>> targets;  ///< by variant
  std::vector<RegistryEntry> entries;
};

std::string to_json(const Registry& registry);
/// Errors: kDataLoss saying what is wrong and the remedy.
Result<Registry> parse_registry(std::string_view json);

}  // namespace tailrace::autoscaler
