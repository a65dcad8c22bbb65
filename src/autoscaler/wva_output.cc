#include "autoscaler/wva_output.h"

#include <algorithm>

#include "tailrace/capacity/limits.h"

namespace tailrace::autoscaler {
namespace {

/// All series are asked for at once.
constexpr const char* kAllQueries = "all";
/// Namespaces come from exporters' labels; further ones than these count as "other".
constexpr std::size_t kNamespacesMax = 1000;

/// "settings prod-llama" is the settings' trouble.
std::string component_of(const std::string& subject) {
  return word(subject.substr(0, subject.find(' ')));
}

bool here(const std::vector<capacity::Decision>& decisions, const std::string& ns,
          const std::string& variant) {
  return std::any_of(decisions.begin(), decisions.end(), [&](const auto& decision) {
    return decision.key.ns == ns && decision.variant == variant;
  });
}

Labels labels_of(const capacity::ModelAnalysis& model, const capacity::VariantCapacity& variant) {
  return {
      {"variant_name", variant.name}, {"namespace", model.key.ns}, {"model_name", model.key.model}};
}

}  // namespace

std::string rule_of(const capacity::Decision& decision) {
  for (auto step = decision.steps.rbegin(); step != decision.steps.rend(); ++step) {
    if (step->before != step->after) return word(step->rule);
  }
  return decision.informed ? "none" : "held";
}

Labels WvaOutput::own(Labels labels) const {
  if (!instance_.empty()) labels.push_back({"controller_instance", instance_});
  return labels;
}

void WvaOutput::count(const CycleRecord& record) {
  for (const auto& decision : record.result.decisions) {
    if (decision.action != capacity::Action::kHold) {
      const std::string direction = decision.action == capacity::Action::kScaleUp ? "up" : "down";
      ++scalings_[{decision.key.ns, decision.variant}][{direction, rule_of(decision)}];
    }
    for (const auto& step : decision.steps) {
      if (step.before == step.after) continue;
      if (step.rule == "limit") ++limited_[{decision.key.ns, decision.variant}];
      const bool of_operator = step.rule == "min" || step.rule == "max" ||
                               step.rule == "scale to zero" || step.rule == "scale from zero";
      if (of_operator) ++enforced_[word(step.rule)];
    }
  }
  const auto gone = [&](const auto& entry) {
    return !here(record.result.decisions, entry.first.first, entry.first.second);
  };
  std::erase_if(scalings_, gone);
  std::erase_if(limited_, gone);
}

void WvaOutput::record(const CycleRecord& record, const CycleFacts& facts) {
  (record.blind ? failed_ : succeeded_).observe(facts.duration_s);
  collected_.observe(facts.collect_s);
  for (const auto& [subject, kind] : facts.errors) ++errors_[{component_of(subject), kind}];
  for (const auto& condition : record.conditions) {
    if (condition.kind == observe::ConditionKind::kSourceFailed) ++collection_errors_;
  }
  if (record.blind) return;
  if (facts.leads) count(record);
  in_force_ = record.in_force;
  models_ = record.result.models.size();
  if (facts.snapshot != nullptr) look(record, *facts.snapshot);
}

void WvaOutput::look(const CycleRecord& record, const Snapshot& snapshot) {
  pods_.clear();
  age_.clear();
  kv_.clear();
  for (const auto& model : snapshot.models) {
    for (const auto& variant : model.variants) {
      pods_[model.key.ns] += static_cast<double>(variant.pods.size());
      auto& states = age_[variant.name];  // by its name alone, as there
      for (const auto& pod : variant.pods) {
        const bool fresh = pod.rate_per_s || pod.running || pod.waiting;
        states[fresh ? kFresh : pod.time_s > 0 ? kStale : kMissing] += 1;
      }
    }
  }
  for (const auto& use : snapshot.kv) kv_[{use.key, use.variant}] = use;
  for (const auto& [ns, pods] : snapshot.unmatched_pods) {
    const bool room = unmapped_.contains(ns) || unmapped_.size() < kNamespacesMax;
    unmapped_[room ? ns : "other"] += static_cast<double>(pods);
  }
  nodes_read_.reset();
  if (!snapshot.gpus) {
    free_gpus_.clear();
    return;
  }
  nodes_read_ = snapshot.gpus->known;
  if (!snapshot.gpus->known) return;
  const auto left = capacity::free_gpus({.available = snapshot.gpus->count}, record.result.models);
  free_gpus_.clear();
  for (const auto& [kind, gpus] : left.available) free_gpus_[kind] = static_cast<double>(gpus);
  vendors_ = snapshot.gpus->vendor;
}

void WvaOutput::counters(Page& page) const {
  page.gauge(SeriesId::kWvaInterval, own({}), interval_s_);
  for (const auto& [names, times] : limited_) {
    page.counter(
        SeriesId::kWvaLimited,
        {{"variant_name", names.second}, {"namespace", names.first}, {"limiter_name", "gpu"}},
        times);
  }
  for (const auto& [name, times] : enforced_) {
    page.counter(SeriesId::kWvaEnforced, {{"policy_type", name}}, times);
  }
  for (const auto& [names, times] : errors_) {
    page.counter(SeriesId::kWvaErrors, {{"component", names.first}, {"error_type", names.second}},
                 times);
  }
  if (!succeeded_.empty())
    succeeded_.show(page.add(SeriesId::kWvaDuration, {{"status", "success"}}));
  if (!failed_.empty()) failed_.show(page.add(SeriesId::kWvaDuration, {{"status", "error"}}));
  if (!collected_.empty()) {
    collected_.show(page.add(SeriesId::kWvaCollection, {{"query_type", kAllQueries}}));
  }
  if (collection_errors_ > 0) {
    page.counter(SeriesId::kWvaCollectionErrors,
                 {{"query_type", kAllQueries},
                  {"reason", word(to_string(observe::ConditionKind::kSourceFailed))}},
                 collection_errors_);
  }
  for (const auto& [ns, pods] : unmapped_) {
    page.counter(SeriesId::kWvaUnmapped, {{"namespace", ns}, {"reason", "unresolved"}}, pods);
  }
}

void WvaOutput::fleet(Page& page) const {
  page.gauge(SeriesId::kWvaModels, own({}), static_cast<double>(models_));
  if (in_force_) {
    for (const auto kind :
         {capacity::OptimizerKind::kCostAware, capacity::OptimizerKind::kGreedyByScore}) {
      const bool greedy = kind == capacity::OptimizerKind::kGreedyByScore;
      page.gauge(SeriesId::kWvaOptimizer,
                 own({{"optimizer_name", greedy ? "greedy-by-score" : "cost-aware"}}),
                 in_force_->optimizer == kind ? 1 : 0);
    }
    const auto flag = [](bool on) { return std::string(on ? "true" : "false"); };
    page.gauge(SeriesId::kWvaConfigInfo,
               own({{"analyzer_name", "queueing-model"},
                    {"limiter_enabled", flag(in_force_->limited)},
                    {"scale_to_zero_enabled", flag(in_force_->scale_to_zero)}}),
               1);
  }
  for (const auto& [ns, pods] : pods_)
    page.gauge(SeriesId::kWvaPods, own({{"namespace", ns}}), pods);
  static constexpr std::array<const char*, kStates> kNames{"fresh", "stale", "missing"};
  for (const auto& [variant, states] : age_) {
    for (std::size_t i = 0; i < kStates; ++i) {
      page.gauge(SeriesId::kWvaFreshness, own({{"variant_name", variant}, {"status", kNames[i]}}),
                 states[i]);
    }
  }
  if (nodes_read_) page.gauge(SeriesId::kWvaGpuDiscovery, own({}), *nodes_read_ ? 1 : 0);
  for (const auto& [kind, gpus] : free_gpus_) {
    const auto vendor = vendors_.find(kind);
    page.gauge(SeriesId::kWvaGpus,
               own({{"accelerator_vendor", vendor == vendors_.end() ? "" : vendor->second},
                    {"accelerator_model", kind},
                    {"accelerator_type", kind}}),
               gpus);
  }
}

void WvaOutput::decision(Page& page, const capacity::Decision& decision) const {
  const Labels labels{{"variant_name", decision.variant},
                      {"namespace", decision.key.ns},
                      {"accelerator_type", decision.accelerator}};
  const auto moved = scalings_.find({decision.key.ns, decision.variant});
  if (moved != scalings_.end()) {
    for (const auto& [what, times] : moved->second) {
      Labels more = labels;
      more.push_back({"direction", what.first});
      more.push_back({"reason", what.second});
      page.counter(SeriesId::kWvaScaling, std::move(more), times);
    }
  }
  const auto desired = static_cast<double>(decision.desired);
  const auto current = static_cast<double>(decision.current);
  page.gauge(SeriesId::kWvaDesired, own(labels), desired);
  page.gauge(SeriesId::kWvaCurrent, own(labels), current);
  page.gauge(SeriesId::kWvaRatio, own(labels), current > 0 ? desired / current : desired);
  page.gauge(SeriesId::kWvaSaturationUp,
             own({{"variant_name", decision.variant}, {"namespace", decision.key.ns}}),
             decision.informed ? 1 : 0);
}

void WvaOutput::variant(Page& page, const capacity::ModelAnalysis& model,
                        const capacity::VariantCapacity& variant) const {
  const Labels labels = labels_of(model, variant);
  if (const auto kv = kv_.find({model.key, variant.name}); kv != kv_.end()) {
    page.gauge(SeriesId::kWvaKvUsed, own(labels), kv->second.used_tokens);
    page.gauge(SeriesId::kWvaKvCapacity, own(labels), kv->second.capacity_tokens);
  }
  if (!model.active || model.failure) return;  // sums over what is not known
  if (variant.evidence == capacity::Evidence::kSized) {
    Labels more = labels;
    more.push_back({"accelerator_type", variant.accelerator});
    page.gauge(SeriesId::kWvaUtilization, own(std::move(more)), variant.utilization);
  }
  double required = model.required_per_s, spare = model.spare_per_s;
  if (const auto role = model.roles.find(variant.role); role != model.roles.end()) {
    required = role->second.required_per_s;
    spare = role->second.spare_per_s;
  }
  Labels more = labels;
  more.push_back({"unit", "requests_per_second"});
  page.gauge(SeriesId::kWvaRequired, own(more), required);
  page.gauge(SeriesId::kWvaSpare, own(std::move(more)), spare);
}

}  // namespace tailrace::autoscaler
