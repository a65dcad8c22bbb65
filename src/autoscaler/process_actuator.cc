#include "tailrace/autoscaler/process_actuator.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>

#include "autoscaler/command_template.h"
#include "autoscaler/process_actuator_impl.h"
#include "tailrace/core/field.h"
#include "tailrace/core/log.h"
#include "tailrace/core/text.h"
#include "tailrace/net/address_field.h"

namespace tailrace::autoscaler {
namespace {

constexpr std::size_t kRegistryBytesMax = std::size_t{16} << 20;

Result<void> check_variant(const ProcessVariant& variant) {
  const auto wrong = [&](std::string_view field, std::string_view what) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("variant {}: {} {}", core::quoted(variant.name), field, what));
  };
  if (!core::is_plain_name(variant.name, 100)) {
    return wrong("name", "must be 1 to 100 letters, digits, '.', '_' or '-'");
  }
  if (variant.key.model.empty()) return wrong("model", "is empty; name the model that it serves");
  if (variant.command.empty() || variant.command.front().empty()) {
    return wrong("command", "is empty; give the engine's program and flags");
  }
  const auto filled = fill_command(
      variant.command, {{"port", ""}, {"host", ""}, {"name", ""}, {"model", ""}, {"index", ""}});
  if (!filled) return wrong("command:", filled.error().message);
  const bool has_port =
      std::any_of(variant.command.begin(), variant.command.end(),
                  [](const auto& word) { return word.find("{port}") != std::string::npos; });
  if (!has_port && (variant.port_first == 0 || variant.port_first != variant.port_last)) {
    return wrong("command", "has no {port}; each replica must listen on the port that it is given");
  }
  if (variant.slots < 1 || variant.slots > 1'000'000) {
    return wrong("slots", fmt::format("is {}; it must be from 1 to 1000000", variant.slots));
  }
  if (!variant.health_path.starts_with('/')) {
    return wrong("health_path",
                 fmt::format("is {}; it must begin with '/'", core::quoted(variant.health_path)));
  }
  if (variant.port_last < variant.port_first) {
    return wrong("ports",
                 fmt::format("{} to {} are no range", variant.port_first, variant.port_last));
  }
  if (variant.initial < 0) {
    return wrong("initial", fmt::format("is {}; it must not be below 0", variant.initial));
  }
  return {};
}

}  // namespace

std::string_view to_string(ReplicaState state) {
  switch (state) {
    case ReplicaState::kStarting:
      return "starting";
    case ReplicaState::kReady:
      return "ready";
    case ReplicaState::kDraining:
      return "draining";
    case ReplicaState::kStopping:
      return "stopping";
    case ReplicaState::kFailed:
      return "failed";
  }
  return "starting";
}

Result<void> ProcessActuatorConfig::check() const {
  if (folder.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "folder is empty; name one for the registry of replicas and their logs");
  }
  if (port_first == 0 || port_last < port_first) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("ports {} to {} are no range; give the first and the last port that "
                            "engines may use",
                            port_first, port_last));
  }
  if (replicas_max < 1 || replicas_max > 10'000) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("replicas_max is {}; it must be from 1 to 10000", replicas_max));
  }
  std::set<std::string> names;
  for (const auto& variant : variants) {
    if (auto ok = check_variant(variant); !ok) return ok;
    if (!names.insert(variant.name).second) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("two variants are named {}; give each its own name",
                              core::quoted(variant.name)));
    }
  }
  return {};
}

Result<std::unique_ptr<ProcessActuator>> ProcessActuator::make(net::EventLoop& loop,
                                                               net::Network& network,
                                                               const Calendar& calendar,
                                                               ProcessRunner& runner,
                                                               ProcessActuatorConfig config) {
  if (auto ok = config.check(); !ok) return fail(ok.error());
  auto made =
      std::make_unique<ProcessActuatorImpl>(loop, network, calendar, runner, std::move(config));
  if (auto ok = made->open(); !ok) return fail(ok.error());
  return made;
}

bool Replica::active() const {
  return entry.state == ReplicaState::kStarting || entry.state == ReplicaState::kReady ||
         entry.state == ReplicaState::kFailed;
}

ProcessActuatorImpl::ProcessActuatorImpl(net::EventLoop& loop, net::Network& network,
                                         const Calendar& calendar, ProcessRunner& runner,
                                         ProcessActuatorConfig config)
    : loop_(loop),
      calendar_(calendar),
      runner_(runner),
      config_(std::move(config)),
      requests_(loop, network, config_.call_timeout) {
  if (config_.gateway) admin_.emplace(requests_, *config_.gateway, config_.gateway_token);
  for (const auto& variant : config_.variants) {
    variants_.push_back(std::make_shared<const ProcessVariant>(variant));
    targets_[variant.name] = variant.initial;
  }
}

ProcessActuatorImpl::~ProcessActuatorImpl() {
  if (lock_ >= 0) ::close(lock_);
}

Result<void> ProcessActuatorImpl::lock_folder() {
  std::error_code error;
  std::filesystem::create_directories(config_.folder + "/logs", error);
  if (!error) config_.folder = std::filesystem::canonical(config_.folder, error).string();
  if (error) {
    return fail(ErrorCode::kInternal,
                fmt::format("folder {}: {}", core::quoted(config_.folder, 200), error.message()));
  }
  const std::string path = config_.folder + "/lock";
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  if (lock_ < 0) {
    return fail(ErrorCode::kInternal,
                fmt::format("{} cannot be opened: {}", core::quoted(path, 200),
                            std::generic_category().message(errno)));
  }
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("another autoscaler works in {}; end it, or give this one a folder of "
                            "its own",
                            core::quoted(config_.folder, 200)));
  }
  return {};
}

Result<void> ProcessActuatorImpl::open() {
  if (auto locked = lock_folder(); !locked) return locked;
  const std::string path = config_.folder + std::string(kRegistryFile);
  const auto text = core::read_regular_file(path, kRegistryBytesMax);
  if (!text && text.error().code != ErrorCode::kNotFound) return fail(text.error());
  if (text) {
    auto registry = parse_registry(*text);
    if (!registry) return fail(registry.error().with_context(path));
    for (const auto& [name, target] : registry->targets) {
      if (targets_.contains(name)) targets_[name] = target;
    }
    for (const auto& entry : registry->entries) adopt(entry);
  }
  arm();
  return {};
}

std::shared_ptr<const ProcessVariant> ProcessActuatorImpl::variant_of(std::string_view name) const {
  for (const auto& variant : variants_) {
    if (variant->name == name) return variant;
  }
  return nullptr;
}

void ProcessActuatorImpl::adopt(const RegistryEntry& entry) {
  auto replica = std::make_unique<Replica>();
  replica->entry = entry;
  replica->since = loop_.now();
  replica->variant = variant_of(entry.variant);
  if (entry.process && !runner_.look(*entry.process).alive) replica->entry.process.reset();
  // Started, and the autoscaler died before it had written that down.
  if (!replica->entry.process) {
    replica->entry.process = runner_.find("TAILRACE_REPLICA", marker(entry.name));
  }
  const bool lives = replica->entry.process.has_value();
  if (!admin_) replica->entry.gateway_port = 0;
  if (!replica->variant) {  // no longer in the configuration
    auto gone = std::make_shared<ProcessVariant>();
    gone->name = entry.variant;
    replica->variant = std::move(gone);
    if (replica->active()) {
      replica->entry.state = lives ? ReplicaState::kDraining : ReplicaState::kStopping;
    }
  } else if (replica->active() && !lives) {
    replica->entry.state = ReplicaState::kFailed;
    replica->message = "it had ended when the autoscaler started";
  } else if (entry.state == ReplicaState::kFailed) {
    replica->entry.state = ReplicaState::kStarting;
  }
  log::info("replica_adopted", {{"replica", entry.name},
                                {"state", to_string(replica->entry.state)},
                                {"pid", lives ? replica->entry.process->pid : 0}});
  const bool stopping = replica->entry.state == ReplicaState::kStopping;
  replicas_.push_back(std::move(replica));
  if (stopping) stop(*replicas_.back());
}

void ProcessActuatorImpl::apply(std::vector<Order> orders,
                                UniqueFunction<void(std::vector<Outcome>)> done) {
  std::vector<Outcome> outcomes(orders.size());
  std::vector<std::shared_ptr<const ProcessVariant>> wanted(orders.size());
  for (std::size_t i = 0; i < orders.size(); ++i) {
    const auto& decision = orders[i].decision;
    outcomes[i].id = orders[i].id;
    const auto variant = variant_of(decision.variant);
    if (!variant || variant->key != decision.key) {
      outcomes[i].message = fmt::format("no variant {} of {} is run by processes here",
                                        core::quoted(decision.variant), decision.key.text());
      continue;
    }
    wanted[i] = variant;
    // It recommends nothing; what limits or a first request ask for holds without metrics, too.
    if (!decision.informed && decision.action == capacity::Action::kHold) continue;
    auto& target = targets_[variant->name];
    const std::int64_t desired =
        std::clamp<std::int64_t>(decision.desired, 0, config_.replicas_max);
    unsaved_ = unsaved_ || target != desired;
    target = desired;
  }
  std::error_code unknown;
  if (!std::filesystem::exists(config_.folder + std::string(kRegistryFile), unknown)) {
    unsaved_ = true;  // somebody removed it
  }
  step();
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (!wanted[i]) continue;
    outcomes[i].done = true;
    outcomes[i].message = state_of_variant(*wanted[i], outcomes[i].done);
    if (orders[i].decision.desired > config_.replicas_max) {
      outcomes[i].done = false;
      outcomes[i].message += fmt::format("; {} are wanted, and replicas_max is {}",
                                         orders[i].decision.desired, config_.replicas_max);
    } else if (targets_[wanted[i]->name] != orders[i].decision.desired) {
      outcomes[i].done = false;
      outcomes[i].message +=
          fmt::format("; the decision holds {} for want of knowledge", orders[i].decision.desired);
    }
  }
  loop_.post([done = std::move(done), outcomes = std::move(outcomes)]() mutable {
    done(std::move(outcomes));
  });
}

std::string ProcessActuatorImpl::state_of_variant(const ProcessVariant& variant,
                                                  bool& all_well) const {
  std::map<ReplicaState, int> counts;
  std::string troubles;
  for (const auto* replica : of(variant)) {
    ++counts[replica->entry.state];
    if (replica->entry.state == ReplicaState::kFailed) {
      troubles += fmt::format("; {}: {}", replica->entry.name, replica->message);
    }
  }
  all_well = troubles.empty() && save_problem_.empty();
  std::string text = fmt::format("{} wanted", targets_.find(variant.name)->second);
  for (const auto& [state, count] : counts) text += fmt::format(", {} {}", count, to_string(state));
  if (!save_problem_.empty()) troubles += "; " + save_problem_;
  return text + troubles;
}

std::vector<ReplicaStatus> ProcessActuatorImpl::replicas() const {
  std::vector<ReplicaStatus> list;
  for (const auto& variant : variants_) {
    for (const auto* replica : of(*variant)) {
      const auto& entry = replica->entry;
      if (!replica->active() && !entry.process) continue;  // only the gateway is still to be told
      ReplicaStatus status;
      status.key = variant->key;
      status.variant = variant->name;
      status.name = entry.name;
      status.index = entry.index;
      status.state = entry.state;
      status.url = {{config_.host, entry.port, false}, ""};
      status.started_at_s = entry.started_at_s;
      status.pid = entry.process ? entry.process->pid : 0;
      status.failures = entry.failures;
      status.message = replica->message;
      list.push_back(std::move(status));
    }
  }
  return list;
}

std::optional<std::int64_t> ProcessActuatorImpl::target(std::string_view variant) const {
  const auto it = targets_.find(variant);
  if (it == targets_.end()) return std::nullopt;
  return it->second;
}

void ProcessActuatorImpl::stop_all(UniqueFunction<void()> done) {
  ending_ = true;
  all_stopped_ = std::move(done);
  step();
}

bool ProcessActuatorImpl::save() {
  Registry registry;
  registry.targets = targets_;
  for (const auto& replica : replicas_) registry.entries.push_back(replica->entry);
  const auto written = core::write_file_atomically(config_.folder + std::string(kRegistryFile),
                                                   to_json(registry) + "\n");
  const std::string problem = written ? std::string() : written.error().message;
  if (!written && problem != save_problem_) {
    log::error("replica_registry_not_written", {{"error", problem}});
  }
  save_problem_ = problem;
  unsaved_ = !written;
  return written.has_value();
}

std::vector<Replica*> ProcessActuatorImpl::of(const ProcessVariant& variant) const {
  std::vector<Replica*> list;
  for (const auto& replica : replicas_) {
    if (replica->entry.variant == variant.name) list.push_back(replica.get());
  }
  std::sort(list.begin(), list.end(),
            [](const auto* a, const auto* b) { return a->entry.index < b->entry.index; });
  return list;
}

Replica* ProcessActuatorImpl::find(std::string_view name) const {
  for (const auto& replica : replicas_) {
    if (replica->entry.name == name) return replica.get();
  }
  return nullptr;
}

std::string ProcessActuatorImpl::marker(std::string_view name) const {
  return fmt::format("{}/{}", config_.folder, name);
}

std::string ProcessActuatorImpl::log_path(std::string_view name) const {
  return fmt::format("{}/logs/{}.log", config_.folder, name);
}

std::string ProcessActuatorImpl::url_of(std::uint16_t port) const {
  return net::to_string(net::Url{{config_.host, port, false}, ""});
}

}  // namespace tailrace::autoscaler
