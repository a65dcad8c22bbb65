#include "simulate/order_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tailrace/core/printable.h"
#include "tailrace/schedule/policy.h"
#include "tailrace/schedule/preemption.h"

namespace tailrace::simulate {
namespace {

/// The name of whoever orders, once.
void add(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

std::string policy_of(const RunSpec& spec) {
  if (spec.front.queue) return spec.front.dispatch.policy;
  switch (spec.fleet.line) {
    case FleetSpec::Line::kFcfs:
      return "fcfs";
    case FleetSpec::Line::kPriority:
      return "priority";
    case FleetSpec::Line::kPolicy:
      break;
  }
  return spec.fleet.scheduler.policy;
}

}  // namespace

OrderPlace order_place(const RunSpec& spec) {
  if (spec.front.queue) return {true, false};
  const engine::PolicySchedulerOptions& inside = spec.fleet.scheduler;
  if (spec.fleet.line != FleetSpec::Line::kPolicy || !inside.preemption.enabled) return {};
  const auto policy = schedule::make_policy(inside.policy, inside.policy_options);
  const auto limits = schedule::preemption_limits(inside.policy, inside.preemption);
  return {false, policy && limits && limits->max_per_job > 0 &&
                     (*policy)->age_key(schedule::Job{}) != nullptr};
}

std::string order_text(const Experiment& experiment) {
  std::vector<std::string> front, inside, displacing;
  for (const Cell& cell : experiment.cells) {
    const OrderPlace place = order_place(cell.spec);
    add(place.front ? front : place.displaces ? displacing : inside, policy_of(cell.spec));
  }
  std::string text;
  const auto line = [&text](const std::vector<std::string>& names, std::string_view what) {
    if (names.empty()) return;
    text +=
        fmt::format("{}: {}\n", what, core::printable(fmt::format("{}", fmt::join(names, ", "))));
  };
  line(front, "ordered in front of the engines, as in the gateway");
  line(inside, "ordered inside the engines, what runs stays");
  line(displacing, "ordered inside the engines, displacing what runs, which the gateway cannot do");
  return text;
}

}  // namespace tailrace::simulate
