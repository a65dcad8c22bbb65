// What holds of every cycle of the analyzer, whatever went in?
#pragma once

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "tailrace/capacity/cycle.h"
#include "tailrace/capacity/explain.h"
#include "tailrace/core/check.h"
#include "tailrace/core/text.h"

namespace tailrace::fuzz {

inline void check_amount(const std::optional<double>& value) {
  TAILRACE_CHECK(!value || (std::isfinite(*value) && *value >= 0));
}

inline void check_need(double required, double spare) {
  check_amount(required);
  check_amount(spare);
  TAILRACE_CHECK(required == 0 || spare == 0);
}

inline void check_parameters(const tune::ParameterEstimate& e) {
  if (e.values) {
    for (const double x : {e.values->alpha_ms, e.values->beta_ms, e.values->gamma_ms}) {
      TAILRACE_CHECK(std::isfinite(x) && x > 0);
    }
  }
  for (const auto& x :
       {e.condition, e.nis, e.holdout_error, e.rate_per_s, e.rate_low_per_s, e.rate_high_per_s}) {
    check_amount(x);
  }
}

inline void check_sizing(const queueing::Sizing& s) {
  for (const auto& x :
       {std::optional(s.rate_per_s), std::optional(s.throughput_per_s), s.ttft_rate_per_s,
        s.itl_rate_per_s, s.e2e_rate_per_s, std::optional(s.achieved.max_rate_per_s),
        s.achieved.ttft_ms, s.achieved.itl_ms, s.achieved.e2e_ms, s.achieved.concurrency}) {
    check_amount(x);
  }
}

inline void check_variant(const capacity::VariantCapacity& v) {
  for (const double x : {v.per_replica_per_s, v.total_per_s, v.demand_per_s, v.utilization}) {
    check_amount(x);
  }
  check_parameters(v.parameters);
  if (v.sizing) check_sizing(*v.sizing);
  if (v.evidence == capacity::Evidence::kSized) {
    TAILRACE_CHECK(v.per_replica_per_s > 0 && !v.failure);
  } else {
    TAILRACE_CHECK(v.per_replica_per_s == 0 && v.total_per_s == 0);
    TAILRACE_CHECK(v.failure && !v.failure->empty());
  }
}

inline void check_decision(const capacity::ModelAnalysis& model,
                           const capacity::VariantCapacity& variant,
                           const capacity::Decision& decision) {
  TAILRACE_CHECK(decision.key == model.key && decision.variant == variant.name);
  TAILRACE_CHECK(decision.desired >= 0);
  TAILRACE_CHECK(!decision.reason.empty() && !decision.steps.empty());
  TAILRACE_CHECK(decision.steps.back().after == decision.desired);
  if (!model.active) {
    TAILRACE_CHECK(decision.desired == decision.observed());
    return;
  }
  // Bounds that contradict themselves bind nothing.
  if (variant.min < 0 || (variant.max && *variant.max < variant.min)) return;
  TAILRACE_CHECK(decision.desired >= variant.min);
  TAILRACE_CHECK(!variant.max || decision.desired <= *variant.max);
}

inline void check_result(const capacity::CycleResult& result) {
  std::span<const capacity::Decision> rest = result.decisions;
  for (const auto& model : result.models) {
    TAILRACE_CHECK(rest.size() >= model.variants.size());
    const auto own = rest.first(model.variants.size());
    rest = rest.subspan(model.variants.size());
    for (const double x :
         {model.supply_per_s, model.demand_per_s, model.backlog_per_s, model.slo.targets.ttft_ms,
          model.slo.targets.itl_ms, model.slo.targets.e2e_ms}) {
      check_amount(x);
    }
    check_need(model.required_per_s, model.spare_per_s);
    for (const auto& [role, need] : model.roles) {
      check_need(need.required_per_s, need.spare_per_s);
      check_amount(need.demand_per_s);
    }
    for (std::size_t i = 0; i < own.size(); ++i) {
      check_variant(model.variants[i]);
      check_decision(model, model.variants[i], own[i]);
    }
    TAILRACE_CHECK(!capacity::explain(model, own).empty());
    boost::system::error_code broken;
    (void)boost::json::parse(capacity::explain_json(model, own), broken);
    TAILRACE_CHECK(!broken);
  }
  TAILRACE_CHECK(rest.empty());
}

}  // namespace tailrace::fuzz
