// How a replica starts, becomes ready, fails, drains and ends.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <set>

#include "autoscaler/command_template.h"
#include "autoscaler/process_actuator_impl.h"
#include "autoscaler/process_log.h"
#include "tailrace/core/log.h"

namespace tailrace::autoscaler {
namespace {

/// Times that a process from a lost registry is asked to end before it is killed.
constexpr int kStrayPatience = 5;

Duration backoff(const ProcessActuatorConfig& config, int failures) {
  const double factor = std::exp2(std::min(failures - 1, 40));
  return std::min(config.backoff_max, from_seconds(to_seconds(config.backoff_first) * factor));
}

/// Which of two goes first: one that does not serve, the younger first; then the one with less to
/// finish.
bool goes_before(const Replica& a, const Replica& b) {
  const auto rank = [](const Replica& replica) {
    if (replica.entry.state == ReplicaState::kFailed) return 0;
    return replica.entry.state == ReplicaState::kStarting ? 1 : 2;
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  if (a.running != b.running) return a.running < b.running;
  return a.entry.index > b.entry.index;
}

}  // namespace

void ProcessActuatorImpl::arm() {
  timer_ = loop_.after(config_.poll, [this] {
    arm();
    step();
  });
}

void ProcessActuatorImpl::step() {
  look_at_processes();
  for (const auto& variant : variants_) adjust(variant);
  for (const auto& replica : replicas_) advance(*replica);
  sync();
  forget_gone();
  if (unsaved_) save();
  trim_logs();
  if (all_stopped_ && replicas_.empty()) {
    auto done = std::move(all_stopped_);
    done();
  }
}

void ProcessActuatorImpl::look_at_processes() {
  for (const auto& replica : replicas_) {
    if (!replica->entry.process) continue;
    const auto look = runner_.look(*replica->entry.process);
    if (!look.alive) ended(*replica, look.end);
  }
}

void ProcessActuatorImpl::ended(Replica& replica, const std::string& how) {
  auto& entry = replica.entry;
  runner_.end_left("TAILRACE_REPLICA", marker(entry.name), *entry.process);
  entry.process.reset();
  unsaved_ = true;
  if (replica.active()) {
    const bool was_stable =
        entry.state == ReplicaState::kReady && loop_.now() - replica.since >= config_.stable_after;
    if (was_stable) entry.failures = 0;
    std::string why = replica.forced ? replica.message : "ended: " + how;
    const std::string line = last_line(log_path(entry.name));
    if (!line.empty()) why += fmt::format("; the last line of {}: {}", log_path(entry.name), line);
    failed(replica, std::move(why));
    return;
  }
  log::info("replica_stopped", {{"replica", entry.name}, {"end", how}});
  if (entry.state == ReplicaState::kDraining) enter(replica, ReplicaState::kStopping);
}

void ProcessActuatorImpl::failed(Replica& replica, std::string why) {
  auto& entry = replica.entry;
  ++entry.failures;
  const Duration pause = backoff(config_, entry.failures);
  enter(replica, ReplicaState::kFailed);
  replica.retry_at = loop_.now() + pause;
  replica.message = fmt::format("{}; failed {} time{} in a row, started again in {:g} s", why,
                                entry.failures, entry.failures == 1 ? "" : "s", to_seconds(pause));
  log::warn("replica_failed", {{"replica", entry.name},
                               {"reason", why},
                               {"failures", entry.failures},
                               {"again_in_s", to_seconds(pause)}});
}

void ProcessActuatorImpl::enter(Replica& replica, ReplicaState state) {
  replica.entry.state = state;
  replica.since = loop_.now();
  replica.forced = false;
  unsaved_ = true;
}

void ProcessActuatorImpl::adjust(const std::shared_ptr<const ProcessVariant>& variant) {
  const auto list = of(*variant);
  const auto active =
      std::count_if(list.begin(), list.end(), [](const auto* r) { return r->active(); });
  const std::int64_t wanted = ending_ ? 0 : targets_[variant->name];
  if (wanted > active) grow(variant, wanted - active);
  if (wanted < active) shrink(*variant, active - wanted);
}

void ProcessActuatorImpl::grow(const std::shared_ptr<const ProcessVariant>& variant,
                               std::int64_t by) {
  // What has only begun to leave serves sooner than anything that is started.
  for (auto* replica : of(*variant)) {
    if (by == 0) return;
    if (replica->entry.state != ReplicaState::kDraining || !replica->entry.process) continue;
    enter(*replica, ReplicaState::kReady);
    replica->announce = true;
    replica->message.clear();
    sync_at_ = loop_.now();
    log::info("replica_kept", {{"replica", replica->entry.name}});
    --by;
  }
  for (; by > 0; --by) {
    const auto alive = std::count_if(replicas_.begin(), replicas_.end(), [](const auto& replica) {
      return replica->active() || replica->entry.process;
    });
    if (alive >= config_.replicas_max) {
      if (!full_said_) {
        log::warn("replicas_max_reached",
                  {{"variant", variant->name}, {"replicas_max", config_.replicas_max}});
      }
      full_said_ = true;
      return;
    }
    full_said_ = false;
    std::set<int> taken;
    bool leaving = false;
    std::uint16_t gateway_port = 0;
    for (const auto* replica : of(*variant)) {
      if (!replica->active() && !replica->entry.process) continue;
      taken.insert(replica->entry.index);
      leaving = leaving || !replica->active();
    }
    // Those that leave give their ports back soon.
    const auto [first, last] = ports_of(*variant);
    if (leaving && std::ssize(taken) > last - first) return;
    int index = 0;
    while (taken.contains(index)) ++index;
    const std::string name = fmt::format("{}-{}", variant->name, index);
    // One that has ended, and that the gateway was not told of: its successor takes its place.
    if (const auto* before = find(name)) {
      gateway_port = before->entry.gateway_port;
      std::erase_if(replicas_, [&](const auto& replica) { return replica.get() == before; });
    }
    auto replica = std::make_unique<Replica>();
    replica->variant = variant;
    replica->entry.variant = variant->name;
    replica->entry.name = name;
    replica->entry.index = index;
    replica->entry.gateway_port = gateway_port;
    replicas_.push_back(std::move(replica));
    start(*replicas_.back());
  }
}

void ProcessActuatorImpl::shrink(const ProcessVariant& variant, std::int64_t by) {
  auto list = of(variant);
  std::erase_if(list, [](const auto* replica) { return !replica->active(); });
  std::sort(list.begin(), list.end(),
            [](const auto* a, const auto* b) { return goes_before(*a, *b); });
  for (std::int64_t i = 0; i < by; ++i) retire(*list[static_cast<std::size_t>(i)]);
}

void ProcessActuatorImpl::retire(Replica& replica) {
  replica.message.clear();
  sync_at_ = loop_.now();
  if (replica.entry.state != ReplicaState::kReady) return stop(replica);
  enter(replica, ReplicaState::kDraining);
  log::info("replica_draining", {{"replica", replica.entry.name}, {"running", replica.running}});
}

void ProcessActuatorImpl::stop(Replica& replica) {
  enter(replica, ReplicaState::kStopping);
  if (replica.entry.process) runner_.signal(*replica.entry.process, SIGTERM);
}

std::pair<std::uint16_t, std::uint16_t> ProcessActuatorImpl::ports_of(
    const ProcessVariant& variant) const {
  if (variant.port_first != 0) return {variant.port_first, variant.port_last};
  return {config_.port_first, config_.port_last};
}

std::optional<std::uint16_t> ProcessActuatorImpl::pick_port(const Replica& replica) {
  std::set<std::uint16_t> taken;
  for (const auto& other : replicas_) {
    if (other.get() == &replica) continue;
    // A port that the gateway still knows another backend by would get that one's requests.
    taken.insert(other->entry.gateway_port);
    if (other->entry.process || other->active()) taken.insert(other->entry.port);
  }
  const auto [first, last] = ports_of(*replica.variant);
  auto& next = next_port_[replica.variant->port_first != 0 ? replica.variant->name : ""];
  for (int i = 0; i <= last - first; ++i) {
    if (next < first || next > last) next = first;
    const std::uint16_t port = next++;
    if (!taken.contains(port) && runner_.port_is_free(config_.host, port)) return port;
  }
  return std::nullopt;
}

void ProcessActuatorImpl::start(Replica& replica) {
  auto& entry = replica.entry;
  const auto& variant = *replica.variant;
  enter(replica, ReplicaState::kStarting);
  replica.message.clear();
  replica.probe_at = loop_.now();
  replica.running = 0;
  replica.announce = true;
  entry.started_at_s = calendar_.unix_s();
  const auto port = pick_port(replica);
  if (!port) {
    const auto [first, last] = ports_of(variant);
    return failed(replica, fmt::format("no port from {} to {} is free", first, last));
  }
  entry.port = *port;
  auto argv = fill_command(variant.command, {{"port", std::to_string(entry.port)},
                                             {"host", config_.host},
                                             {"name", entry.name},
                                             {"model", variant.key.model},
                                             {"index", std::to_string(entry.index)}});
  if (!argv) return failed(replica, argv.error().message);
  if (const auto stray = runner_.find("TAILRACE_REPLICA", marker(entry.name))) {
    runner_.signal(*stray, entry.failures < kStrayPatience ? SIGTERM : SIGKILL);
    return failed(replica, fmt::format("process {} has this name and is in no registry, so it was "
                                       "lost with one; it was told to end",
                                       stray->pid));
  }
  // Written down first, so that nobody loses sight of it.
  if (!save()) return failed(replica, save_problem_);
  ProcessSpec spec;
  spec.argv = std::move(*argv);
  spec.environment.assign(variant.environment.begin(), variant.environment.end());
  spec.environment.emplace_back("TAILRACE_REPLICA", marker(entry.name));
  spec.hidden = config_.hidden;
  spec.folder = variant.folder;
  spec.log_path = log_path(entry.name);
  auto process = runner_.start(spec);
  if (!process) return failed(replica, process.error().message);
  entry.process = std::move(*process);
  save();
  log::info("replica_started",
            {{"replica", entry.name}, {"pid", entry.process->pid}, {"port", entry.port}});
}

void ProcessActuatorImpl::advance(Replica& replica) {
  auto& entry = replica.entry;
  const auto& variant = *replica.variant;
  const MonoTime now = loop_.now();
  switch (entry.state) {
    case ReplicaState::kStarting:
      if (now - replica.since > variant.start_limit && !replica.forced) {
        replica.forced = true;
        replica.message = fmt::format("not ready after {:g} s ({})",
                                      to_seconds(variant.start_limit), replica.message);
        runner_.signal(*entry.process, SIGKILL);
      } else if (!replica.forced && !replica.probing && now >= replica.probe_at) {
        probe(replica);
      }
      return;
    case ReplicaState::kReady:
      if (entry.failures > 0 && now - replica.since >= config_.stable_after) {
        entry.failures = 0;
        unsaved_ = true;
      }
      return;
    case ReplicaState::kFailed:
      if (now >= replica.retry_at) start(replica);
      return;
    case ReplicaState::kDraining:
      if (entry.gateway_port == 0) return stop(replica);
      if (now - replica.since >= variant.drain_limit) {
        log::warn("replica_drain_cut", {{"replica", entry.name}, {"running", replica.running}});
        stop(replica);
      }
      return;
    case ReplicaState::kStopping:
      if (!entry.process || now - replica.since < variant.stop_limit) return;
      if (!replica.forced) log::warn("replica_killed", {{"replica", entry.name}});
      replica.forced = true;
      runner_.signal(*entry.process, SIGKILL);
      return;
  }
}

void ProcessActuatorImpl::probe(Replica& replica) {
  replica.probing = true;
  net::RequestHead head;
  head.method = "GET";
  head.target = replica.variant->health_path;
  requests_.send({config_.host, replica.entry.port, false}, std::move(head), "",
                 [this, name = replica.entry.name, process = *replica.entry.process](
                     const Result<net::WholeAnswer>& answer) { probed(name, process, answer); });
}

void ProcessActuatorImpl::probed(const std::string& name, const ProcessId& process,
                                 const Result<net::WholeAnswer>& answer) {
  Replica* const replica = find(name);
  if (replica == nullptr) return;
  replica->probing = false;
  if (replica->entry.state != ReplicaState::kStarting || replica->entry.process != process) return;
  if (!answer || answer->head.status < 200 || answer->head.status > 299) {
    replica->message = fmt::format(
        "health check at {}{}: {}", url_of(replica->entry.port), replica->variant->health_path,
        answer ? fmt::format("answered {}", answer->head.status) : answer.error().message);
    replica->probe_at = loop_.now() + config_.poll;
    return;
  }
  // Somebody else may have answered, on a port that ours could not get.
  if (!runner_.look(process).alive) return;
  enter(*replica, ReplicaState::kReady);
  replica->message.clear();
  sync_at_ = loop_.now();
  log::info("replica_ready", {{"replica", name}, {"port", replica->entry.port}});
  save();
  sync();
}

void ProcessActuatorImpl::forget_gone() {
  const auto before = replicas_.size();
  std::erase_if(replicas_, [](const auto& replica) {
    return replica->entry.state == ReplicaState::kStopping && !replica->entry.process &&
           replica->entry.gateway_port == 0;
  });
  unsaved_ = unsaved_ || replicas_.size() != before;
}

void ProcessActuatorImpl::trim_logs() {
  for (const auto& replica : replicas_) {
    trim_log(log_path(replica->entry.name), config_.log_bytes_max);
  }
}

}  // namespace tailrace::autoscaler
