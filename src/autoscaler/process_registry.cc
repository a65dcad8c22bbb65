#include "autoscaler/process_registry.h"

#include <fmt/format.h>

#include <array>
#include <boost/json.hpp>
#include <cmath>

namespace tailrace::autoscaler {
namespace json = boost::json;
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::array kStates{ReplicaState::kStarting, ReplicaState::kReady, ReplicaState::kDraining,
                             ReplicaState::kStopping, ReplicaState::kFailed};

json::value process_json(const std::optional<ProcessId>& process) {
  if (!process) return nullptr;
  return json::object{
      {"pid", process->pid}, {"started", process->started}, {"boot", process->boot}};
}

std::optional<std::int64_t> whole(const json::object& object, const char* key, std::int64_t max) {
  const auto* value = object.if_contains(key);
  if (value == nullptr) return std::nullopt;
  std::optional<std::int64_t> number;
  if (value->is_int64()) number = value->get_int64();
  if (value->is_uint64() && value->get_uint64() <= INT64_MAX) {
    number = static_cast<std::int64_t>(value->get_uint64());
  }
  if (!number || *number < 0 || *number > max) return std::nullopt;
  return number;
}

std::optional<std::string> text(const json::object& object, const char* key) {
  const auto* value = object.if_contains(key);
  const auto* string = value ? value->if_string() : nullptr;
  if (string == nullptr) return std::nullopt;
  return std::string(string->data(), string->size());
}

std::optional<ReplicaState> parse_state(const json::object& object) {
  const auto name = text(object, "state");
  for (const auto state : kStates) {
    if (name && *name == to_string(state)) return state;
  }
  return std::nullopt;
}

std::optional<RegistryEntry> parse_entry(const json::value& value) {
  const auto* object = value.if_object();
  if (object == nullptr) return std::nullopt;
  const auto variant = text(*object, "variant"), name = text(*object, "name");
  const auto index = whole(*object, "index", 1 << 20), port = whole(*object, "port", 65535);
  const auto failures = whole(*object, "failures", INT32_MAX);
  const auto state = parse_state(*object);
  const auto gateway_port = whole(*object, "gateway_port", 65535);
  const auto* started_at = object->if_contains("started_at_s");
  if (!variant || !name || !index || !port || !failures || !state || !gateway_port || !started_at ||
      !started_at->is_number()) {
    return std::nullopt;
  }
  RegistryEntry entry;
  entry.variant = *variant;
  entry.name = *name;
  entry.index = static_cast<int>(*index);
  entry.port = static_cast<std::uint16_t>(*port);
  entry.failures = static_cast<int>(*failures);
  entry.state = *state;
  entry.gateway_port = static_cast<std::uint16_t>(*gateway_port);
  entry.started_at_s = started_at->to_number<double>();
  const auto* process = object->if_contains("process");
  if (process != nullptr && process->is_object()) {
    const auto& fields = process->get_object();
    const auto pid = whole(fields, "pid", INT32_MAX), started = whole(fields, "started", INT64_MAX);
    const auto boot = text(fields, "boot");
    if (!pid || !started || !boot) return std::nullopt;
    entry.process = ProcessId{static_cast<int>(*pid), static_cast<std::uint64_t>(*started), *boot};
  }
  return entry;
}

}  // namespace

std::string to_json(const Registry& registry) {
  json::object targets;
  for (const auto& [variant, target] : registry.targets) targets[variant] = target;
  json::array entries;
  for (const auto& entry : registry.entries) {
    entries.push_back({{"variant", entry.variant},
                       {"name", entry.name},
                       {"index", entry.index},
                       {"port", entry.port},
                       {"state", to_string(entry.state)},
                       {"process", process_json(entry.process)},
                       {"started_at_s", entry.started_at_s},
                       {"failures", entry.failures},
                       {"gateway_port", entry.gateway_port}});
  }
  return json::serialize(json::object{
      {"version", kVersion}, {"targets", std::move(targets)}, {"replicas", std::move(entries)}});
}

Result<Registry> parse_registry(std::string_view document) {
  const auto damaged = [](std::string_view what) {
    return fail(ErrorCode::kDataLoss,
                fmt::format("the registry of replicas {}; end its engines, remove the file and "
                            "start again",
                            what));
  };
  boost::system::error_code error;
  const auto value = json::parse(json::string_view(document.data(), document.size()), error);
  const auto* object = error ? nullptr : value.if_object();
  if (object == nullptr) return damaged("is no JSON object");
  if (whole(*object, "version", INT64_MAX) != kVersion) {
    return damaged(fmt::format("is not of version {}", kVersion));
  }
  const auto* targets = object->if_contains("targets");
  const auto* replicas = object->if_contains("replicas");
  if (!targets || !targets->is_object() || !replicas || !replicas->is_array()) {
    return damaged("lacks \"targets\" or \"replicas\"");
  }
  Registry registry;
  for (const auto& member : targets->get_object()) {
    const std::string name(member.key().data(), member.key().size());
    const auto target = whole(targets->get_object(), name.c_str(), 1 << 20);
    if (!target) return damaged("has a target that is no count");
    registry.targets[name] = *target;
  }
  for (const auto& replica : replicas->get_array()) {
    auto entry = parse_entry(replica);
    if (!entry) return damaged("has a replica that cannot be read");
    registry.entries.push_back(std::move(*entry));
  }
  return registry;
}

}  // namespace tailrace::autoscaler
