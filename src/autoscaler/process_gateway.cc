// How the gateway comes to know the replicas that are ready, and those that leave.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "autoscaler/process_actuator_impl.h"
#include "tailrace/core/log.h"

namespace tailrace::autoscaler {
namespace json = boost::json;

/// One comparison of what the gateway knows with what it should know.
struct ProcessActuatorImpl::SyncRound {
  int open = 1;  ///< calls under way, and the planning itself
  bool changed = false;
  std::optional<std::string> problem;
};

void ProcessActuatorImpl::sync() {
  if (!admin_ || syncing_ || loop_.now() < sync_at_) return;
  syncing_ = true;
  sync_at_ = loop_.now() + config_.reconcile;
  admin_->list([this](const Result<std::vector<GatewayBackend>>& known) {
    if (!known) return synced(known.error().message, false);
    plan(*known);
  });
}

void ProcessActuatorImpl::plan(const std::vector<GatewayBackend>& known) {
  const auto round = std::make_shared<SyncRound>();
  for (const auto& replica : replicas_) {
    auto& entry = replica->entry;
    const auto view = std::find_if(known.begin(), known.end(),
                                   [&](const auto& backend) { return backend.name == entry.name; });
    const bool listed = view != known.end();
    const bool serves = listed && !view->draining && !view->url.empty();
    replica->running = listed ? view->running : 0;
    if (entry.state == ReplicaState::kReady) {
      if (replica->announce || !serves || view->url != url_of(entry.port)) put(*replica, round);
    } else if (!replica->active() && entry.gateway_port != 0) {
      if (serves) {
        remove(*replica, round);
      } else if (!listed || view->running == 0 || !entry.process) {
        entry.gateway_port = 0;
        unsaved_ = true;
      }
    }
  }
  if (unsaved_) save();
  if (--round->open == 0) synced(round->problem, round->changed);
}

void ProcessActuatorImpl::put(Replica& replica, const std::shared_ptr<SyncRound>& round) {
  auto& entry = replica.entry;
  const auto& variant = *replica.variant;
  entry.gateway_port = entry.port;
  replica.announce = false;
  save();  // before the gateway knows, so that it is told when this one goes
  json::array models;
  for (const auto& model : variant.models) models.emplace_back(model);
  if (models.empty()) models.emplace_back(variant.key.model);
  ++round->open;
  admin_->put(entry.name,
              json::serialize(json::object{{"url", url_of(entry.port)},
                                           {"models", std::move(models)},
                                           {"slots", variant.slots},
                                           {"health_path", variant.health_path}}),
              [this, round, name = entry.name](const Result<void>& done) {
                Replica* const put = find(name);
                if (done) {
                  log::info("replica_registered", {{"replica", name}});
                } else {
                  round->problem = fmt::format("{}: {}", name, done.error().message);
                  if (put != nullptr) put->announce = true;
                }
                if (--round->open == 0) synced(round->problem, round->changed);
              });
}

void ProcessActuatorImpl::remove(Replica& replica, const std::shared_ptr<SyncRound>& round) {
  ++round->open;
  admin_->remove(replica.entry.name,
                 [this, round, name = replica.entry.name](const Result<void>& done) {
                   if (done) {
                     round->changed = true;
                     log::info("replica_deregistered", {{"replica", name}});
                   } else {
                     round->problem = fmt::format("{}: {}", name, done.error().message);
                   }
                   if (--round->open == 0) synced(round->problem, round->changed);
                 });
}

void ProcessActuatorImpl::synced(const std::optional<std::string>& problem, bool again) {
  syncing_ = false;
  const std::string text = problem ? "the gateway's admin API: " + *problem : std::string();
  if (text != gateway_problem_) {
    if (problem) {
      log::warn("gateway_not_told", {{"error", *problem}});
    } else {
      log::info("gateway_told_again");
    }
  }
  gateway_problem_ = text;
  if (again) sync_at_ = loop_.now() + config_.poll / 2;
}

}  // namespace tailrace::autoscaler
