#include "tailrace/capacity/enforcer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "tailrace/core/text.h"

namespace tailrace::capacity {
namespace {

/// The published default of a cost that nobody has set.
constexpr double kCostUnset = 10;

/// Bounds that contradict themselves bind nothing: the analysis has told, and the replicas stay.
bool has_bounds(const VariantCapacity& variant) {
  return variant.min >= 0 && (!variant.max || *variant.max >= variant.min);
}

void keep_bounds(const VariantCapacity& variant, Decision& decision) {
  if (!has_bounds(variant)) return;
  const std::int64_t min = variant.min;
  if (variant.max && decision.desired > *variant.max) {
    decision.apply("max",
                   fmt::format("{} cut to the maximum {}{}", decision.desired, *variant.max,
                               *variant.max == 0 ? ", with which it serves nothing" : ""),
                   *variant.max);
  }
  if (decision.desired < min) {
    decision.apply("min", fmt::format("{} raised to the minimum {}", decision.desired, min), min);
  }
}

/// The variant that a model without a replica begins with.
std::optional<std::size_t> cheapest(const ModelAnalysis& model) {
  std::optional<std::size_t> best;
  const auto order = [&model](std::size_t i) {
    const VariantCapacity& v = model.variants[i];
    return std::tuple(v.cost > 0 ? v.cost : kCostUnset, std::string_view(v.name));
  };
  for (std::size_t i = 0; i < model.variants.size(); ++i) {
    if (model.variants[i].max.value_or(1) < 1 || !has_bounds(model.variants[i])) continue;
    if (!best || order(i) < order(*best)) best = i;
  }
  return best;
}

}  // namespace

Result<void> check_bounds(const Variant& variant) {
  const auto wrong = [&variant](std::string what) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("variant {}: {}", core::quoted(variant.name), std::move(what)));
  };
  if (variant.min < 0) return wrong(fmt::format("min is {}; use 0 or more", variant.min));
  if (variant.max && *variant.max < variant.min) {
    return wrong(fmt::format("min {} is above max {}; use a minimum of at most the maximum",
                             variant.min, *variant.max));
  }
  return {};
}

void enforce(const ModelAnalysis& model, const ZeroEvidence& zero, std::span<Decision> decisions) {
  if (!model.active || decisions.size() != model.variants.size()) return;
  for (std::size_t i = 0; i < decisions.size(); ++i) keep_bounds(model.variants[i], decisions[i]);

  const bool may_be_empty =
      zero.enabled && std::all_of(model.variants.begin(), model.variants.end(),
                                  [](const auto& v) { return v.min == 0 && has_bounds(v); });
  const bool waiting = zero.waiting && *zero.waiting > 0;
  if (may_be_empty && zero.requests && *zero.requests == 0 && !waiting) {
    for (Decision& decision : decisions) {
      if (decision.desired == 0) continue;
      decision.apply("scale to zero",
                     fmt::format("no request in the last {:.0f} s", zero.retention_s), 0);
    }
    return;
  }
  const bool empty = std::all_of(decisions.begin(), decisions.end(),
                                 [](const Decision& d) { return d.desired <= 0; });
  if (!empty || (may_be_empty && !waiting)) return;
  const auto first = cheapest(model);
  if (!first) {
    for (Decision& decision : decisions) {
      if (decision.observed() > 0 || model.demand_per_s > 0 || waiting) {
        decision.waits_for = "a maximum above 0: no variant of the model may have a replica";
      }
    }
    return;
  }
  decisions[*first].apply("scale from zero",
                          waiting ? fmt::format("{:.0f} request{}", *zero.waiting,
                                                *zero.waiting == 1 ? " waits" : "s wait")
                                  : "scale to zero is off: the cheapest variant keeps 1",
                          1);
}

}  // namespace tailrace::capacity
