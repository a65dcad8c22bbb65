#include "tailrace/autoscaler/brain.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tailrace::autoscaler {

namespace {

std::optional<InForce> in_force(const capacity::CycleConfig& config) {
  const auto defaults = config.models.settings_of({});
  if (!defaults) return std::nullopt;
  return InForce{config.optimizer.kind, config.total_gpus.has_value() || config.limit_to_nodes,
                 defaults->scale_to_zero};
}

}  // namespace

struct Brain::Impl {
  capacity::CycleConfig config;
  capacity::CycleState state;
  std::uint64_t cycle = 0;
};

Brain::Brain(const std::optional<capacity::StabilisationConfig>& stabilisation)
    : impl_(std::make_unique<Impl>(Impl{{}, capacity::CycleState(stabilisation)})) {}
Brain::Brain(Brain&&) noexcept = default;
Brain& Brain::operator=(Brain&&) noexcept = default;
Brain::~Brain() = default;

void Brain::configure(capacity::CycleConfig config) {
  impl_->config = std::move(config);
}

CycleRecord Brain::think(const Snapshot& snapshot) {
  CycleRecord record;
  record.cycle = ++impl_->cycle;
  record.time_s = snapshot.time_s;
  record.conditions = snapshot.conditions;
  record.blind = snapshot.blind;
  if (snapshot.blind) return record;
  capacity::CycleInput input;
  input.models = snapshot.models;
  input.limits = snapshot.limits;
  input.zero = snapshot.zero;
  if (snapshot.gpus && snapshot.gpus->known) input.node_gpus = snapshot.gpus->count;
  record.result = capacity::run_cycle(snapshot.time_s, input, impl_->config, impl_->state);
  record.in_force = in_force(impl_->config);
  record.orders.reserve(record.result.decisions.size());
  for (const auto& decision : record.result.decisions) {
    record.orders.push_back({fmt::format("{}-{}/{}/{}/{}", decision.writer.generation, record.cycle,
                                         decision.key.ns, decision.key.model, decision.variant),
                             decision});
  }
  return record;
}

void Brain::stabilise(const std::optional<capacity::StabilisationConfig>& stabilisation) {
  impl_->state.stabilise(stabilisation);
}

void Brain::count_from(std::uint64_t cycle) {
  impl_->cycle = std::max(impl_->cycle, cycle);
}

std::string Brain::save(double now_s) {
  return impl_->state.save(now_s);
}

Result<void> Brain::restore(std::string_view document) {
  return impl_->state.restore(document);
}

}  // namespace tailrace::autoscaler
