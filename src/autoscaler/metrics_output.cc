#include "tailrace/autoscaler/metrics_output.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "autoscaler/metrics_page.h"
#include "autoscaler/wva_output.h"

namespace tailrace::autoscaler {
namespace {

constexpr std::array kConditionKinds{
    observe::ConditionKind::kSourceFailed,  observe::ConditionKind::kSeriesMissing,
    observe::ConditionKind::kLabelMismatch, observe::ConditionKind::kUnmatchedSeries,
    observe::ConditionKind::kPodMissing,    observe::ConditionKind::kStale,
    observe::ConditionKind::kUnavailable,   observe::ConditionKind::kCounterReset,
    observe::ConditionKind::kClockSkew,     observe::ConditionKind::kContradiction,
    observe::ConditionKind::kLimit};

std::string_view action_of(const capacity::Decision& decision) {
  switch (decision.action) {
    case capacity::Action::kScaleUp:
      return "scale_up";
    case capacity::Action::kScaleDown:
      return "scale_down";
    case capacity::Action::kHold:
      break;
  }
  return "hold";
}

Labels labels_of(const capacity::ModelKey& key, std::string_view variant) {
  return {{"variant_name", std::string(variant)}, {"namespace", key.ns}, {"model", key.model}};
}

std::optional<double> seconds(double milliseconds) {
  return milliseconds > 0 ? std::optional(milliseconds / 1000) : std::nullopt;
}

/// Age of a variant's newest reading.
std::optional<double> age_of(const Snapshot& snapshot, const capacity::ModelKey& key,
                             const std::string& variant) {
  std::optional<double> newest;
  for (const auto& model : snapshot.models) {
    if (model.key != key) continue;
    for (const auto& candidate : model.variants) {
      if (candidate.name != variant) continue;
      for (const auto& pod : candidate.pods) {
        if (!newest || pod.time_s > *newest) newest = pod.time_s;
      }
    }
  }
  if (!newest) return std::nullopt;
  return std::max(0.0, snapshot.time_s - *newest);
}

}  // namespace

struct MetricsOutput::Impl {
  explicit Impl(MetricsOutputConfig c)
      : config(std::move(c)), wva(config.controller_instance, config.interval_s) {}

  MetricsOutputConfig config;
  WvaOutput wva;
  std::map<std::string, double> cycles;
  // The latest cycle that decided; its numbers are held through blind ones.
  std::vector<capacity::Decision> decisions;
  std::vector<capacity::ModelAnalysis> models;
  std::map<std::pair<capacity::ModelKey, std::string>, double> seen_at;  ///< of the newest reading
  std::map<observe::ConditionKind, double> conditions;
  std::optional<CycleFacts> facts;
  double time_s = 0;
  bool blind = false;

  void variant(Page& page, const capacity::Decision& decision) const;
  void capacity(Page& page, const capacity::ModelAnalysis& model,
                const capacity::VariantCapacity& variant) const;
  void model(Page& page, const capacity::ModelAnalysis& model) const;
  void counters(Page& page) const;
  bool shown(const capacity::ModelKey& key, const std::string& variant) const;
};

bool MetricsOutput::Impl::shown(const capacity::ModelKey& key, const std::string& variant) const {
  const std::size_t most = std::min(decisions.size(), config.variants_max);
  return std::any_of(decisions.begin(), decisions.begin() + static_cast<std::ptrdiff_t>(most),
                     [&](const auto& d) { return d.key == key && d.variant == variant; });
}

void MetricsOutput::Impl::variant(Page& page, const capacity::Decision& decision) const {
  const Labels labels = labels_of(decision.key, decision.variant);
  page.gauge(SeriesId::kDesired, labels, static_cast<double>(decision.desired));
  page.gauge(SeriesId::kCurrent, labels, static_cast<double>(decision.current));
  page.gauge(SeriesId::kPending, labels, static_cast<double>(decision.pending));
  page.gauge(SeriesId::kInformed, labels, decision.informed ? 1 : 0);
  Labels info = labels;
  info.push_back({"action", std::string(action_of(decision))});
  info.push_back({"rule", rule_of(decision)});
  page.gauge(SeriesId::kDecision, std::move(info), 1);
  const auto seen = seen_at.find({decision.key, decision.variant});
  if (seen != seen_at.end()) {
    page.gauge(SeriesId::kDataAge, labels, std::max(0.0, time_s - seen->second));
  }
}

void MetricsOutput::Impl::capacity(Page& page, const capacity::ModelAnalysis& model,
                                   const capacity::VariantCapacity& variant) const {
  const Labels labels = labels_of(model.key, variant.name);
  const auto& parameters = variant.parameters;
  if (parameters.values) {
    page.gauge(SeriesId::kAlpha, labels, parameters.values->alpha_ms / 1000);
    page.gauge(SeriesId::kBeta, labels, parameters.values->beta_ms / 1000);
    page.gauge(SeriesId::kGamma, labels, parameters.values->gamma_ms / 1000);
    page.gauge(SeriesId::kIdentified, labels, parameters.identified ? 1 : 0);
  }
  page.gauge(SeriesId::kCondition, labels, parameters.condition);
  page.gauge(SeriesId::kNis, labels, parameters.nis);
  page.gauge(SeriesId::kHoldout, labels, parameters.holdout_error);
  if (variant.evidence != capacity::Evidence::kSized) return;
  page.gauge(SeriesId::kRate, labels, variant.per_replica_per_s);
  page.gauge(SeriesId::kUtilization, labels, variant.utilization);
  const auto bound = [&](const char* which, std::optional<double> value) {
    Labels more = labels;
    more.push_back({"bound", which});
    page.gauge(SeriesId::kRateBounds, std::move(more), value);
  };
  bound("low", parameters.rate_low_per_s);
  bound("high", parameters.rate_high_per_s);
}

void MetricsOutput::Impl::model(Page& page, const capacity::ModelAnalysis& analysis) const {
  const Labels labels{{"namespace", analysis.key.ns}, {"model", analysis.key.model}};
  page.gauge(SeriesId::kActive, labels, analysis.active ? 1 : 0);
  if (analysis.slo.source != capacity::SloSource::kNone) {
    const auto slo = [&](const char* kind, std::optional<double> value) {
      page.gauge(SeriesId::kSlo,
                 {labels[0],
                  labels[1],
                  {"kind", kind},
                  {"statistic", std::string(to_string(analysis.slo.targets.statistic))},
                  {"source", std::string(capacity::to_string(analysis.slo.source))}},
                 value);
    };
    slo("ttft", seconds(analysis.slo.targets.ttft_ms));
    slo("itl", seconds(analysis.slo.targets.itl_ms));
    slo("e2e", seconds(analysis.slo.targets.e2e_ms));
  }
  if (!analysis.active || analysis.failure) return;  // sums over what is not known
  page.gauge(SeriesId::kDemand, labels, analysis.demand_per_s);
  page.gauge(SeriesId::kBacklog, labels, analysis.backlog_per_s);
  page.gauge(SeriesId::kSupply, labels, analysis.supply_per_s);
  page.gauge(SeriesId::kRequired, labels, analysis.required_per_s);
  page.gauge(SeriesId::kSpare, labels, analysis.spare_per_s);
}

void MetricsOutput::Impl::counters(Page& page) const {
  for (const auto& [result, times] : cycles) {
    page.counter(SeriesId::kCycles, {{"result", result}}, times);
  }
  if (config.wva_names) wva.counters(page);
}

MetricsOutput::MetricsOutput(MetricsOutputConfig config)
    : impl_(std::make_unique<Impl>(std::move(config))) {}
MetricsOutput::MetricsOutput(MetricsOutput&&) noexcept = default;
MetricsOutput& MetricsOutput::operator=(MetricsOutput&&) noexcept = default;
MetricsOutput::~MetricsOutput() = default;

void MetricsOutput::record(const CycleRecord& record, const CycleFacts& facts) {
  Impl& m = *impl_;
  m.time_s = record.time_s;
  m.blind = record.blind.has_value();
  m.facts = facts;
  m.facts->snapshot = nullptr;  // it may be gone when the page is asked for
  m.facts->errors.clear();
  ++m.cycles[m.blind ? "blind" : record.result.any_failed() ? "undecided" : "decided"];
  m.wva.record(record, facts);
  m.conditions.clear();
  for (const auto& condition : record.conditions) ++m.conditions[condition.kind];
  if (m.blind) return;
  m.decisions = record.result.decisions;
  m.models = record.result.models;
  decltype(m.seen_at) seen;
  for (const auto& decision : m.decisions) {
    const std::pair key{decision.key, decision.variant};
    const auto age = facts.snapshot ? age_of(*facts.snapshot, key.first, key.second) : std::nullopt;
    const auto before = m.seen_at.find(key);
    if (age) {
      seen[key] = facts.snapshot->time_s - *age;
    } else if (before != m.seen_at.end()) {
      seen[key] = before->second;
    }
  }
  m.seen_at = std::move(seen);
}

std::string MetricsOutput::expose() const {
  const Impl& m = *impl_;
  Page page;
  page.gauge(SeriesId::kBuild, {{"version", m.config.version}}, 1);
  m.counters(page);
  if (!m.facts) return page.text();
  if (m.facts->elected) page.gauge(SeriesId::kLeader, {}, m.facts->leads ? 1 : 0);
  page.gauge(SeriesId::kCycleTime, {}, m.time_s);
  page.gauge(SeriesId::kCycleDuration, {}, m.facts->duration_s);
  page.gauge(SeriesId::kBlind, {}, m.blind ? 1 : 0);
  for (const auto kind : kConditionKinds) {
    const auto found = m.conditions.find(kind);
    page.gauge(SeriesId::kConditions, {{"kind", word(observe::to_string(kind))}},
               found == m.conditions.end() ? 0 : found->second);
  }
  if (!m.facts->leads) return page.text();
  if (m.config.wva_names) m.wva.fleet(page);
  const std::size_t most = std::min(m.decisions.size(), m.config.variants_max);
  page.gauge(SeriesId::kDropped, {}, static_cast<double>(m.decisions.size() - most));
  for (std::size_t i = 0; i < most; ++i) {
    if (m.config.wva_names) m.wva.decision(page, m.decisions[i]);
    m.variant(page, m.decisions[i]);
  }
  std::size_t models = 0;
  for (const auto& model : m.models) {
    if (models++ >= m.config.variants_max) break;
    m.model(page, model);
    for (const auto& variant : model.variants) {
      if (most == m.decisions.size() || m.shown(model.key, variant.name)) {
        m.capacity(page, model, variant);
        if (m.config.wva_names) m.wva.variant(page, model, variant);
      }
    }
  }
  return page.text();
}

}  // namespace tailrace::autoscaler
