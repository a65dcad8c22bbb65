#include "tailrace/capacity/analyzer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "capacity/counts.h"
#include "tailrace/capacity/enforcer.h"

namespace tailrace::capacity {
namespace {

/// More replicas than anybody has; keeps products finite.
constexpr double kReplicasMax = 1e9;
/// A waiting request counts as at most so many of usual length, and as no less than so small a part
/// of one: predictions may be off, and not without end.
constexpr double kBacklogFactorMax = 10;
/// Replicas that one queue feeds evenly.
constexpr std::int64_t kPoolMax = 64;
/// Standard deviations above the mean of a prompt that P99 may meet.
constexpr double kLongPrompt = 3;

double replicas(std::int64_t n) {
  return std::clamp(static_cast<double>(n), 0.0, kReplicasMax);
}

/// A variant while it is analysed.
class VariantAnalysis {
 public:
  VariantAnalysis(const VariantReading& reading, const ModelReading& model,
                  const ModelSettings& settings, const SloTarget& slo)
      : reading_(reading), model_(model), settings_(settings), slo_(slo) {}

  VariantCapacity run() {
    const Variant& v = *reading_.variant;
    out_.name = v.name;
    out_.accelerator = v.accelerator;
    out_.cost = v.cost;
    out_.gpus_per_replica = v.gpus_per_replica;
    out_.role = v.role;
    out_.current = v.current;
    out_.pending = v.pending;
    out_.min = v.min;
    out_.max = v.max;
    out_.parameters = reading_.parameters;
    if (const auto bounds = check_bounds(v); !bounds) {
      return placeholder(Evidence::kUnknown, bounds.error().message);
    }
    if (!sees_traffic()) return out_;
    size();
    return out_;
  }

 private:
  /// The model has no replica, and it is known that none is asked for.
  bool at_rest() const {
    if (published() || !model_.gateway) return false;
    return !model_.gateway->asked_for() &&
           std::all_of(model_.variants.begin(), model_.variants.end(), [](const auto& v) {
             return v.variant->current <= 0 && v.variant->pending <= 0 && v.summary.pods == 0;
           });
  }

  bool published() const { return settings_.assembly == Assembly::kPublished; }

  VariantCapacity placeholder(Evidence evidence, std::string reason) {
    out_.evidence = evidence;
    out_.failure = std::move(reason);
    return out_;
  }

  /// Sets the workload to size for, or the reason why there is none.
  bool sees_traffic() {
    const WorkloadSummary& s = reading_.summary;
    if (s.busy_pods > 0) {
      out_.workload = s.workload();
      if (out_.workload && model_.lengths) {
        out_.workload = model_.lengths;
        out_.workload->rate_per_s = s.rate_per_busy_pod();
      }
      if (out_.workload) return true;
      placeholder(Evidence::kUnknown, "no lengths: no busy pod reports input and output tokens");
      return false;
    }
    const bool serves = reading_.variant->current > 0;
    if (s.pods == 0 && (serves || published())) {
      placeholder(Evidence::kUnknown, "no metrics: none of its pods reported");
      return false;
    }
    if (s.unknown_pods > 0) {
      placeholder(
          Evidence::kUnknown,
          fmt::format("no arrival rate: {} of {} pods did not report one", s.unknown_pods, s.pods));
      return false;
    }
    if (at_rest()) {
      placeholder(Evidence::kIdle, "at zero, since nobody asks");
      return false;
    }
    // Idle, or without replicas. What it would take can be known all the same: all variants of a
    // model serve the same traffic.
    const bool idle = s.pods > 0 && s.waiting == 0;
    const bool known = !published() && reading_.parameters.values && model_.workload;
    if (known && slo_.source != SloSource::kNone) {
      out_.workload = model_.workload;
      out_.workload->rate_per_s = 0;
      return true;
    }
    placeholder(idle ? Evidence::kIdle : Evidence::kUnknown,
                s.pods > 0 ? "no active traffic" : "no replicas, and no parameters learnt");
    return false;
  }

  void size() {
    if (slo_.source == SloSource::kNone) {
      placeholder(Evidence::kUnknown, slo_.reason);
      return;
    }
    if (!reading_.parameters.values) {
      placeholder(
          Evidence::kUnknown,
          "no parameters learnt yet" +
              (reading_.parameters.reason.empty() ? "" : ": " + reading_.parameters.reason));
      return;
    }
    queueing::ServiceModel model;
    model.mode = settings_.latency_model;
    model.iteration = *reading_.parameters.values;
    model.limits = reading_.variant->limits;
    auto sizing = queueing::size(model, *out_.workload, targets());
    if (!sizing) {
      placeholder(Evidence::kUnknown, sizing.error().message);
      return;
    }
    const double capacity = sizing->throughput_per_s;
    if (!sizing->reachable || !(capacity > 0) || !std::isfinite(capacity)) {
      placeholder(Evidence::kUnreachable, "the SLO cannot be kept at any rate: " + sizing->reason);
      out_.sizing = std::move(*sizing);
      return;
    }
    out_.sizing = std::move(*sizing);
    share_queue(model);
    assemble(out_.sizing->throughput_per_s);
  }

  /// Where requests wait in one queue before all replicas, whoever waits takes the first place that
  /// becomes free in any of them: n replicas carry more than n times one of them. What they carry
  /// together is what one with n times the places, and iterations that n times the tokens fill,
  /// carries; its own prompt a request computes in one of the n all the same.
  void share_queue(const queueing::ServiceModel& alone) {
    const std::int64_t n = behind_one_queue();
    queueing::Sizing& sizing = *out_.sizing;
    if (n < 2 || sizing.limit != queueing::SizingLimit::kTtft) return;
    const double many = replicas(n);
    queueing::ServiceModel pool = alone;
    pool.iteration.beta_ms /= many;
    pool.iteration.gamma_ms /= many;
    pool.iteration.per_request_ms /= many;
    pool.iteration.knee_tokens *= many;
    pool.limits.max_num_seqs *= n;
    pool.limits.max_batched_tokens *= n;
    pool.limits.kv_tokens *= n;
    auto wanted = targets();
    const queueing::Workload& w = *out_.workload;
    const double long_prompt = w.input_mean * (1 + kLongPrompt * w.input_cv());
    wanted.ttft_ms -= (alone.iteration.beta_ms - pool.iteration.beta_ms) * long_prompt;
    if (!(wanted.ttft_ms > 0)) return;
    const auto together = queueing::size(pool, w, wanted);
    if (!together || !together->reachable) return;
    // Times between tokens are those of each replica.
    double rate = together->rate_per_s / many;
    if (sizing.itl_rate_per_s) rate = std::min(rate, *sizing.itl_rate_per_s);
    if (sizing.e2e_rate_per_s) rate = std::min(rate, *sizing.e2e_rate_per_s);
    if (!(rate > sizing.rate_per_s) || !std::isfinite(rate)) return;
    sizing.reason = fmt::format(
        "{:.6g} requests/s each where {} share one queue, as they do before the gateway; alone {}",
        rate, n, sizing.reason);
    sizing.rate_per_s = sizing.throughput_per_s = rate;
  }

  /// Replicas that requests at the gateway wait for together; one fewer than there are, so that the
  /// last one that goes takes nothing from the others' capacity. 1 where there is no such queue.
  std::int64_t behind_one_queue() const {
    if (published() || settings_.latency_model != queueing::Mode::kCorrected) return 1;
    if (!model_.gateway || !model_.gateway->one_queue) return 1;
    std::int64_t n = 0;
    for (const auto& variant : model_.variants) {
      if (variant.variant->role == out_.role) n = add_counts(n, variant.variant->current);
    }
    return std::clamp<std::int64_t>(n - 1, 1, kPoolMax);
  }

  /// What each role can be blamed for.
  queueing::Targets targets() const {
    auto t = slo_.targets;
    if (out_.role == Role::kPrefill) t.itl_ms = t.e2e_ms = 0;
    if (out_.role == Role::kDecode) t.ttft_ms = t.e2e_ms = 0;
    return t;
  }

  void assemble(double capacity) {
    const double arriving = reading_.summary.rate_per_s;
    if (published()) {
      const auto supply = published_supply(arriving, capacity);
      if (!supply) {
        placeholder(Evidence::kUnknown, supply.error().message);
        return;
      }
      out_.total_per_s = supply->supply_per_s;
      out_.utilization = supply->utilization;
      out_.demand_per_s = arriving;
    } else {
      out_.demand_per_s = arriving + reading_.summary.waiting / settings_.drain_s;
      const double serving = replicas(out_.current) * capacity;
      out_.total_per_s = serving + replicas(out_.pending) * capacity;
      out_.utilization = serving > 0 ? out_.demand_per_s / serving : 0;
    }
    out_.per_replica_per_s = capacity;
    out_.evidence = Evidence::kSized;
  }

  const VariantReading& reading_;
  const ModelReading& model_;
  const ModelSettings& settings_;
  const SloTarget& slo_;
  VariantCapacity out_;
};

/// Sums of the variants of one role, or of all.
struct Sums {
  double arriving = 0, backlog = 0, supply = 0, anticipated = 0;

  double demand() const { return arriving + backlog; }
};

void add(Sums& sums, const VariantReading& reading, const VariantCapacity& v, double drain_s) {
  // Whoever cannot keep the SLO serves demand that others will have to take over; of who is not
  // known nothing is, and what it serves stays with it (spare is then 0).
  if (v.evidence != Evidence::kSized && v.evidence != Evidence::kUnreachable) return;
  sums.arriving += reading.summary.rate_per_s;
  sums.backlog += reading.summary.waiting / drain_s;
  sums.supply += replicas(v.current) * v.per_replica_per_s;
  sums.anticipated += (replicas(v.current) + replicas(v.pending)) * v.per_replica_per_s;
}

/// What is unknown of a model that serves; each keeps it from shrinking.
std::vector<std::string> doubts(const ModelReading& reading, const ModelAnalysis& out) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < out.variants.size(); ++i) {
    const VariantCapacity& v = out.variants[i];
    const WorkloadSummary& s = reading.variants[i].summary;
    const std::int64_t known = s.pods - s.unknown_pods;
    if (v.current > 0 && v.evidence == Evidence::kUnknown) {
      all.push_back(fmt::format("{} is not understood ({}), so nothing is given back", v.name,
                                v.failure.value_or("unknown")));
    } else if (v.evidence == Evidence::kSized && (known < v.current || s.unknown_pods > 0)) {
      all.push_back(
          fmt::format("{} of {} replicas of {} reported a rate: demand is at least what "
                      "they report, so nothing is given back",
                      known, std::max<std::int64_t>(v.current, s.pods), v.name));
    }
  }
  return all;
}

bool plausible_count(double x) {
  return x > 0 && x <= 1e12;
}

/// How many requests of usual length the waiting ones are worth.
double waiting_at(const Backlog& gateway, const std::optional<queueing::Workload>& usual) {
  if (!plausible_count(gateway.requests)) return 0;
  const double tokens = gateway.output_tokens.value_or(0);
  if (!usual || !(usual->output_mean >= 1) || !plausible_count(tokens)) return gateway.requests;
  return std::clamp(tokens / usual->output_mean, gateway.requests / kBacklogFactorMax,
                    gateway.requests * kBacklogFactorMax);
}

/// What comes to the gateway and, as it holds it back or turns it away, to no replica.
double kept_from(const ModelReading& reading, const ModelAnalysis& out, double reached_per_s) {
  const double arrivals = reading.gateway ? reading.gateway->arrivals_per_s.value_or(0) : 0;
  const bool all_understood =
      std::none_of(out.variants.begin(), out.variants.end(),
                   [](const auto& v) { return v.current > 0 && v.evidence == Evidence::kUnknown; });
  if (!all_understood || !plausible_count(arrivals)) return 0;
  return std::max(0.0, arrivals - reached_per_s);
}

/// What will arrive before any queue, in the place of what replicas were given: of it the part that
/// goes to variants which are understood.
double foreseen(const ModelReading& reading, const Sums& sums) {
  double all = 0;
  for (const auto& variant : reading.variants) all += variant.summary.rate_per_s;
  const double share = all > 0 ? std::min(1.0, sums.arriving / all) : 1;
  return share * reading.forecast->demand;
}

void sum_up(ModelAnalysis& out, const ModelReading& reading, const ModelSettings& settings) {
  Sums all;
  std::map<Role, Sums> by_role;
  for (std::size_t i = 0; i < out.variants.size(); ++i) {
    add(all, reading.variants[i], out.variants[i], settings.drain_s);
    add(by_role[out.variants[i].role], reading.variants[i], out.variants[i], settings.drain_s);
  }
  const double queued =
      reading.gateway ? waiting_at(*reading.gateway, reading.workload) / settings.drain_s : 0;
  out.notes = doubts(reading, out);
  const auto need = [&](Sums sums) {
    sums.backlog += queued;
    sums.arriving = reading.forecast ? foreseen(reading, sums)
                                     : sums.arriving + kept_from(reading, out, sums.arriving);
    auto n = need_between_thresholds(sums.demand(), sums.supply, sums.anticipated,
                                     settings.scale_up_threshold, settings.scale_down_threshold);
    if (!out.notes.empty()) n.spare_per_s = 0;
    return RoleNeed{sums.demand(), sums.backlog, n.required_per_s, n.spare_per_s};
  };
  const RoleNeed total = need(all);
  out.supply_per_s = all.anticipated;
  out.demand_per_s = total.demand_per_s;
  out.backlog_per_s = total.backlog_per_s;
  out.required_per_s = total.required_per_s;
  out.spare_per_s = total.spare_per_s;
  if (by_role.size() == 1 && by_role.contains(Role::kBoth)) return;
  // A request passes through every role, so each role has the whole gateway queue before it.
  for (const auto& [role, sums] : by_role) out.roles[role] = need(sums);
}

void sum_up_published(ModelAnalysis& out) {
  for (const auto& v : out.variants) {
    out.supply_per_s += v.total_per_s;
    out.demand_per_s += v.demand_per_s;
  }
  out.required_per_s = std::max(0.0, out.demand_per_s - out.supply_per_s);
  out.spare_per_s = std::max(0.0, out.supply_per_s - out.demand_per_s);
}

/// Why there is nothing to decide by, if so.
std::optional<std::string> failure_of(const ModelAnalysis& out, Assembly assembly) {
  if (out.variants.empty()) return "no variants";
  const auto failed = [&](const VariantCapacity& v) {
    // An idle variant is understood well enough to be given back.
    return v.evidence != Evidence::kSized &&
           (assembly == Assembly::kPublished || v.evidence != Evidence::kIdle);
  };
  if (!std::all_of(out.variants.begin(), out.variants.end(), failed)) return std::nullopt;
  std::string text = "no variant could be analysed";
  std::size_t named = 0;
  for (const auto& v : out.variants) {
    if (++named > 3) {
      return text + fmt::format("; and {} more", out.variants.size() - 3);
    }
    text += fmt::format("{} {}: {}", named == 1 ? ":" : ";", v.name, v.failure.value_or(""));
  }
  return text;
}

}  // namespace

bool demand_known(const ModelAnalysis& model) {
  return !model.failure || model.demand_per_s > 0 ||
         std::any_of(model.variants.begin(), model.variants.end(), [](const VariantCapacity& v) {
           return v.evidence == Evidence::kSized || v.evidence == Evidence::kUnreachable;
         });
}

Need need_between_thresholds(double demand, double supply, double anticipated, double up,
                             double down) {
  Need need;
  need.required_per_s = std::max(0.0, demand / up - anticipated);
  if (need.required_per_s == 0) need.spare_per_s = std::max(0.0, supply - demand / down);
  return need;
}

Result<PublishedSupply> published_supply(double demand, double capacity) {
  const auto n = queueing::replicas_for(demand, capacity);
  if (!n) return fail(n.error());
  PublishedSupply out;
  out.replicas = *n;
  out.supply_per_s = static_cast<double>(*n) * capacity;
  out.utilization = demand / static_cast<double>(*n) / capacity;
  return out;
}

ModelAnalysis analyze(const ModelReading& reading, const ModelSettings& settings,
                      const SloTarget& slo) {
  ModelAnalysis out;
  out.key = reading.key;
  out.priority = reading.priority;
  out.slo = slo;
  out.forecast = reading.forecast;
  out.variants.reserve(reading.variants.size());
  for (const auto& variant : reading.variants) {
    out.variants.push_back(VariantAnalysis(variant, reading, settings, slo).run());
  }
  out.failure = failure_of(out, settings.assembly);
  if (settings.assembly == Assembly::kPublished) {
    sum_up_published(out);
  } else {
    sum_up(out, reading, settings);
  }
  return out;
}

}  // namespace tailrace::capacity
