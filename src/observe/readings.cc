#include "observe/readings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "observe/engine_tables.h"
#include "observe/matching.h"

namespace tailrace::observe {
namespace {

/// Inside an engine or two the growth is exact to the request; less than this is not worth a name.
constexpr const char* kGrowth = " + growth of requests inside";

std::string_view model_of(const Said& said, const GatewayTable& table) {
  for (const auto label : table.model_labels) {
    if (const auto model = said.label(label); !model.empty()) return model;
  }
  return {};
}

/// The choices from the first that misses none of what another of them counts. A counter may have
/// lost a part (one finish reason's series) before we first saw it, which nothing else tells.
std::span<const Counter> whole_from(const Meter& meter, std::span<const Counter> choices) {
  // Two scrapes of one page agree to a few requests.
  constexpr double kShare = 1.05, kRequests = 5;
  std::size_t best = 0;
  std::optional<Rise> most;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    auto rise = meter.rise(choices[i]);
    if (!rise || (most && rise->amount <= kShare * most->amount + kRequests)) continue;
    if (most) best = i;
    most = std::move(rise);
  }
  return choices.subspan(best);
}

/// Arrivals from what was completed and by how much the number inside grew.
Measured completed_and_growth(const Meter& meter, const EngineTable& table,
                              std::span<const Counter> completed) {
  Measured out = meter.rate(completed);
  if (!out.value) return out;
  const auto growth = meter.growth_per_s(table.running, table.waiting, meter.resets(completed));
  if (!growth) return out;
  const double arrivals = std::max(0.0, *out.value + *growth);
  if (!std::isfinite(arrivals)) return out;
  out.value = arrivals;
  out.metric += kGrowth;
  return out;
}

Measured of_dispatched(const Dispatched& dispatched, const Meter& meter) {
  Measured out;
  out.value = dispatched.per_s;
  out.age_s = meter.age_s(dispatched.newest_s);
  out.metric = dispatched.metric;
  return out;
}

PodKey pod_of(const Exporter& exporter, const Said& said, const GatewayTable& table) {
  PodKey out{exporter.origin.ns, {}, {}};
  for (const auto label : table.pod_labels) {
    if (out.pod.empty()) out.pod = without_rank(said.label(label));
  }
  if (!table.port_label.empty()) out.port = said.label(table.port_label);
  return out;
}

/// Shows what there is of a pod; without a namespace or a port that of any.
template <class T, class Show>
void each_of_pod(const std::map<PodKey, T>& all, const std::string& ns, const std::string& pod,
                 const std::string& port, const Show& show) {
  std::set<std::string> spaces{"", ns};
  if (ns.empty()) {
    for (const auto& [key, one] : all) spaces.insert(key.ns);
  }
  for (const auto& space : spaces) {
    for (auto at = all.lower_bound({space, pod, ""});
         at != all.end() && at->first.ns == space && at->first.pod == pod; ++at) {
      if (port.empty() || at->first.port.empty() || at->first.port == port) show(at->second);
    }
  }
}

void add(Pace& sum, const Pace& one) {
  sum.weight += one.weight;
  sum.gap_s += one.gap_s;
  sum.per_stream_s += one.per_stream_s;
  sum.newest_s = std::max(sum.newest_s, one.newest_s);
  if (sum.metric.empty()) sum.metric = one.metric;
  if (sum.unbelievable.empty()) sum.unbelievable = one.unbelievable;
}

/// What each series of a level said last.
using NewestPoints = std::map<Labels, Point>;

NewestPoints newest_points(const Exporter& exporter, const Gauge& gauge) {
  NewestPoints out;
  for (const Said& said : exporter.named(gauge.name)) {
    if (said.track->says_number()) out.emplace(said.labels, said.track->points.back());
  }
  return out;
}

/// The number of that series at that moment.
std::optional<double> said_at(const NewestPoints& points, const Labels& labels, double time_s) {
  const auto found = points.find(labels);
  if (found == points.end() || found->second.time_s != time_s) return std::nullopt;
  return found->second.value;
}

/// What one gateway says of a pod: `gap`, and the other two of the same moment.
void add_pace(Pace& sum, const GaugesOfPace& gauges, const NewestPoints& growths,
              const NewestPoints& errors, const Said& gap) {
  constexpr double kLeastSeconds = 1e-12, kMostSeconds = 1e6;
  /// As a share of the gap: a gateway that is sure beyond this knows no more than others.
  constexpr double kErrorLeast = 1e-6;
  if (!gap.track->says_number()) return;
  const Point now = gap.track->points.back();
  const auto per_stream = said_at(growths, gap.labels, now.time_s);
  const auto error = said_at(errors, gap.labels, now.time_s);
  if (!per_stream || !error) return;
  const std::tuple<const Gauge&, double, double> bounds[] = {
      {gauges.gap, now.value, kLeastSeconds},
      {gauges.per_stream, *per_stream, -kMostSeconds},
      {gauges.error, *error, 0}};
  for (const auto& [gauge, value, least] : bounds) {
    if (value >= least && value <= kMostSeconds) continue;
    sum.metric = gauges.per_stream.name;
    sum.unbelievable = fmt::format("{} says {:g}, which cannot be", gauge.name, value);
    return;
  }
  const double spread = std::max(*error, kErrorLeast * now.value);
  const double weight = 1 / spread / spread;
  add(sum, Pace{weight,
                weight * now.value,
                weight * *per_stream,
                now.time_s,
                std::string(gauges.per_stream.name),
                {}});
}

void set_pace(PodReading& out, const std::optional<Pace>& pace, const Meter& meter) {
  Measured& ratio = out.itl_per_stream_ratio;
  Measured& error = out.itl_per_stream_error;
  ratio.missing = "no gateway says how fast its tokens come";
  if (pace && !pace->unbelievable.empty()) {
    ratio.missing = pace->unbelievable;
    ratio.unbelievable = true;
  } else if (pace && pace->weight > 0) {
    ratio.missing = "it does not grow, as far as can be told";
  }
  if (pace) {
    ratio.metric = pace->metric;
    ratio.age_s = meter.age_s(pace->newest_s);
  }
  error = ratio;
  if (!pace || ratio.unbelievable || !(pace->per_stream_s > 0)) return;
  // The standard error of a mean by weights 1/error² is 1/√(their sum).
  const double growth = pace->per_stream_s / pace->gap_s;
  const double spread = std::sqrt(pace->weight) / pace->per_stream_s;
  if (!std::isfinite(growth) || !std::isfinite(spread)) return;
  ratio.missing.clear();
  error.missing.clear();
  ratio.value = growth;
  error.value = spread;
}

/// Requests in the window; the same series as the rate's.
Measured completed_count(const Meter& meter, std::span<const Counter> completed) {
  for (const Counter& counter : completed) {
    if (const auto rise = meter.rise(counter)) {
      Measured out;
      out.value = rise->amount;
      out.age_s = meter.age_s(rise->newest_s);
      out.metric = rise->metric;
      return out;
    }
  }
  Measured out = meter.rate(completed);
  out.value.reset();
  return out;
}

/// From a mean and a mean of squares.
Measured variation(const Measured& mean, const Measured& square) {
  Measured out = square;
  out.value.reset();
  if (!mean.value || !square.value || !(*mean.value > 0)) {
    if (out.missing.empty()) out.missing = mean.missing.empty() ? "no length" : mean.missing;
    return out;
  }
  const double ratio = *square.value / *mean.value / *mean.value - 1;
  if (!std::isfinite(ratio)) {
    out.missing = "out of range";
    return out;
  }
  out.value = std::sqrt(std::max(0.0, ratio));
  return out;
}

}  // namespace

Freshness freshness_of(double age_s, double fresh_s, double unavailable_s) {
  if (age_s < fresh_s) return Freshness::kFresh;
  return age_s < unavailable_s ? Freshness::kStale : Freshness::kUnavailable;
}

FromGateways from_gateways(const std::vector<Exporter>& exporters, const MeterConfig& config,
                           double fresh_s) {
  FromGateways out;
  for (const auto& exporter : exporters) {
    if (!exporter.gateway) continue;
    for (const auto& table : gateway_tables()) {
      for (const GaugesOfPace& gauges : table.pace) {
        const auto growths = newest_points(exporter, gauges.per_stream);
        const auto errors = newest_points(exporter, gauges.error);
        for (const Said& said : exporter.named(gauges.gap.name)) {
          const PodKey key = pod_of(exporter, said, table);
          if (key.pod.empty() || config.now_s - said.track->newest_s() >= fresh_s) continue;
          add_pace(out.paces[key], gauges, growths, errors, said);
        }
      }
      // Some write the same number under an old name as well: one of them counts.
      const auto counter =
          std::find_if(table.dispatched.begin(), table.dispatched.end(),
                       [&](const Counter& c) { return !exporter.named(c.name).empty(); });
      if (counter == table.dispatched.end()) continue;
      for (const Said& said : exporter.named(counter->name)) {
        if (!counter->only.label.empty() &&
            said.label(counter->only.label) != counter->only.value) {
          continue;
        }
        const PodKey key = pod_of(exporter, said, table);
        const auto rise =
            increase_of(after_gap(said.track->points, config.gap_s), exporter.starts());
        if (key.pod.empty() || !rise || config.now_s - rise->to_s >= fresh_s) continue;
        auto& sum = out.dispatched[key];
        sum.per_s += rise->per_s();
        sum.newest_s = std::max(sum.newest_s, rise->to_s);
        sum.metric = counter->name;
      }
    }
  }
  std::erase_if(out.dispatched,
                [](const auto& entry) { return !std::isfinite(entry.second.per_s); });
  return out;
}

PodFromGateways of_pod(const FromGateways& all, const std::string& ns, const std::string& pod,
                       const std::string& port) {
  PodFromGateways out;
  each_of_pod(all.dispatched, ns, pod, port, [&](const Dispatched& one) {
    if (!out.dispatched) out.dispatched = Dispatched{0, 0, one.metric};
    out.dispatched->per_s += one.per_s;
    out.dispatched->newest_s = std::max(out.dispatched->newest_s, one.newest_s);
  });
  if (out.dispatched && !std::isfinite(out.dispatched->per_s)) out.dispatched.reset();
  each_of_pod(all.paces, ns, pod, port, [&](const Pace& one) {
    if (!out.pace) out.pace.emplace();
    add(*out.pace, one);
  });
  return out;
}

PodReading pod_reading(const Exporter& exporter, const MeterConfig& config,
                       const std::function<bool(const Said&)>& own, const PodFromGateways& gateways,
                       PodNotes& notes) {
  const Meter meter(exporter, config, own);
  const EngineTable& table = table_of(*exporter.engine);
  PodReading out;
  out.engine = *exporter.engine;
  out.time_s = exporter.newest_s;
  const auto completed = whole_from(meter, table.completed);
  out.rate = gateways.dispatched ? of_dispatched(*gateways.dispatched, meter)
                                 : completed_and_growth(meter, table, completed);
  if (!out.rate.value && table.completed.empty()) {
    out.rate.missing =
        "this engine counts no requests: it takes a gateway in front of it that does";
  }
  out.completed = completed_count(meter, completed);
  out.running = meter.mean_level(table.running, kRequestsMost);
  out.waiting = meter.newest_level(table.waiting, kRequestsMost);

  Measured finished = meter.rate(completed);
  if (!finished.value) finished = out.rate;
  const Measured waiting = meter.mean_level(table.waiting, kRequestsMost);
  out.input_tokens = meter.mean(table.input_tokens, finished, waiting);
  out.output_tokens = meter.mean(table.output_tokens, finished, waiting);
  out.input_buckets = meter.buckets(table.input_tokens);
  out.output_buckets = meter.buckets(table.output_tokens);
  out.ttft_ms = meter.mean(table.ttft_ms, finished, waiting);
  out.itl_ms = meter.mean(table.itl_ms, finished, waiting);
  set_pace(out, gateways.pace, meter);
  out.ttft_p99_ms = meter.quantile(table.ttft_ms, 0.99);
  out.itl_p99_ms = meter.quantile(table.itl_ms, 0.99);
  out.kv_usage = meter.level(table.kv_usage, false);
  out.kv_tokens = meter.level(table.kv_tokens, true);
  out.prefix_hit = meter.share(table.prefix_hit);
  notes.resets = meter.resets(completed).size();
  for (auto part : {meter.gone_among(table.completed), meter.gone_among(table.running),
                    meter.gone_among(table.waiting)}) {
    if (!part.empty()) notes.gone.push_back(std::move(part));
  }
  for (const Measured* level : {&out.running, &out.waiting, &out.itl_per_stream_ratio}) {
    if (level->unbelievable) notes.unbelievable.push_back(level->missing);
  }
  return out;
}

std::vector<GatewayReading> gateway_readings(const Exporter& exporter, const MeterConfig& config) {
  std::vector<GatewayReading> out;
  if (!exporter.gateway) return out;
  for (const auto& table : gateway_tables()) {
    std::set<std::string, std::less<>> models;
    const auto collect = [&](std::string_view name) {
      for (const Said& said : exporter.named(name)) {
        if (const auto model = model_of(said, table); !model.empty()) models.emplace(model);
      }
    };
    for (const Counter& counter : table.arrivals) collect(counter.name);
    for (const Gauge& gauge : table.waiting_requests) collect(gauge.name);
    for (const auto& model : models) {
      const Meter meter(exporter, config,
                        [&](const Said& said) { return model_of(said, table) == model; });
      GatewayReading r;
      r.kind = table.name;
      r.ns = exporter.origin.ns;
      r.model = model;
      r.instance = exporter.origin.name();
      r.arrivals_per_s = meter.rate(table.arrivals);
      if (table.relayed.empty()) {
        r.relayed_per_s.missing = "this gateway does not tell requests that generate nothing apart";
      } else {
        r.relayed_per_s = meter.rate(table.relayed);
      }
      r.waiting_requests = meter.newest_level(table.waiting_requests, kRequestsMost);
      r.waiting_tokens = meter.newest_level(table.waiting_tokens, kCountMost);
      r.input_tokens = meter.mean(table.input_tokens, r.arrivals_per_s, {});
      r.output_tokens = meter.mean(table.output_tokens, r.arrivals_per_s, {});
      std::vector<Mean> input(table.input_squares.begin(), table.input_squares.end());
      std::vector<Mean> output(table.output_squares.begin(), table.output_squares.end());
      r.input_cv = variation(r.input_tokens, meter.mean(input, r.arrivals_per_s, {}));
      r.output_cv = variation(r.output_tokens, meter.mean(output, r.arrivals_per_s, {}));
      out.push_back(std::move(r));
    }
  }
  return out;
}

}  // namespace tailrace::observe
