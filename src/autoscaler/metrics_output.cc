#include "tailrace/autoscaler/metrics_output.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "autoscaler/metrics_catalogue.h"
#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace {

using Label = prometheus::ClientMetric::Label;
using Labels = std::vector<Label>;
constexpr std::size_t kSeries = static_cast<std::size_t>(SeriesId::kCount);
constexpr std::array kDurations{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0};
constexpr std::array kConditionKinds{
    observe::ConditionKind::kSourceFailed,  observe::ConditionKind::kSeriesMissing,
    observe::ConditionKind::kLabelMismatch, observe::ConditionKind::kUnmatchedSeries,
    observe::ConditionKind::kPodMissing,    observe::ConditionKind::kStale,
    observe::ConditionKind::kUnavailable,   observe::ConditionKind::kCounterReset,
    observe::ConditionKind::kClockSkew,     observe::ConditionKind::kContradiction,
    observe::ConditionKind::kLimit};

/// A page under construction: one family per entry of the catalogue, in its order.
class Page {
 public:
  Page() : families_(kSeries) {
    const auto catalogue = series_catalogue();
    for (std::size_t i = 0; i < kSeries; ++i) {
      families_[i].name = std::string(catalogue[i].name);
      families_[i].help = std::string(catalogue[i].help);
      families_[i].type = catalogue[i].type == "counter"     ? prometheus::MetricType::Counter
                          : catalogue[i].type == "histogram" ? prometheus::MetricType::Histogram
                                                             : prometheus::MetricType::Gauge;
    }
  }

  prometheus::ClientMetric& add(SeriesId id, Labels labels) {
    for (auto& label : labels) label.value = core::valid_utf8(label.value);
    auto& metric = families_[static_cast<std::size_t>(id)].metric.emplace_back();
    metric.label = std::move(labels);
    return metric;
  }
  /// A value that is no number is not known.
  void gauge(SeriesId id, Labels labels, std::optional<double> value) {
    if (value && std::isfinite(*value)) add(id, std::move(labels)).gauge.value = *value;
  }
  void counter(SeriesId id, Labels labels, double value) {
    add(id, std::move(labels)).counter.value = value;
  }
  std::string text() const {
    std::vector<prometheus::MetricFamily> shown;
    for (const auto& family : families_) {
      if (!family.metric.empty()) shown.push_back(family);
    }
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, shown);
    return std::move(out).str();
  }

 private:
  std::vector<prometheus::MetricFamily> families_;
};

struct Histogram {
  std::array<std::uint64_t, kDurations.size()> counts{};
  std::uint64_t count = 0;
  double sum = 0;

  void observe(double value) {
    for (std::size_t i = 0; i < kDurations.size(); ++i) counts[i] += value <= kDurations[i] ? 1 : 0;
    ++count;
    sum += value;
  }
  void show(prometheus::ClientMetric& metric) const {
    metric.histogram.sample_count = count;
    metric.histogram.sample_sum = sum;
    for (std::size_t i = 0; i < kDurations.size(); ++i) {
      metric.histogram.bucket.push_back({counts[i], kDurations[i]});
    }
    metric.histogram.bucket.push_back({count, std::numeric_limits<double>::infinity()});
  }
};

/// "down window" as a label's value.
std::string word(std::string_view text) {
  std::string made(text);
  std::replace_if(made.begin(), made.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
  return made;
}

/// The rule that set the number: the last one that changed it.
std::string rule_of(const capacity::Decision& decision) {
  for (auto step = decision.steps.rbegin(); step != decision.steps.rend(); ++step) {
    if (step->before != step->after) return word(step->rule);
  }
  return decision.informed ? "none" : "held";
}

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
  explicit Impl(MetricsOutputConfig c) : config(std::move(c)) {}

  MetricsOutputConfig config;
  // Counters outlive the cycle that moved them.
  std::map<std::pair<std::string, std::string>,
           std::map<std::pair<std::string, std::string>, double>>
      scalings;  ///< (namespace, variant) → (direction, reason)
  std::map<std::string, double> cycles, limited, enforced;
  Histogram succeeded, failed;
  // The latest cycle that decided; its numbers are held through blind ones.
  std::vector<capacity::Decision> decisions;
  std::vector<capacity::ModelAnalysis> models;
  std::map<std::pair<capacity::ModelKey, std::string>, double> seen_at;  ///< of the newest reading
  std::map<observe::ConditionKind, double> conditions;
  std::optional<CycleFacts> facts;
  double time_s = 0;
  bool blind = false;

  void count(const CycleRecord& record);
  void scaler(Page& page, const capacity::Decision& decision) const;
  void variant(Page& page, const capacity::Decision& decision) const;
  void capacity(Page& page, const capacity::ModelAnalysis& model,
                const capacity::VariantCapacity& variant) const;
  void model(Page& page, const capacity::ModelAnalysis& model) const;
  void counters(Page& page) const;
  bool shown(const capacity::ModelKey& key, const std::string& variant) const;
};

void MetricsOutput::Impl::count(const CycleRecord& record) {
  for (const auto& decision : record.result.decisions) {
    if (decision.action != capacity::Action::kHold) {
      const std::string direction = decision.action == capacity::Action::kScaleUp ? "up" : "down";
      ++scalings[{decision.key.ns, decision.variant}][{direction, rule_of(decision)}];
    }
    for (const auto& step : decision.steps) {
      if (step.before == step.after) continue;
      if (step.rule == "limit") ++limited["gpu"];
      const bool of_operator = step.rule == "min" || step.rule == "max" ||
                               step.rule == "scale to zero" || step.rule == "scale from zero";
      if (of_operator) ++enforced[word(step.rule)];
    }
  }
  // A counter goes with its variant.
  std::erase_if(scalings, [&](const auto& entry) {
    return std::none_of(
        record.result.decisions.begin(), record.result.decisions.end(), [&](const auto& decision) {
          return decision.key.ns == entry.first.first && decision.variant == entry.first.second;
        });
  });
}

bool MetricsOutput::Impl::shown(const capacity::ModelKey& key, const std::string& variant) const {
  const std::size_t most = std::min(decisions.size(), config.variants_max);
  return std::any_of(decisions.begin(), decisions.begin() + static_cast<std::ptrdiff_t>(most),
                     [&](const auto& d) { return d.key == key && d.variant == variant; });
}

void MetricsOutput::Impl::scaler(Page& page, const capacity::Decision& decision) const {
  Labels labels{{"variant_name", decision.variant},
                {"namespace", decision.key.ns},
                {"accelerator_type", decision.accelerator}};
  const auto moved = scalings.find({decision.key.ns, decision.variant});
  if (moved != scalings.end()) {
    for (const auto& [what, times] : moved->second) {
      Labels more = labels;
      more.push_back({"direction", what.first});
      more.push_back({"reason", what.second});
      page.counter(SeriesId::kWvaScaling, std::move(more), times);
    }
  }
  if (!config.controller_instance.empty()) {
    labels.push_back({"controller_instance", config.controller_instance});
  }
  const auto desired = static_cast<double>(decision.desired);
  const auto current = static_cast<double>(decision.current);
  page.gauge(SeriesId::kWvaDesired, labels, desired);
  page.gauge(SeriesId::kWvaCurrent, labels, current);
  page.gauge(SeriesId::kWvaRatio, std::move(labels), current > 0 ? desired / current : desired);
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
  if (!config.wva_names) return;
  const Labels wva{{"model_name", analysis.key.model},
                   {"namespace", analysis.key.ns},
                   {"unit", "requests_per_second"}};
  page.gauge(SeriesId::kWvaRequired, wva, analysis.required_per_s);
  page.gauge(SeriesId::kWvaSpare, wva, analysis.spare_per_s);
}

void MetricsOutput::Impl::counters(Page& page) const {
  for (const auto& [result, times] : cycles) {
    page.counter(SeriesId::kCycles, {{"result", result}}, times);
  }
  if (!config.wva_names) return;
  page.gauge(SeriesId::kWvaInterval, {}, config.interval_s);
  for (const auto& [name, times] : limited) {
    page.counter(SeriesId::kWvaLimited, {{"limiter_name", name}}, times);
  }
  for (const auto& [name, times] : enforced) {
    page.counter(SeriesId::kWvaEnforced, {{"policy_type", name}}, times);
  }
  if (succeeded.count > 0) {
    succeeded.show(page.add(SeriesId::kWvaDuration, {{"status", "success"}}));
  }
  if (failed.count > 0) failed.show(page.add(SeriesId::kWvaDuration, {{"status", "error"}}));
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
  const bool failed = m.blind || record.result.any_failed();
  ++m.cycles[m.blind ? "blind" : failed ? "failed" : "decided"];
  (failed ? m.failed : m.succeeded).observe(facts.duration_s);
  m.conditions.clear();
  for (const auto& condition : record.conditions) ++m.conditions[condition.kind];
  if (m.blind) return;
  m.decisions = record.result.decisions;
  m.models = record.result.models;
  if (facts.leads) m.count(record);
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
  if (m.config.wva_names) {
    page.gauge(SeriesId::kWvaModels, {}, static_cast<double>(m.models.size()));
  }
  const std::size_t most = std::min(m.decisions.size(), m.config.variants_max);
  page.gauge(SeriesId::kDropped, {}, static_cast<double>(m.decisions.size() - most));
  for (std::size_t i = 0; i < most; ++i) {
    if (m.config.wva_names) m.scaler(page, m.decisions[i]);
    m.variant(page, m.decisions[i]);
  }
  std::size_t models = 0;
  for (const auto& model : m.models) {
    if (models++ >= m.config.variants_max) break;
    m.model(page, model);
    for (const auto& variant : model.variants) {
      if (most == m.decisions.size() || m.shown(model.key, variant.name)) {
        m.capacity(page, model, variant);
      }
    }
  }
  return page.text();
}

}  // namespace tailrace::autoscaler
