#include "tailrace/autoscaler/cycle_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <span>

#include "tailrace/capacity/explain.h"
#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace {

namespace json = boost::json;

json::string text(std::string_view value) {
  return json::string(core::valid_utf8(value));
}

json::value number(double value) {
  return std::isfinite(value) ? json::value(value) : json::value(nullptr);
}

/// The decisions of each model.
std::vector<std::span<const capacity::Decision>> by_model(const capacity::CycleResult& result) {
  std::vector<std::span<const capacity::Decision>> out;
  std::span<const capacity::Decision> rest = result.decisions;
  for (const auto& model : result.models) {
    const std::size_t count = std::min(model.variants.size(), rest.size());
    out.push_back(rest.first(count));
    rest = rest.subspan(count);
  }
  return out;
}

/// capacity's own JSON of each model: said there once, used here.
std::vector<json::object> model_documents(const capacity::CycleResult& result) {
  std::vector<json::object> out;
  const auto decisions = by_model(result);
  for (std::size_t i = 0; i < result.models.size(); ++i) {
    boost::system::error_code error;
    auto parsed = json::parse(capacity::explain_json(result.models[i], decisions[i]), error);
    out.push_back(!error && parsed.is_object() ? parsed.get_object() : json::object{});
  }
  return out;
}

json::object outcome_json(bool done, std::string_view message) {
  return {{"done", done}, {"message", text(message)}};
}

json::value outcome_of(const CycleReport& report, const std::string& id) {
  if (report.dry_run) return outcome_json(false, "dry run: nothing was changed");
  if (!report.leads) {
    return outcome_json(false,
                        report.leader.empty() ? "another one leads" : report.leader + " leads");
  }
  const auto found = report.results.find(id);
  if (found == report.results.end()) return nullptr;
  auto out = outcome_json(found->second.done, found->second.message());
  json::object by;
  for (const auto& [name, outcome] : found->second.by_actuator) {
    by[text(name)] = outcome_json(outcome.done, outcome.message);
  }
  out["actuators"] = std::move(by);
  return out;
}

json::array conditions_json(const CycleReport& report) {
  json::array out;
  for (const auto& condition : report.record.conditions) {
    out.push_back(json::object{{"kind", text(to_string(condition.kind))},
                               {"subject", text(condition.subject)},
                               {"message", text(condition.message)}});
  }
  return out;
}

json::array troubles_json(const CycleReport& report) {
  json::array out;
  for (const Trouble& trouble : report.troubles) {
    out.push_back(
        json::object{{"subject", text(trouble.subject)}, {"message", text(trouble.message)}});
  }
  return out;
}

const json::value& at(const json::object& object, std::string_view name) {
  static const json::value kNull;
  const auto* value = object.if_contains(json::string_view(name.data(), name.size()));
  return value == nullptr ? kNull : *value;
}

json::object line_of(const CycleReport& report, const Order& order, const json::object& model,
                     const json::object& variant) {
  json::object out{{"id", text(order.id)},
                   {"time_s", number(report.record.time_s)},
                   {"cycle", report.record.cycle},
                   {"namespace", at(model, "namespace")},
                   {"model", at(model, "model")}};
  const json::value sizing = at(variant, "sizing");
  for (const auto& member : variant) out.insert(member);
  out["slo"] = at(model, "slo");
  out["inputs"] = json::object{
      {"demand_per_s", at(model, "demand_per_s")}, {"backlog_per_s", at(model, "backlog_per_s")},
      {"supply_per_s", at(model, "supply_per_s")}, {"required_per_s", at(model, "required_per_s")},
      {"spare_per_s", at(model, "spare_per_s")},   {"workload", at(out, "workload")}};
  out.erase("workload");
  out["binding"] = sizing.is_object() ? at(sizing.get_object(), "binding") : json::value(nullptr);
  out["model_failure"] = at(model, "failure");
  out["outcome"] = outcome_of(report, order.id);
  return out;
}

}  // namespace

std::string OrderResult::message() const {
  std::string out;
  for (const auto& [name, outcome] : by_actuator) {
    if (outcome.message.empty()) continue;
    out += fmt::format("{}{}: {}", out.empty() ? "" : "; ", name, outcome.message);
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> CycleReport::errors() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Trouble& trouble : troubles) out.emplace_back(trouble.subject, "trouble");
  for (const auto& [id, result] : results) {
    for (const auto& [name, outcome] : result.by_actuator) {
      if (!outcome.done) out.emplace_back(name, "order");
    }
  }
  return out;
}

std::uint64_t CycleReport::undecided() const {
  const auto& models = record.result.models;
  return static_cast<std::uint64_t>(std::count_if(models.begin(), models.end(), [](const auto& m) {
    return (m.failure || !m.active) && !m.variants.empty();
  }));
}

std::uint64_t CycleReport::orders_failed() const {
  return static_cast<std::uint64_t>(std::count_if(
      results.begin(), results.end(),
      [](const auto& entry) { return !entry.second.done && !entry.second.by_actuator.empty(); }));
}

bool CycleReport::slo_unreachable() const {
  const auto decisions = by_model(record.result);
  for (std::size_t i = 0; i < record.result.models.size(); ++i) {
    const auto& model = record.result.models[i];
    if (model.failure || !model.active || !(model.demand_per_s > 0)) continue;
    double reachable = 0;
    bool all_known = true;
    for (std::size_t j = 0; j < decisions[i].size(); ++j) {
      const auto& variant = model.variants[j];
      const auto replicas =
          static_cast<double>(std::max(decisions[i][j].desired, decisions[i][j].observed()));
      if (variant.evidence == capacity::Evidence::kUnreachable && replicas > 0) return true;
      all_known = all_known && variant.evidence == capacity::Evidence::kSized;
      reachable += replicas * variant.per_replica_per_s;
    }
    if (all_known && reachable < model.demand_per_s) return true;
  }
  return false;
}

std::vector<std::string> decision_lines(const CycleReport& report) {
  std::vector<std::string> out;
  auto documents = model_documents(report.record.result);
  std::size_t order = 0;
  for (auto& model : documents) {
    auto* variants = at(model, "variants").is_array() ? &model["variants"].get_array() : nullptr;
    if (variants == nullptr) continue;
    for (auto& variant : *variants) {
      if (order >= report.record.orders.size()) return out;
      if (!variant.is_object()) continue;
      out.push_back(json::serialize(
          line_of(report, report.record.orders[order++], model, variant.get_object())));
    }
  }
  return out;
}

std::string with_outcome(const std::string& line, bool done, const std::string& message) {
  boost::system::error_code error;
  auto document = json::parse(line, error);
  if (error || !document.is_object()) return line;
  document.get_object()["outcome"] = outcome_json(done, message);
  return json::serialize(document);
}

std::string report_json(const CycleReport& report) {
  const CycleRecord& record = report.record;
  json::array models;
  for (auto& model : model_documents(record.result)) models.push_back(std::move(model));
  json::array orders;
  for (const Order& order : record.orders) {
    const auto& d = order.decision;
    orders.push_back(json::object{{"id", text(order.id)},
                                  {"namespace", text(d.key.ns)},
                                  {"model", text(d.key.model)},
                                  {"variant", text(d.variant)},
                                  {"desired", d.desired},
                                  {"outcome", outcome_of(report, order.id)}});
  }
  return json::serialize(json::object{
      {"cycle", record.cycle},
      {"time_s", number(record.time_s)},
      {"leads", report.leads},
      {"leader", text(report.leader)},
      {"dry_run", report.dry_run},
      {"blind", record.blind ? json::value(text(*record.blind)) : json::value(nullptr)},
      {"collect_s", number(report.collect_s)},
      {"think_s", number(report.think_s)},
      {"apply_s", number(report.apply_s)},
      {"slo_unreachable", report.slo_unreachable()},
      {"models", std::move(models)},
      {"orders", std::move(orders)},
      {"conditions", conditions_json(report)},
      {"troubles", troubles_json(report)}});
}

}  // namespace tailrace::autoscaler
