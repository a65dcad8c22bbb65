#include "tailrace/capacity/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "capacity/greedy.h"
#include "capacity/plan.h"
#include "capacity/rescale_pools.h"
#include "tailrace/core/text.h"

namespace tailrace::capacity {
namespace {

void say_what_is_missing(Plan& plan, OptimizerKind kind) {
  for (const Pool& pool : plan.pools) {
    if (!(pool.remaining > 0)) continue;
    plan.waits_for = fmt::format(
        "room for {:.4g} requests/s: no variant with known capacity is below its maximum{}",
        pool.remaining, kind == OptimizerKind::kGreedyByScore ? " and finds free GPUs" : "");
  }
}

}  // namespace

std::string_view to_string(OptimizerKind kind) {
  return kind == OptimizerKind::kCostAware ? "cost-aware" : "greedy";
}

Result<OptimizerKind> parse_optimizer(std::string_view text) {
  if (text == "cost-aware") return OptimizerKind::kCostAware;
  if (text == "greedy") return OptimizerKind::kGreedyByScore;
  return fail(ErrorCode::kInvalidArgument,
              "unknown optimizer " + core::quoted(text) + "; use cost-aware or greedy");
}

std::vector<Decision> optimize(const OptimizerConfig& config, std::span<const ModelAnalysis> models,
                               const std::optional<GpuLimits>& limits) {
  std::vector<Plan> plans;
  plans.reserve(models.size());
  for (const ModelAnalysis& model : models) plans.emplace_back(model, config);

  GpuLimits left = limits.value_or(GpuLimits{});
  std::vector<Plan*> competing;
  if (config.rescale && config.kind == OptimizerKind::kGreedyByScore && limits) {
    rescale_pools(plans, config.shrink, left);
  }
  for (Plan& plan : plans) {
    if (plan.settled) continue;
    if (!plan.needs_more() || !plan.held.empty()) {
      shrink(plan, config.shrink);
    } else if (config.kind == OptimizerKind::kCostAware) {
      grow(plan, 1, nullptr);
    } else {
      competing.push_back(&plan);
    }
  }
  share_by_score(competing, left);

  std::vector<Decision> decisions;
  for (Plan& plan : plans) {
    if (plan.held.empty()) say_what_is_missing(plan, config.kind);
    for (Decision& decision : decisions_of(plan)) decisions.push_back(std::move(decision));
  }
  return decisions;
}

}  // namespace tailrace::capacity
