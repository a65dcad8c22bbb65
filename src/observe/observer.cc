#include "tailrace/observe/observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "observe/condition_list.h"
#include "observe/engine_tables.h"
#include "observe/exporters.h"
#include "observe/matching.h"
#include "observe/readings.h"
#include "observe/series_history.h"
#include "tailrace/core/printable.h"
#include "tailrace/core/text.h"

namespace tailrace::observe {
namespace {

/// Two points further apart than so many windows do not tell what was between them.
constexpr double kGapWindows = 2.5;
/// Clocks may differ by so much without a word.
constexpr double kSkewSeconds = 5;

std::string subject_of(const ExpectedVariant& v) {
  return v.ns.empty() ? v.name : v.ns + "/" + v.name;
}

/// The first few, as they are.
std::string joined(const std::vector<std::string>& texts) {
  constexpr std::size_t kMost = 3;
  std::string out;
  for (std::size_t i = 0; i < std::min(kMost, texts.size()); ++i) {
    out += (i == 0 ? "" : ", ") + core::printable(texts[i]);
  }
  if (texts.size() > kMost) out += fmt::format(" and {} more", texts.size() - kMost);
  return out;
}

/// What the cycle knows of a variant, before it is put in order.
struct Gathered {
  std::vector<std::pair<std::size_t, const Exporter*>> expected;  ///< by place of the pod
  std::vector<const Exporter*> others;
  std::vector<std::pair<const Exporter*, Match>> mismatched;
};

double cadence_s(const Exporter& e) {
  double widest = 0;
  for (const auto& [name, all] : e.said) {
    for (const Said& said : all) {
      const auto& points = said.track->points;
      if (points.size() < 2) continue;
      widest = std::max(widest, (points.back().time_s - points.front().time_s) /
                                    static_cast<double>(points.size() - 1));
    }
  }
  return widest;
}

/// Since when is each of the things that are there now?
class Since {
 public:
  void begin() { now_.clear(); }
  /// How long `name` has been there, `begin` after `begin`.
  double seconds(std::string name, double now_s) {
    const auto before = before_.find(name);
    const double since_s = before == before_.end() ? now_s : before->second;
    now_.emplace(std::move(name), since_s);
    return now_s - since_s;
  }
  void end() { std::swap(before_, now_); }

 private:
  std::map<std::string, double> before_, now_;
};

}  // namespace

struct Observer::Impl {
  ObserverConfig config;
  Since expected_since, unmatched_since;
  SeriesHistory history;
  std::set<std::string, std::less<>> names;

  explicit Impl(const ObserverConfig& c)
      : config(c), history({c.window_s, c.fresh_s, c.series_max, c.points_max}) {
    std::vector<EngineKind> all;
    for (const auto& table : engine_tables()) all.push_back(table.kind);
    const auto known = series_names(all);
    names.insert(known.begin(), known.end());
  }

  MeterConfig meter(double now_s) const {
    return {now_s, config.window_s, kGapWindows * config.window_s};
  }

  void remember(double now_s, const Fetched& fetched, ConditionList& conditions);
  void forget(double before_s);
  void say_notes(const HistoryNotes& notes, ConditionList& conditions) const;
  std::vector<Gathered> gather(double now_s, const std::vector<Exporter>& exporters,
                               std::span<const ExpectedVariant> expected, Reading& out,
                               ConditionList& conditions);
  VariantReading read_variant(double now_s, const ExpectedVariant& variant, Gathered& gathered,
                              const FromGateways& gateways, ConditionList& conditions) const;
  void say_silent(const ExpectedVariant& variant, const Gathered& gathered,
                  const VariantReading& reading, const std::vector<std::string>& silent,
                  const std::vector<Exporter>& exporters, ConditionList& conditions) const;
  std::vector<GatewayReading> read_gateways(double now_s, const std::vector<Exporter>& exporters,
                                            ConditionList& conditions) const;
};

void Observer::Impl::remember(double now_s, const Fetched& fetched, ConditionList& conditions) {
  for (const auto& problem : fetched.problems) {
    conditions.add(ConditionKind::kSourceFailed, problem.subject, problem.message);
  }
  if (fetched.failed && fetched.problems.empty()) {
    conditions.add(ConditionKind::kSourceFailed, "source",
                   "nothing could be read; what is known gets older");
  }
  HistoryNotes notes;
  std::set<Origin> known;
  for (const auto& [key, track] : history.tracks()) known.insert(origin_of(key.labels));
  for (const auto& series : fetched.series) {
    if (series.key.name == kProcessStart || names.find(series.key.name) == names.end()) continue;
    known.insert(origin_of(series.key.labels));
    history.add(series, now_s, notes);
  }
  // Every process has a start; those of processes that say nothing else are not of interest.
  for (const auto& series : fetched.series) {
    if (series.key.name != kProcessStart || !known.contains(origin_of(series.key.labels))) continue;
    history.add(series, now_s, notes);
  }
  forget(now_s - config.unavailable_s - config.window_s);
  say_notes(notes, conditions);
}

/// A part of a sum is remembered for as long as another that was there with it goes on, so that the
/// rest does not pass for the whole.
void Observer::Impl::forget(double before_s) {
  using Sum = std::tuple<Origin, std::string, std::vector<std::string>>;
  const auto sum_of = [](const SeriesKey& key) {
    std::vector<std::string> models;
    for (const auto label : model_label_names()) {
      const auto found = key.labels.find(std::string(label));
      models.push_back(found == key.labels.end() ? "" : found->second);
    }
    return Sum{origin_of(key.labels), key.name, std::move(models)};
  };
  std::map<Sum, double> first_s;     // of those that go on
  std::map<Origin, double> began_s;  // by process
  for (const auto& [key, track] : history.tracks()) {
    auto& began = began_s.try_emplace(origin_of(key.labels), -HUGE_VAL).first->second;
    began = std::max(began, track.began_s);
    if (track.newest_s() < before_s || !is_summed(key.name)) continue;
    auto& first = first_s.try_emplace(sum_of(key), HUGE_VAL).first->second;
    first = std::min(first, track.first_s);
  }
  history.forget_before(before_s, [&](const SeriesKey& key, const Track& track) {
    if (!is_summed(key.name)) return false;
    const auto other = first_s.find(sum_of(key));
    return other != first_s.end() && other->second <= track.newest_s() &&
           began_s.at(origin_of(key.labels)) <= track.newest_s();
  });
}

void Observer::Impl::say_notes(const HistoryNotes& notes, ConditionList& conditions) const {
  if (notes.ahead_s > kSkewSeconds) {
    conditions.add(
        ConditionKind::kClockSkew, notes.ahead_subject,
        fmt::format(
            "points come from up to {:.0f} s in the future{}; set the clocks of this "
            "machine and of the metrics' source",
            std::min(notes.ahead_s, 1e12),
            notes.future > 0 ? fmt::format(", {} of them are not believed", notes.future) : ""));
  }
  if (notes.contradicts > 0) {
    conditions.add(ConditionKind::kContradiction, notes.contradicts_subject,
                   fmt::format("{} points have another value than before for the same time; the "
                               "larger counts",
                               notes.contradicts));
  }
  if (notes.negative > 0) {
    conditions.add(ConditionKind::kContradiction, notes.negative_subject,
                   fmt::format("{} points of counters or histograms are below 0 and count as "
                               "missing; see what its exporter counts",
                               notes.negative));
  }
  if (notes.beyond > 0) {
    conditions.add(ConditionKind::kContradiction, notes.beyond_subject,
                   fmt::format("{} points of counters or histograms are above {:g}, beyond which "
                               "nothing can be counted, and count as missing; see what its "
                               "exporter counts",
                               notes.beyond, kCountMost));
  }
  if (notes.no_number > 0) {
    conditions.add(ConditionKind::kContradiction, notes.no_number_subject,
                   fmt::format("{} points are NaN or infinite and count as missing; see what its "
                               "exporter says",
                               notes.no_number));
  }
  if (notes.refused > 0) {
    conditions.add(ConditionKind::kLimit, "series",
                   fmt::format("more than {} series; {} points were left out: narrow what is read "
                               "to fewer namespaces",
                               config.series_max, notes.refused));
  }
}

std::vector<Gathered> Observer::Impl::gather(double now_s, const std::vector<Exporter>& exporters,
                                             std::span<const ExpectedVariant> expected,
                                             Reading& reading, ConditionList& conditions) {
  std::vector<Gathered> out(expected.size());
  std::vector<std::string> unmatched;
  double newest_s = -HUGE_VAL;
  for (const auto& exporter : exporters) {
    if (exporter.engine) newest_s = std::max(newest_s, exporter.newest_s);
  }
  for (const auto& exporter : exporters) {
    if (!exporter.engine) continue;
    auto found = match(exporter, expected);
    if (!found) {
      // A pod that has gone needs nobody's attention: only what was said before is remembered.
      const double cadence = cadence_s(exporter);
      const bool gone = (cadence > 0 && newest_s - exporter.newest_s > 2 * cadence) ||
                        now_s - exporter.newest_s >= config.fresh_s;
      if (gone) continue;
      ++reading.unmatched[exporter.origin.ns];
      std::string name = exporter.origin.name();
      if (unmatched_since.seconds(name, now_s) >= config.grace_s) {
        unmatched.push_back(std::move(name));
      }
      continue;
    }
    auto& place = out[found->variant];
    if (!found->matched()) {
      place.mismatched.emplace_back(&exporter, std::move(*found));
    } else if (found->pod) {
      place.expected.emplace_back(*found->pod, &exporter);
    } else {
      place.others.push_back(&exporter);
    }
  }
  for (const auto& name : unmatched) {
    conditions.add(ConditionKind::kUnmatchedSeries, core::printable(name),
                   "its series belong to no variant that is known: let discovery find what "
                   "runs it, or label it llm_d_ai_variant");
  }
  return out;
}

VariantReading Observer::Impl::read_variant(double now_s, const ExpectedVariant& variant,
                                            Gathered& gathered, const FromGateways& gateways,
                                            ConditionList& conditions) const {
  VariantReading out{variant.ns, variant.model, variant.name, {}, {}};
  const auto own = [&](const Said& said) {
    const auto model = said.label("model_name");
    return model.empty() || serves(variant, model);
  };
  std::vector<std::string> stale, unavailable, reset, other_engine, gone, unbelievable;
  const auto read = [&](const Exporter& e, const std::string& pod, bool several, bool expected) {
    const std::string port = e.origin.port();
    const auto known = of_pod(gateways, variant.ns, pod, several ? port : "");
    PodNotes notes;
    PodReading r = pod_reading(e, meter(now_s), own, known, notes);
    r.pod = several && !port.empty() ? pod + ":" + port : pod;
    r.replica = pod;
    r.expected = expected;
    r.freshness = freshness_of(now_s - r.time_s, config.fresh_s, config.unavailable_s);
    if (r.freshness == Freshness::kUnavailable) {
      if (expected) unavailable.push_back(r.pod);
      return;
    }
    if (r.freshness == Freshness::kStale) stale.push_back(r.pod);
    if (notes.resets > 0) reset.push_back(r.pod);
    for (const auto& part : notes.gone) gone.push_back(r.pod + ": " + part);
    for (const auto& says : notes.unbelievable) unbelievable.push_back(r.pod + ": " + says);
    if (r.engine != variant.engine) other_engine.push_back(r.pod);
    out.pods.push_back(std::move(r));
  };

  std::sort(gathered.expected.begin(), gathered.expected.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second->origin) < std::tie(b.first, b.second->origin);
  });
  double newest_s = -HUGE_VAL;
  for (const auto& [place, e] : gathered.expected) newest_s = std::max(newest_s, e->newest_s);
  for (const Exporter* e : gathered.others) newest_s = std::max(newest_s, e->newest_s);
  for (const auto& [place, e] : gathered.expected) {
    const auto engines = std::count_if(gathered.expected.begin(), gathered.expected.end(),
                                       [&, at = place](const auto& x) { return x.first == at; });
    read(*e, variant.pods[place].name, engines > 1, true);
  }
  for (const Exporter* e : gathered.others) {
    // A pod that is gone: the others have gone on without it.
    if (newest_s - e->newest_s > cadence_s(*e)) continue;
    const auto engines =
        std::count_if(gathered.others.begin(), gathered.others.end(), [&](const Exporter* x) {
          return x->origin.ns == e->origin.ns && x->origin.pod == e->origin.pod;
        });
    read(*e, e->origin.name(), engines > 1 && !e->origin.pod.empty(), false);
  }

  const std::string subject = subject_of(variant);
  if (!stale.empty()) {
    conditions.add(ConditionKind::kStale, subject,
                   fmt::format("nothing new for {:g} s or longer from {}: they count as unknown; "
                               "see whether they are still scraped",
                               config.fresh_s, listed(stale)));
  }
  if (!unavailable.empty()) {
    conditions.add(ConditionKind::kUnavailable, subject,
                   fmt::format("nothing for {:g} s or longer from {}; see whether they are still "
                               "scraped",
                               config.unavailable_s, listed(unavailable)));
  }
  if (!reset.empty()) {
    conditions.add(
        ConditionKind::kCounterReset, subject,
        fmt::format("counters of {} began anew: did the engine restart?", listed(reset)));
  }
  if (!gone.empty()) {
    conditions.add(ConditionKind::kSeriesMissing, subject,
                   fmt::format("said no more, though the process goes on, so what they are part of "
                               "is unknown: {}; see what drops them from the metrics (it ends when "
                               "they are back or the engine restarts)",
                               joined(gone)));
  }
  if (!unbelievable.empty()) {
    conditions.add(
        ConditionKind::kContradiction, subject,
        fmt::format("counts as missing: {}; see what the exporter counts", joined(unbelievable)));
  }
  if (!other_engine.empty()) {
    conditions.add(ConditionKind::kContradiction, subject,
                   fmt::format("{} should run {} and say they are another engine; what they say "
                               "is taken: correct the variant's engine",
                               listed(other_engine), to_string(variant.engine)));
  }
  return out;
}

void Observer::Impl::say_silent(const ExpectedVariant& variant, const Gathered& gathered,
                                const VariantReading& reading,
                                const std::vector<std::string>& silent,
                                const std::vector<Exporter>& exporters,
                                ConditionList& conditions) const {
  const std::string subject = subject_of(variant);
  for (const auto& [exporter, m] : gathered.mismatched) {
    conditions.add(
        ConditionKind::kLabelMismatch, subject,
        fmt::format("{} is left out: its label {} says {}, not {}; {}", exporter->origin.name(),
                    m.blamed_label, listed(m.seen), listed(m.wanted),
                    m.blamed_label == "model_name"
                        ? "give the variant that model id or alias"
                        : "correct the label, or where the variant is looked for"));
  }
  if (!silent.empty()) {
    conditions.add(ConditionKind::kPodMissing, subject,
                   fmt::format("no metrics from {}: they count as unknown; see whether they are "
                               "scraped and serve /metrics",
                               listed(silent)));
  }
  // None of its pods speaks, but somebody serves its model: whose labels are wrong?
  if (silent.empty() || !reading.pods.empty() || !gathered.mismatched.empty()) return;
  std::set<std::string> namespaces, models, pods;
  for (const auto& e : exporters) {
    if (!e.engine) continue;
    const bool same_model = std::any_of(e.models.begin(), e.models.end(),
                                        [&](const auto& model) { return serves(variant, model); });
    const bool same_namespace = variant.ns.empty() || e.origin.ns == variant.ns;
    if (same_model && !same_namespace) namespaces.insert(e.origin.ns);
    if (!same_model && same_namespace) models.insert(e.models.begin(), e.models.end());
    if (same_model && same_namespace) pods.insert(e.origin.name());
  }
  const auto say = [&](std::string_view label, const std::set<std::string>& seen,
                       const std::string& wanted) {
    conditions.add(ConditionKind::kLabelMismatch, subject,
                   fmt::format("no series is of its pods: label {} says {}, not {}; correct the "
                               "scraper's labels or the variant",
                               label, listed({seen.begin(), seen.end()}), wanted));
  };
  if (!pods.empty()) {
    say("pod", pods, listed(silent));
  } else if (!namespaces.empty()) {
    say("namespace", namespaces, core::quoted(variant.ns));
  } else if (!models.empty()) {
    say("model_name", models, core::quoted(variant.model));
  }
}

std::vector<GatewayReading> Observer::Impl::read_gateways(double now_s,
                                                          const std::vector<Exporter>& exporters,
                                                          ConditionList& conditions) const {
  std::vector<GatewayReading> out;
  for (const auto& exporter : exporters) {
    if (!exporter.gateway) continue;
    const auto freshness =
        freshness_of(now_s - exporter.newest_s, config.fresh_s, config.unavailable_s);
    auto readings = gateway_readings(exporter, meter(now_s));
    if (readings.empty() || freshness == Freshness::kUnavailable) continue;
    if (freshness == Freshness::kStale) {
      conditions.add(ConditionKind::kStale, core::printable(exporter.origin.name()),
                     fmt::format("this gateway has said nothing for {:g} s or longer; see whether "
                                 "it is still scraped",
                                 config.fresh_s));
    }
    for (auto& reading : readings) {
      reading.freshness = freshness;
      out.push_back(std::move(reading));
    }
  }
  return out;
}

namespace {

/// Quantities that a decision needs, for which no pod of a variant has any series.
void say_missing(const ExpectedVariant& variant, const VariantReading& reading,
                 ConditionList& conditions) {
  constexpr std::pair<const char*, Measured PodReading::*> kNeeded[] = {
      {"the rate of requests", &PodReading::rate},   {"prompt tokens", &PodReading::input_tokens},
      {"output tokens", &PodReading::output_tokens}, {"time to first token", &PodReading::ttft_ms},
      {"inter-token latency", &PodReading::itl_ms},  {"requests running", &PodReading::running},
      {"requests waiting", &PodReading::waiting}};
  std::vector<std::string> missing;
  for (const auto& [what, quantity] : kNeeded) {
    const bool none = std::all_of(reading.pods.begin(), reading.pods.end(),
                                  [q = quantity](const PodReading& pod) {
                                    return !(pod.*q).value && (pod.*q).metric.empty();
                                  });
    if (none) missing.emplace_back(what);
  }
  if (reading.pods.empty() || missing.empty()) return;
  std::string all;
  for (const auto& what : missing) all += (all.empty() ? "" : ", ") + what;
  conditions.add(ConditionKind::kSeriesMissing, subject_of(variant),
                 fmt::format("its pods have no series for {}, under any name known of {}; see "
                             "docs/autoscaler-metrics.md",
                             all, to_string(reading.pods.front().engine)));
}

}  // namespace

std::string_view to_string(EngineKind kind) {
  switch (kind) {
    case EngineKind::kVllm:
      return "vllm";
    case EngineKind::kSglang:
      return "sglang";
    case EngineKind::kTensorRtLlm:
      return "tensorrt-llm";
    case EngineKind::kLlamaCpp:
      return "llama.cpp";
  }
  return "";
}

std::string_view to_string(Freshness freshness) {
  switch (freshness) {
    case Freshness::kFresh:
      return "fresh";
    case Freshness::kStale:
      return "stale";
    case Freshness::kUnavailable:
      return "unavailable";
  }
  return "";
}

std::string_view to_string(ConditionKind kind) {
  switch (kind) {
    case ConditionKind::kSourceFailed:
      return "source-failed";
    case ConditionKind::kSeriesMissing:
      return "series-missing";
    case ConditionKind::kLabelMismatch:
      return "label-mismatch";
    case ConditionKind::kUnmatchedSeries:
      return "unmatched-series";
    case ConditionKind::kPodMissing:
      return "pod-missing";
    case ConditionKind::kStale:
      return "stale";
    case ConditionKind::kUnavailable:
      return "unavailable";
    case ConditionKind::kCounterReset:
      return "counter-reset";
    case ConditionKind::kClockSkew:
      return "clock-skew";
    case ConditionKind::kContradiction:
      return "contradiction";
    case ConditionKind::kLimit:
      return "limit";
  }
  return "";
}

Observer::Observer(const ObserverConfig& config) : impl_(std::make_unique<Impl>(config)) {}
Observer::Observer(Observer&&) noexcept = default;
Observer& Observer::operator=(Observer&&) noexcept = default;
Observer::~Observer() = default;

std::vector<std::string> Observer::names_of(std::span<const EngineKind> engines) {
  return series_names(engines);
}

Reading Observer::read(double now_s, const Fetched& fetched,
                       std::span<const ExpectedVariant> expected) {
  Impl& self = *impl_;
  Reading out;
  out.time_s = now_s;
  out.window_s = self.config.window_s;
  ConditionList conditions(self.config.conditions_max);
  self.remember(now_s, fetched, conditions);
  auto exporters = exporters_of(self.history);
  drop_moved(exporters);
  const auto gateways = from_gateways(exporters, self.meter(now_s), self.config.fresh_s);
  self.expected_since.begin();
  self.unmatched_since.begin();
  auto gathered = self.gather(now_s, exporters, expected, out, conditions);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& variant = expected[i];
    auto reading = self.read_variant(now_s, variant, gathered[i], gateways, conditions);
    std::vector<std::string> overdue;  // of the silent ones
    for (std::size_t p = 0; p < variant.pods.size(); ++p) {
      const bool speaks = std::any_of(
          gathered[i].expected.begin(), gathered[i].expected.end(), [&](const auto& found) {
            return found.first == p && now_s - found.second->newest_s < self.config.unavailable_s;
          });
      const double known_s = self.expected_since.seconds(
          fmt::format("{}\n{}\n{}", variant.ns, variant.name, variant.pods[p].name), now_s);
      if (speaks) continue;
      reading.silent.push_back(variant.pods[p].name);
      if (known_s >= self.config.grace_s) overdue.push_back(variant.pods[p].name);
    }
    self.say_silent(variant, gathered[i], reading, overdue, exporters, conditions);
    say_missing(variant, reading, conditions);
    out.variants.push_back(std::move(reading));
  }
  self.expected_since.end();
  self.unmatched_since.end();
  out.gateways = self.read_gateways(now_s, exporters, conditions);
  out.conditions = conditions.take();
  return out;
}

}  // namespace tailrace::observe
