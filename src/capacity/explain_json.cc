#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "capacity/names.h"
#include "tailrace/capacity/explain.h"
#include "tailrace/core/text.h"

namespace tailrace::capacity {
namespace {

namespace json = boost::json;

json::value number(double value) {
  return std::isfinite(value) ? json::value(value) : json::value(nullptr);
}
json::value number(const std::optional<double>& value) {
  return value ? number(*value) : json::value(nullptr);
}
json::value target(double value) {
  return value > 0 ? number(value) : json::value(nullptr);
}
json::string text(std::string_view value) {
  return json::string(core::valid_utf8(value));
}
json::value text_or_null(std::string_view value) {
  return value.empty() ? json::value(nullptr) : json::value(text(value));
}

json::object slo_json(const SloTarget& slo) {
  return {{"ttft_ms", target(slo.targets.ttft_ms)},
          {"itl_ms", target(slo.targets.itl_ms)},
          {"e2e_ms", target(slo.targets.e2e_ms)},
          {"statistic", text(to_string(slo.targets.statistic))},
          {"source", text(to_string(slo.source))},
          {"reason", text_or_null(slo.reason)}};
}

json::object parameters_json(const tune::ParameterEstimate& p) {
  json::object out{{"alpha_ms", nullptr}, {"beta_ms", nullptr}, {"gamma_ms", nullptr}};
  if (p.values) {
    out["alpha_ms"] = number(p.values->alpha_ms);
    out["beta_ms"] = number(p.values->beta_ms);
    out["gamma_ms"] = number(p.values->gamma_ms);
  }
  out["identified"] = p.identified;
  out["accepted"] = p.accepted;
  out["condition"] = number(p.condition);
  out["nis"] = number(p.nis);
  out["rate_per_s"] = number(p.rate_per_s);
  out["rate_low_per_s"] = number(p.rate_low_per_s);
  out["rate_high_per_s"] = number(p.rate_high_per_s);
  out["reason"] = text_or_null(p.reason);
  return out;
}

json::value workload_json(const std::optional<queueing::Workload>& workload) {
  if (!workload) return nullptr;
  return json::object{{"rate_per_s", number(workload->rate_per_s)},
                      {"input_tokens", number(workload->input_mean)},
                      {"output_tokens", number(workload->output_mean)},
                      {"input_cv", number(workload->input_cv())},
                      {"output_cv", number(workload->output_cv())},
                      {"prefix_hit", number(workload->prefix_hit)}};
}

json::value sizing_json(const std::optional<queueing::Sizing>& sizing) {
  if (!sizing) return nullptr;
  const queueing::Latency& achieved = sizing->achieved;
  return json::object{{"reachable", sizing->reachable},
                      {"rate_per_s", number(sizing->rate_per_s)},
                      {"binding", text(limit_text(*sizing))},
                      {"ttft_ms", number(achieved.ttft_ms)},
                      {"itl_ms", number(achieved.itl_ms)},
                      {"e2e_ms", number(achieved.e2e_ms)},
                      {"concurrency", number(achieved.concurrency)},
                      {"out_of_range", text_or_null(to_string(achieved.out_of_range))},
                      {"rate_out_of_range", text_or_null(to_string(sizing->out_of_range))},
                      {"from_oracle", achieved.from_oracle},
                      {"reason", text_or_null(sizing->reason)}};
}

json::array steps_json(const std::vector<DecisionStep>& steps) {
  json::array out;
  for (const DecisionStep& step : steps) {
    out.push_back(json::object{{"rule", text(step.rule)},
                               {"text", text(step.text)},
                               {"before", step.before},
                               {"after", step.after}});
  }
  return out;
}

json::array alternatives_json(const ModelAnalysis& model, const Decision& decision) {
  json::array out;
  for (const Alternative& a : alternatives(model, decision)) {
    out.push_back(
        json::object{{"variant", text(a.variant)},
                     {"replicas", a.replicas > 0 ? json::value(a.replicas) : json::value(nullptr)},
                     {"cost_ratio", number(a.cost_ratio)},
                     {"text", text(a.text)}});
  }
  return out;
}

json::object variant_json(const VariantCapacity& v) {
  return {{"role", text(role_text(v.role))},
          {"cost", number(v.cost)},
          {"gpus_per_replica", v.gpus_per_replica},
          {"min", v.min},
          {"max", v.max ? json::value(*v.max) : json::value(nullptr)},
          {"evidence", text(to_string(v.evidence))},
          {"failure", v.failure ? json::value(text(*v.failure)) : json::value(nullptr)},
          {"per_replica_per_s", number(v.per_replica_per_s)},
          {"total_per_s", number(v.total_per_s)},
          {"demand_per_s", number(v.demand_per_s)},
          {"utilization", number(v.utilization)},
          {"parameters", parameters_json(v.parameters)},
          {"workload", workload_json(v.workload)},
          {"sizing", sizing_json(v.sizing)}};
}

json::object decision_json(const ModelAnalysis& model, const Decision& d) {
  json::object out{{"variant", text(d.variant)},
                   {"accelerator", text(d.accelerator)},
                   {"current", d.current},
                   {"pending", d.pending},
                   {"desired", d.desired},
                   {"action", text(to_string(d.action))},
                   {"reason", text(d.reason)},
                   {"waits_for", text_or_null(d.waits_for)},
                   {"informed", d.informed},
                   {"steps", steps_json(d.steps)},
                   {"rejected", alternatives_json(model, d)}};
  if (!d.writer.id.empty()) {
    out["writer"] = json::object{{"id", text(d.writer.id)}, {"generation", d.writer.generation}};
  }
  const auto found = std::find_if(model.variants.begin(), model.variants.end(),
                                  [&d](const VariantCapacity& v) { return v.name == d.variant; });
  if (found != model.variants.end()) {
    for (auto& member : variant_json(*found)) out.insert(std::move(member));
  }
  return out;
}

}  // namespace

std::string explain_json(const ModelAnalysis& model, std::span<const Decision> decisions) {
  const bool known = demand_known(model);
  json::object roles;
  for (const auto& [role, need] : model.roles) {
    roles[role_text(role)] = json::object{{"demand_per_s", number(need.demand_per_s)},
                                          {"backlog_per_s", number(need.backlog_per_s)},
                                          {"required_per_s", number(need.required_per_s)},
                                          {"spare_per_s", number(need.spare_per_s)}};
  }
  json::array notes;
  for (const std::string& note : model.notes) notes.push_back(text(note));
  json::array variants;
  for (const Decision& decision : decisions) variants.push_back(decision_json(model, decision));
  return json::serialize(json::object{
      {"namespace", text(model.key.ns)},
      {"model", text(model.key.model)},
      {"active", model.active},
      {"failure", model.failure ? json::value(text(*model.failure)) : json::value(nullptr)},
      {"priority", number(model.priority)},
      {"slo", slo_json(model.slo)},
      {"supply_per_s", known ? number(model.supply_per_s) : json::value(nullptr)},
      {"demand_per_s", known ? number(model.demand_per_s) : json::value(nullptr)},
      {"backlog_per_s", number(model.backlog_per_s)},
      {"required_per_s", number(model.required_per_s)},
      {"spare_per_s", number(model.spare_per_s)},
      {"roles", std::move(roles)},
      {"notes", std::move(notes)},
      {"variants", std::move(variants)}});
}

}  // namespace tailrace::capacity
