#include "capacity/learners.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace tailrace::capacity {
namespace {

/// A pod that misses scrapes for longer counts as a new one.
constexpr double kPodMemorySeconds = 600;
/// A variant that is not collected for longer gives its estimator back.
constexpr double kVariantMemorySeconds = 3600;
/// The published filter predicts with a queue of ten batches.
constexpr std::int64_t kKalmanBatchesQueued = 10;
/// Relative: two searches for one rate differ by less.
constexpr double kSameRate = 1e-3;
constexpr std::int64_t kMaxQueue = 10'000'000;
/// Places that nobody waits for.
constexpr std::int64_t kPlacesFactor = 16, kMostPlaces = 1'000'000;

tune::TuneConfig tune_config(const Variant& variant, const ModelSettings& settings,
                             bool queue_before) {
  tune::TuneConfig config;
  config.estimator = settings.estimator;
  config.limits = variant.limits;
  config.knee_tokens = variant.knee_tokens;
  if (settings.estimator == tune::EstimatorKind::kKalman) {
    config.observation_mode = settings.latency_model;
    config.limits.max_queue = std::min(
        kMaxQueue,
        kKalmanBatchesQueued * std::clamp<std::int64_t>(variant.limits.max_num_seqs, 0, kMaxQueue));
  }
  if (queue_before && settings.estimator == tune::EstimatorKind::kWindowed) {
    const std::int64_t places = std::min(kMostPlaces, config.limits.max_num_seqs);
    config.limits.max_num_seqs = std::clamp(kPlacesFactor * places, places, kMostPlaces);
  }
  config.ttft_ms = settings.targets.ttft_ms;
  config.itl_ms = settings.targets.itl_ms;
  return config;
}

bool same_targets(const tune::TuneConfig& a, const tune::TuneConfig& b) {
  return a.ttft_ms == b.ttft_ms && a.itl_ms == b.itl_ms;
}

bool same_learning(const tune::TuneConfig& a, const tune::TuneConfig& b) {
  return a.estimator == b.estimator && a.observation_mode == b.observation_mode &&
         a.limits == b.limits && a.knee_tokens == b.knee_tokens;
}

/// The same question, over a restart.
std::string learning_of(const tune::TuneConfig& c) {
  return tune::fingerprint({{"estimator", std::string(tune::to_string(c.estimator))},
                            {"mode", std::to_string(static_cast<int>(c.observation_mode))},
                            {"max_num_seqs", std::to_string(c.limits.max_num_seqs)},
                            {"max_batched_tokens", std::to_string(c.limits.max_batched_tokens)},
                            {"kv_tokens", std::to_string(c.limits.kv_tokens)},
                            {"max_queue", std::to_string(c.limits.max_queue)},
                            {"knee_tokens", fmt::format("{}", c.knee_tokens)}});
}

/// What the variant is, said by its operator or by its flags.
tune::ParameterKey parameter_key(const Variant& variant) {
  tune::ParameterKey key;
  key.model = variant.key.model.empty() ? "unnamed" : variant.key.model;
  key.accelerator = variant.accelerator.empty() ? "unknown" : variant.accelerator;
  key.configuration =
      tune::fingerprint({{"fingerprint", variant.fingerprint},
                         {"gpus", std::to_string(variant.gpus_per_replica)},
                         {"max_batch", std::to_string(variant.limits.max_num_seqs)},
                         {"max_batched_tokens", std::to_string(variant.limits.max_batched_tokens)},
                         {"kv_tokens", std::to_string(variant.limits.kv_tokens)}});
  return key;
}

}  // namespace

Result<void> Learners::prepare(double now_s, Learner& learner, const Variant& variant,
                               tune::TuneConfig config) {
  auto key = parameter_key(variant);
  const bool same_variant = learner.estimator && key == learner.key;
  if (same_variant && same_learning(config, learner.config)) {
    if (same_targets(config, learner.config)) return {};
    // Only what its interval is about has changed: it keeps what it knows.
    auto renewed = tune::make_estimator(config);
    if (!renewed) return fail(renewed.error());
    if ((*renewed)->restore(learner.estimator->save())) {
      learner.estimator = std::move(*renewed);
      learner.config = config;
      return {};
    }
  }
  if (learner.estimator) put(learner, now_s);
  learner.begun_s = now_s;
  learner.pods.clear();
  auto started = start(learner, key, config);
  learner.saved.reset();
  if (!started) return fail(started.error());
  learner.estimator = std::move(started->estimator);
  learner.origin = std::move(started->reason);
  learner.key = std::move(key);
  learner.config = config;
  return {};
}

/// Where the process before left off with the same thing, everything goes on.
Result<tune::ParameterStore::Started> Learners::start(Learner& learner,
                                                      const tune::ParameterKey& key,
                                                      const tune::TuneConfig& config) const {
  auto& saved = learner.saved;
  auto started = store_.start(key, config);
  if (!started || !saved || saved->key != key || saved->learning != learning_of(config)) {
    return started;
  }
  if (saved->state) {
    auto own = tune::make_estimator(config);
    if (!own) return fail(own.error());
    if (!(*own)->restore(*saved->state)) return started;
    started->estimator = std::move(*own);
  } else if (started->from != tune::ParameterStore::Started::From::kItself) {
    return started;
  }
  started->reason = std::move(saved->origin);
  learner.pods = std::move(saved->pods);
  learner.begun_s = saved->begun_s;
  return started;
}

tune::ParameterEstimate Learners::update(double now_s, const Variant& variant,
                                         const ModelSettings& settings, bool queue_before) {
  Learner& learner = learners_[{variant.key, variant.name}];
  learner.seen_s = now_s;
  if (const auto ready =
          prepare(now_s, learner, variant, tune_config(variant, settings, queue_before));
      !ready) {
    tune::ParameterEstimate none;
    none.reason = ready.error().message;
    return none;
  }
  const bool grew_lately = variant.scaled_up_at_s && now_s >= *variant.scaled_up_at_s &&
                           now_s - *variant.scaled_up_at_s < settings.transient_delay_s;
  std::vector<tune::Observation> taught;
  std::size_t fresh = 0;
  for (const auto& pod : variant.pods) {
    const auto [known, first] = learner.pods.try_emplace(pod.pod, Pod{now_s, now_s});
    known->second.last_s = now_s;
    // Which pods are the new ones shows only against an earlier cycle; without one, any may be.
    const bool could_be_old = known->second.first_s <= learner.begun_s;
    const double since_s = now_s - known->second.first_s;
    const bool is_fresh = could_be_old ? grew_lately && learner.begun_s >= *variant.scaled_up_at_s
                                       : since_s < settings.transient_delay_s;
    if (is_fresh) {
      ++fresh;
    } else {
      taught.push_back(pod);
    }
  }
  std::erase_if(learner.pods,
                [&](const auto& p) { return now_s - p.second.last_s > kPodMemorySeconds; });
  auto estimate = learner.estimator->update(taught);
  if (fresh > 0) {
    estimate.reason += fmt::format("{}{} of {} pods are younger than {:g} s and left out",
                                   estimate.reason.empty() ? "" : "; ", fresh, variant.pods.size(),
                                   settings.transient_delay_s);
  }
  if (!estimate.values && variant.pods.empty()) estimate.reason = learner.origin;
  return estimate;
}

void Learners::set_rates(const ModelKey& model, const SloTarget& slo,
                         VariantCapacity& variant) const {
  auto& p = variant.parameters;
  p.rate_per_s = p.rate_low_per_s = p.rate_high_per_s = std::nullopt;
  // The estimator's rate is of means: of other targets it would be another one, after a search.
  const auto& targets = slo.targets;
  if (targets.statistic != queueing::Statistic::kMean || targets.e2e_ms > 0) return;
  const auto found = learners_.find({model, variant.name});
  if (found == learners_.end() || !found->second.estimator) return;
  if (!variant.sizing || !variant.workload || !(variant.sizing->rate_per_s > 0)) return;
  const auto under = found->second.estimator->current_under(slo.targets.ttft_ms, slo.targets.itl_ms,
                                                            *variant.workload);
  const double sized_per_s = variant.sizing->rate_per_s;
  if (!under.rate_per_s || !(std::abs(*under.rate_per_s / sized_per_s - 1) <= kSameRate)) return;
  p.rate_per_s = under.rate_per_s;
  p.rate_low_per_s = under.rate_low_per_s;
  p.rate_high_per_s = under.rate_high_per_s;
}

void Learners::put(const Learner& learner, double now_s) {
  if (!learner.estimator->current().values) return;
  // The store refuses what is too large or without a name; such a variant learns anew.
  (void)store_.put(learner.key, learner.config.estimator, *learner.estimator, now_s);
}

void Learners::forget(double now_s) {
  std::erase_if(learners_, [&](const auto& entry) {
    const Learner& learner = entry.second;
    if (now_s - learner.seen_s <= kVariantMemorySeconds) return false;
    if (learner.estimator) put(learner, now_s);
    return true;
  });
}

Learners::SavedLearners Learners::save(double now_s) {
  for (const auto& [key, learner] : learners_) {
    if (learner.estimator) put(learner, now_s);
  }
  SavedLearners out;
  for (const auto& [name, learner] : learners_) {
    if (!learner.estimator) {
      if (learner.saved) out.emplace(name, *learner.saved);  // not collected since the restart
      continue;
    }
    Saved saved{learner.key,
                learner.config.estimator,
                learning_of(learner.config),
                std::nullopt,
                learner.origin,
                learner.pods,
                learner.begun_s,
                learner.seen_s};
    const auto kept = store_.entries().find(learner.key);
    std::string state = learner.estimator->save();
    if (kept == store_.entries().end() || kept->second.kind != saved.kind ||
        kept->second.state != state) {
      saved.state = std::move(state);
    }
    out.emplace(name, std::move(saved));
  }
  return out;
}

void Learners::restore(tune::ParameterStore store, SavedLearners learners) {
  store_ = std::move(store);
  learners_.clear();
  for (auto& [name, saved] : learners) {
    Learner& learner = learners_[name];
    learner.seen_s = saved.seen_s;
    learner.saved = std::move(saved);
  }
}

}  // namespace tailrace::capacity
