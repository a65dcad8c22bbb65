#include "tailrace/autoscaler/model_states.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "tailrace/capacity/histogram_moment.h"

namespace tailrace::autoscaler {
namespace {

using observe::Freshness;
using observe::GatewayReading;
using observe::Measured;
using observe::PodReading;

bool serves(const KnownVariant& variant, const std::string& model) {
  return model == variant.key.model ||
         std::find(variant.model_aliases.begin(), variant.model_aliases.end(), model) !=
             variant.model_aliases.end();
}

/// A mean over the engines of a pod, each weighed by its requests; unknown where one is, unless it
/// has no requests.
class WeighedMean {
 public:
  void add(double weight, const Measured& measured) {
    if (!(weight > 0)) return;
    all_known_ = all_known_ && measured.value.has_value();
    weight_ += weight;
    sum_ += weight * measured.value.value_or(0);
  }
  std::optional<double> value() const {
    if (!all_known_ || !(weight_ > 0) || !std::isfinite(sum_ / weight_)) return std::nullopt;
    return sum_ / weight_;
  }

 private:
  bool all_known_ = true;
  double weight_ = 0, sum_ = 0;
};

std::optional<double> sum_of(const std::vector<const PodReading*>& engines,
                             Measured PodReading::* quantity) {
  double sum = 0;
  for (const PodReading* engine : engines) {
    const auto& value = (engine->*quantity).value;
    if (!value) return std::nullopt;
    sum += *value;
  }
  return std::isfinite(sum) ? std::optional(sum) : std::nullopt;
}

std::optional<double> mean_of(const std::vector<const PodReading*>& engines,
                              Measured PodReading::* quantity) {
  if (engines.size() == 1) return (engines.front()->*quantity).value;
  WeighedMean mean;
  for (const PodReading* engine : engines) {
    mean.add(engine->rate.value.value_or(0), engine->*quantity);
  }
  return mean.value();
}

/// The spread of lengths that one or several engines counted into the same buckets.
std::optional<double> spread_of(const std::vector<const PodReading*>& engines,
                                std::vector<observe::LengthBucket> PodReading::* counted,
                                const std::optional<double>& mean) {
  std::vector<capacity::HistogramBucket> buckets;
  for (const PodReading* engine : engines) {
    const auto& own = engine->*counted;
    if (buckets.empty()) {
      for (const auto& bucket : own) buckets.push_back({bucket.upper, bucket.cumulative});
      continue;
    }
    if (own.size() != buckets.size()) continue;
    for (std::size_t i = 0; i < own.size() && own[i].upper == buckets[i].upper; ++i) {
      buckets[i].cumulative += own[i].cumulative;
    }
  }
  const auto moments = capacity::moments_from_histogram(buckets, mean, std::nullopt);
  if (!moments || !std::isfinite(moments->cv())) return std::nullopt;
  return moments->cv();
}

/// What all gateways of one model say together.
struct GatewaySum {
  std::optional<capacity::Backlog> backlog;
  /// Of what arrives, for pods whose engine counts no lengths.
  std::optional<double> input_tokens, output_tokens, input_cv, output_cv;
};

GatewaySum gateways_of(const observe::Reading& reading, const std::string& ns,
                       std::span<const KnownVariant* const> variants) {
  // Of gateways in a row each counts the same requests: those of one kind add up, and of several
  // kinds the one that sees the most counts.
  struct Kind {
    bool fresh = true;
    std::optional<double> requests, tokens, arrivals, relayed;
    std::map<std::string, WeighedMean> means;
  };
  std::map<std::string, Kind> kinds;
  const auto add = [](std::optional<double>& sum, const Measured& measured) {
    if (measured.value) sum = sum.value_or(0) + *measured.value;
  };
  for (const GatewayReading& g : reading.gateways) {
    const bool own = std::any_of(variants.begin(), variants.end(), [&](const KnownVariant* v) {
      return serves(*v, g.model) && (g.ns.empty() || ns.empty() || g.ns == ns);
    });
    if (!own) continue;
    Kind& kind = kinds[g.kind];
    kind.fresh = kind.fresh && g.freshness == Freshness::kFresh;
    add(kind.requests, g.waiting_requests);
    add(kind.tokens, g.waiting_tokens);
    add(kind.arrivals, g.arrivals_per_s);
    add(kind.relayed, g.relayed_per_s);
    const double weight = g.arrivals_per_s.value.value_or(0);
    kind.means["input"].add(weight, g.input_tokens);
    kind.means["output"].add(weight, g.output_tokens);
    kind.means["input_cv"].add(weight, g.input_cv);
    kind.means["output_cv"].add(weight, g.output_cv);
  }
  GatewaySum out;
  std::optional<double> relayed;
  for (auto& [name, kind] : kinds) {
    if (!kind.fresh || (!kind.requests && !kind.arrivals)) continue;
    if (kind.relayed) relayed = std::max(relayed.value_or(0), *kind.relayed);
    capacity::Backlog backlog;
    backlog.requests = kind.requests.value_or(0);
    backlog.output_tokens = kind.tokens;
    backlog.arrivals_per_s = kind.arrivals;
    backlog.arrivals_window_s = reading.window_s;
    backlog.one_queue = kind.requests.has_value();
    const bool more =
        !out.backlog || backlog.requests > out.backlog->requests ||
        (backlog.requests == out.backlog->requests &&
         backlog.arrivals_per_s.value_or(0) > out.backlog->arrivals_per_s.value_or(0));
    if (!more) continue;
    out.backlog = backlog;
    out.input_tokens = kind.means["input"].value();
    out.output_tokens = kind.means["output"].value();
    out.input_cv = kind.means["input_cv"].value();
    out.output_cv = kind.means["output_cv"].value();
  }
  if (out.backlog) out.backlog->relayed_per_s = relayed;
  return out;
}

/// One replica, of one engine or several. Only what is fresh is known.
tune::Observation observation_of(const std::string& pod,
                                 const std::vector<const PodReading*>& engines,
                                 const GatewaySum& gateway) {
  tune::Observation out;
  out.pod = pod;
  for (const PodReading* engine : engines) out.time_s = std::max(out.time_s, engine->time_s);
  const bool fresh = std::all_of(engines.begin(), engines.end(), [](const PodReading* engine) {
    return engine->freshness == Freshness::kFresh;
  });
  if (!fresh || engines.empty()) return out;
  out.rate_per_s = sum_of(engines, &PodReading::rate);
  out.running = sum_of(engines, &PodReading::running);
  out.waiting = sum_of(engines, &PodReading::waiting);
  out.requests = sum_of(engines, &PodReading::completed);
  out.ttft_ms = mean_of(engines, &PodReading::ttft_ms);
  out.itl_ms = mean_of(engines, &PodReading::itl_ms);
  // Of several engines nobody knows which stream is where.
  if (engines.size() == 1 && out.itl_ms) {
    const auto& ratio = engines.front()->itl_per_stream_ratio.value;
    const auto& error = engines.front()->itl_per_stream_error.value;
    if (ratio && error) {
      out.itl_per_sequence_ms = *ratio * *out.itl_ms;
      out.itl_per_sequence_error = error;
    }
  }
  out.prefix_hit = mean_of(engines, &PodReading::prefix_hit);
  out.input_tokens = mean_of(engines, &PodReading::input_tokens);
  out.output_tokens = mean_of(engines, &PodReading::output_tokens);
  out.input_cv = spread_of(engines, &PodReading::input_buckets, out.input_tokens);
  out.output_cv = spread_of(engines, &PodReading::output_buckets, out.output_tokens);
  const bool busy = out.rate_per_s.value_or(0) > 0;
  if (busy && !out.input_tokens) out.input_tokens = gateway.input_tokens;
  if (busy && !out.output_tokens) out.output_tokens = gateway.output_tokens;
  if (busy && !out.input_cv) out.input_cv = gateway.input_cv;
  if (busy && !out.output_cv) out.output_cv = gateway.output_cv;
  return out;
}

/// Readings by replica, in the order in which they come.
std::vector<std::pair<const PodReading*, std::vector<const PodReading*>>> by_replica(
    const observe::VariantReading& reading) {
  std::vector<std::pair<const PodReading*, std::vector<const PodReading*>>> out;
  for (const auto& pod : reading.pods) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const auto& entry) {
      return entry.first->replica == pod.replica && entry.first->expected == pod.expected;
    });
    if (same != out.end()) {
      same->second.push_back(&pod);
    } else {
      out.push_back({&pod, {&pod}});
    }
  }
  return out;
}

/// Memory for context, which flags seldom say and engines do: the least of the pods'.
void learn_kv_tokens(queueing::ServiceLimits& limits, const observe::VariantReading& reading) {
  if (limits.kv_tokens > 0) return;
  constexpr double kMost = 1e12;
  for (const auto& pod : reading.pods) {
    const double tokens = pod.kv_tokens.value.value_or(0);
    if (!(tokens >= 1 && tokens <= kMost)) continue;
    const auto whole = static_cast<std::int64_t>(tokens);
    limits.kv_tokens = limits.kv_tokens > 0 ? std::min(limits.kv_tokens, whole) : whole;
  }
}

capacity::Variant variant_of(const KnownVariant& known, const observe::VariantReading& reading,
                             const GatewaySum& gateway) {
  capacity::Variant out;
  out.key = known.key;
  out.name = known.name;
  out.accelerator = known.accelerator;
  out.fingerprint = known.fingerprint;
  out.cost = known.cost;
  out.gpus_per_replica = known.gpus_per_replica;
  out.current = known.current;
  out.pending = known.pending;
  out.min = known.min;
  out.max = known.max;
  out.role = known.role;
  out.limits = known.limits;
  out.knee_tokens = known.knee_tokens;
  out.scaled_up_at_s = known.scaled_up_at_s;
  learn_kv_tokens(out.limits, reading);
  for (const auto& [first, engines] : by_replica(reading)) {
    auto observation = observation_of(first->replica, engines, gateway);
    // A pod that is not expected is no replica: that it says nothing means nothing.
    if (!first->expected && !(observation.rate_per_s.value_or(0) > 0)) continue;
    out.pods.push_back(std::move(observation));
  }
  for (const auto& silent : reading.silent) {
    tune::Observation unknown;
    unknown.pod = silent;
    unknown.time_s = 0;
    out.pods.push_back(std::move(unknown));
  }
  return out;
}

}  // namespace

std::vector<observe::ExpectedVariant> expected_variants(std::span<const KnownVariant> variants) {
  std::vector<observe::ExpectedVariant> out;
  out.reserve(variants.size());
  for (const auto& v : variants) {
    out.push_back({v.key.ns, v.key.model, v.name, v.model_aliases, v.engine, v.pods});
  }
  return out;
}

std::vector<KvUse> kv_use(const observe::Reading& reading, std::span<const KnownVariant> variants) {
  std::vector<KvUse> out;
  for (std::size_t i = 0; i < variants.size() && i < reading.variants.size(); ++i) {
    const auto& read = reading.variants[i];
    bool all_known = read.silent.empty() && !read.pods.empty();
    KvUse use{variants[i].key, variants[i].name};
    for (const auto& pod : read.pods) {
      if (!pod.expected) continue;
      all_known = all_known && pod.freshness == Freshness::kFresh && pod.kv_tokens.value &&
                  pod.kv_usage.value;
      if (!all_known) break;
      use.capacity_tokens += *pod.kv_tokens.value;
      use.used_tokens += *pod.kv_tokens.value * *pod.kv_usage.value;
    }
    if (all_known && use.capacity_tokens > 0) out.push_back(std::move(use));
  }
  return out;
}

std::vector<capacity::ModelState> model_states(const observe::Reading& reading,
                                               std::span<const KnownVariant> variants) {
  std::vector<capacity::ModelKey> order;
  std::map<capacity::ModelKey, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    auto& own = places[variants[i].key];
    if (own.empty()) order.push_back(variants[i].key);
    own.push_back(i);
  }
  std::vector<capacity::ModelState> out;
  for (const auto& key : order) {
    std::vector<const KnownVariant*> known;
    capacity::ModelState model;
    model.key = key;
    model.priority = 0;
    for (const std::size_t i : places.at(key)) {
      known.push_back(&variants[i]);
      model.priority = std::max(model.priority, variants[i].priority);
    }
    const GatewaySum gateway = gateways_of(reading, key.ns, known);
    model.gateway = gateway.backlog;
    for (const std::size_t i : places.at(key)) {
      const bool read = i < reading.variants.size() && reading.variants[i].ns == key.ns &&
                        reading.variants[i].name == variants[i].name;
      observe::VariantReading silent;
      for (const auto& pod : variants[i].pods) silent.silent.push_back(pod.name);
      model.variants.push_back(
          variant_of(variants[i], read ? reading.variants[i] : silent, gateway));
    }
    out.push_back(std::move(model));
  }
  return out;
}

}  // namespace tailrace::autoscaler
