#include "tailrace/autoscaler/scale_actuator.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "tailrace/core/text.h"
#include "tailrace/kubernetes/scale.h"

namespace tailrace::autoscaler {
namespace {

bool was_cut_by_limit(const capacity::Decision& decision) {
  return std::any_of(decision.steps.begin(), decision.steps.end(), [](const auto& step) {
    return step.rule == "limit" && step.after < step.before;
  });
}

class ApiScaleActuator final : public ScaleActuator {
 public:
  ApiScaleActuator(kubernetes::Api& api, kubernetes::EventRecorder* events)
      : api_(api), events_(events) {}
  /// What is under way is cancelled, and nobody is told.
  ~ApiScaleActuator() override {
    if (!batch_) return;
    batch_->done = nullptr;
    batch_->calls.clear();
  }
  ApiScaleActuator(const ApiScaleActuator&) = delete;
  ApiScaleActuator& operator=(const ApiScaleActuator&) = delete;

  void see(const kubernetes::Inventory& inventory) override {
    known_.clear();
    for (const auto& variant : inventory.variants) known_[{variant.ns, variant.name}] = variant;
  }

  void apply(std::vector<Order> orders, UniqueFunction<void(std::vector<Outcome>)> done) override {
    ++cycle_;
    finish_as_replaced();
    batch_ = std::make_shared<Batch>();
    batch_->done = std::move(done);
    const auto batch = batch_;
    for (auto& order : orders) {
      batch->outcomes.push_back({order.id, false, "no answer"});
      batch->open++;
    }
    for (std::size_t i = 0; i < orders.size(); ++i) carry_out(batch, i, orders[i].decision);
    close_one(batch);
  }

 private:
  /// The orders of one cycle.
  struct Batch {
    std::vector<Outcome> outcomes;
    std::vector<std::unique_ptr<kubernetes::ApiCall>> calls;
    std::size_t open = 1;  ///< outcomes that are not known, and apply() itself
    UniqueFunction<void(std::vector<Outcome>)> done;
  };

  void finish_as_replaced() {
    if (!batch_ || !batch_->done) return;
    batch_->calls.clear();  // cancels
    for (auto& outcome : batch_->outcomes) {
      if (outcome.message == "no answer") outcome.message = "replaced by a newer decision";
    }
    auto done = std::move(batch_->done);
    batch_->done = nullptr;
    done(std::move(batch_->outcomes));
  }

  static void close_one(const std::shared_ptr<Batch>& batch) {
    if (--batch->open > 0 || !batch->done) return;
    auto done = std::move(batch->done);
    batch->done = nullptr;
    done(std::move(batch->outcomes));
  }

  static void settle(const std::shared_ptr<Batch>& batch, std::size_t i, bool well,
                     std::string message) {
    if (!batch->done) return;
    batch->outcomes[i].done = well;
    batch->outcomes[i].message = std::move(message);
    close_one(batch);
  }

  void carry_out(const std::shared_ptr<Batch>& batch, std::size_t i,
                 const capacity::Decision& decision) {
    const auto found = known_.find({decision.key.ns, decision.variant});
    if (found == known_.end()) {
      return settle(batch, i, false,
                    fmt::format("no object of the cluster is known as {} in namespace {}",
                                core::quoted(decision.variant), core::quoted(decision.key.ns)));
    }
    const auto& variant = found->second;
    if (decision.action == capacity::Action::kHold) {
      tell(variant, decision);
      return settle(batch, i, true, fmt::format("{} stay", decision.observed()));
    }
    if (variant.scaler != kubernetes::ScalerKind::kDeployment) {
      tell(variant, decision);
      return settle(batch, i, true,
                    fmt::format("left to {} {}, which reads the exported number",
                                to_string(variant.scaler), variant.name));
    }
    kubernetes::ScaleChange change{variant.target.scale_path(), variant.spec_replicas,
                                   decision.desired};
    batch->calls.push_back(kubernetes::change_scale(
        api_, std::move(change),
        [this, batch, i, variant, decision](const Result<kubernetes::ScaleOutcome>& outcome) {
          scaled(batch, i, variant, decision, outcome);
        }));
  }

  void scaled(const std::shared_ptr<Batch>& batch, std::size_t i,
              const kubernetes::DiscoveredVariant& variant, const capacity::Decision& decision,
              const Result<kubernetes::ScaleOutcome>& outcome) {
    if (!outcome) return settle(batch, i, false, outcome.error().message);
    using Kind = kubernetes::ScaleOutcome::Kind;
    switch (outcome->kind) {
      case Kind::kPatched:
        tell(variant, decision);
        return settle(batch, i, true,
                      fmt::format("{} scaled from {} to {}", variant.target.name,
                                  variant.spec_replicas, decision.desired));
      case Kind::kAlready:
        return settle(batch, i, true,
                      fmt::format("{} asks for {} already", variant.target.name, decision.desired));
      case Kind::kOvertaken:
        return settle(
            batch, i, false,
            fmt::format("{} asks for {} now and not for {}: somebody else has changed "
                        "it, and the next cycle decides from there",
                        variant.target.name, outcome->scale.spec_replicas, variant.spec_replicas));
    }
  }

  void tell(const kubernetes::DiscoveredVariant& variant, const capacity::Decision& decision) {
    if (events_ == nullptr) return;
    auto note = event_of(decision);
    if (note.reason.empty()) return;
    note.about = {variant.target.api_version, variant.target.kind, variant.target.ns,
                  variant.target.name, variant.target_uid};
    events_->record(cycle_, std::move(note));
  }

  kubernetes::Api& api_;
  kubernetes::EventRecorder* events_;
  std::map<std::pair<std::string, std::string>, kubernetes::DiscoveredVariant> known_;
  std::shared_ptr<Batch> batch_;
  std::uint64_t cycle_ = 0;
};

}  // namespace

kubernetes::EventNote event_of(const capacity::Decision& decision) {
  kubernetes::EventNote note;
  const std::int64_t before = decision.observed();
  const bool cut = was_cut_by_limit(decision);
  note.action = "Scale";
  if (decision.action == capacity::Action::kScaleUp) {
    note.reason = "ScaledUp";
  } else if (decision.action == capacity::Action::kScaleDown) {
    note.reason = decision.desired == 0 ? "ScaledToZero" : "ScaledDown";
  } else if (cut) {
    note.reason = "ResourceConstrained";
    note.warning = true;
  } else if (!decision.informed) {
    note.reason = "MetricsUnavailable";
    note.warning = true;
  } else {
    return {};
  }
  note.note = note.warning ? fmt::format("{} replicas are held: {}", before, decision.reason)
                           : fmt::format("from {} to {} replicas: {}", before, decision.desired,
                                         decision.reason);
  return note;
}

std::unique_ptr<ScaleActuator> ScaleActuator::make(kubernetes::Api& api,
                                                   kubernetes::EventRecorder* events) {
  return std::make_unique<ApiScaleActuator>(api, events);
}

}  // namespace tailrace::autoscaler
