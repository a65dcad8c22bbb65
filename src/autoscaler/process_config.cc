// From what the operator wrote to what the process actuator is made with.
#include <algorithm>
#include <filesystem>

#include "tailrace/autoscaler/process_actuator.h"

namespace tailrace::autoscaler {

ProcessActuatorConfig process_actuator_config(const Config& config) {
  ProcessActuatorConfig made;
  made.folder = config.processes.folder;
  if (made.folder.empty()) {
    made.folder =
        (std::filesystem::path(config.database).parent_path() / "tailrace-replicas").string();
  }
  made.gateway = config.processes.gateway;
  made.gateway_token = config.processes.token;
  for (const auto& name : {config.processes.token_env, config.prometheus.token_env}) {
    if (!name.empty()) made.hidden.push_back(name);
  }
  std::int64_t all = 0;
  for (const auto& variant : config.variants) {
    ProcessVariant process;
    process.key = {variant.ns, variant.model};
    process.name = variant.name;
    process.command = variant.command;
    for (const auto& entry : variant.env) {
      const std::size_t equals = entry.find('=');
      if (equals == std::string::npos) continue;  // the file's check has said so
      process.environment[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
    process.folder = variant.folder;
    process.slots = variant.slots;
    process.health_path = variant.health_path;
    process.initial = variant.min;
    process.port_first = static_cast<std::uint16_t>(variant.first_port);
    process.port_last =
        static_cast<std::uint16_t>(variant.first_port + std::max<std::int64_t>(variant.max, 1) - 1);
    process.start_limit = variant.start_limit;
    process.drain_limit = variant.drain_limit;
    process.stop_limit = variant.stop_grace;
    all += variant.max;
    made.variants.push_back(std::move(process));
  }
  made.replicas_max = std::max<std::int64_t>(all, 1);
  return made;
}

}  // namespace tailrace::autoscaler
