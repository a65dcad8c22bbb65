#include "autoscaler/metrics_catalogue.h"

#include <array>

#include "tailrace/autoscaler/metrics_output.h"

namespace tailrace::autoscaler {
namespace {

constexpr std::string_view kScaler = "variant_name, namespace, accelerator_type";
constexpr std::string_view kVariant = "variant_name, namespace, model";
constexpr std::string_view kModel = "namespace, model";

constexpr std::array<core::MetricInfo, static_cast<std::size_t>(SeriesId::kCount)> kCatalogue{{
    {"wva_desired_replicas", "gauge", kScaler,
     "Replicas that are wanted; what is held keeps its value."},
    {"wva_current_replicas", "gauge", kScaler, "Replicas that serve."},
    {"wva_desired_ratio", "gauge", kScaler, "Wanted over serving; wanted, where none serves."},
    {"wva_replica_scaling_total", "counter",
     "variant_name, namespace, accelerator_type, direction, reason",
     "Decisions that change replicas. direction: up, down; reason: the rule that set the number."},
    {"wva_optimization_duration_seconds", "histogram", "status",
     "Of a cycle, from collecting to the last outcome. status: success, error."},
    {"wva_models_processed", "gauge", "", "Models of the latest cycle."},
    {"wva_decisions_limited_total", "counter", "variant_name, namespace, limiter_name",
     "Decisions that a limit cut. limiter_name: gpu."},
    {"wva_enforcer_modifications_total", "counter", "policy_type",
     "Decisions that a rule of the operator changed: min, max, scale_to_zero, scale_from_zero."},
    {"wva_required_capacity", "gauge", "variant_name, namespace, model_name, unit",
     "That its model, or its role where prefill and decode are apart, lacks. unit: "
     "requests_per_second."},
    {"wva_spare_capacity", "gauge", "variant_name, namespace, model_name, unit",
     "That is too much; never beside wva_required_capacity above 0."},
    {"wva_config_optimization_interval_seconds", "gauge", "", "Between two cycles."},
    {"wva_config_info", "gauge", "analyzer_name, limiter_enabled, scale_to_zero_enabled",
     "Always 1. analyzer_name: queueing-model; limiter_enabled: GPUs are counted; absent without "
     "a `default` entry."},
    {"wva_optimizer_active", "gauge", "optimizer_name",
     "1 for the one in force. optimizer_name: cost-aware, greedy-by-score."},
    {"wva_errors_total", "counter", "component, error_type",
     "error_type: trouble (in the log), order (an actuator did not carry it out)."},
    {"wva_gpu_discovery_up", "gauge", "",
     "Whether the cluster's nodes could be read; absent where there is no cluster."},
    {"wva_available_gpus", "gauge", "accelerator_vendor, accelerator_model, accelerator_type",
     "Of nodes that take pods, beside what variants hold; as last read. Model and type are the "
     "nodes' product label."},
    {"wva_metrics_collection_duration_seconds", "histogram", "query_type",
     "query_type: all, since everything is asked for at once."},
    {"wva_metrics_collection_errors_total", "counter", "query_type, reason",
     "query_type: all; reason: source_failed."},
    {"wva_metrics_pods_discovered", "gauge", "namespace", "Pods of variants."},
    {"wva_metrics_freshness_status", "gauge", "variant_name, status",
     "Its pods by what is known of them. status: fresh, stale (counts as unknown), missing."},
    {"wva_pod_mapping_miss_total", "counter", "namespace, reason",
     "Pods with an engine's series that belong to no variant, in each cycle. reason: "
     "unresolved."},
    {"wva_saturation_metrics_up", "gauge", "variant_name, namespace",
     "1 where this cycle decided, 0 where too little was known."},
    {"wva_saturation_utilization", "gauge", "variant_name, namespace, model_name, accelerator_type",
     "Demand over what its replicas take within the SLO; above 1 where they are too few."},
    {"wva_kv_cache_tokens_used", "gauge", "variant_name, namespace, model_name",
     "In all replicas; absent where one does not say it."},
    {"wva_kv_cache_tokens_capacity", "gauge", "variant_name, namespace, model_name",
     "Of all replicas; absent where one does not say it."},
    {"tailrace_build_info", "gauge", "version", "Always 1; the label says what runs."},
    {"tailrace_autoscaler_leader", "gauge", "",
     "1 for the instance that decides, 0 for one that waits; absent without an election."},
    {"tailrace_autoscaler_cycles_total", "counter", "result",
     "result: decided, undecided (some model's replicas were held, for want of knowledge), blind "
     "(nothing could be decided)."},
    {"tailrace_autoscaler_last_cycle_timestamp_seconds", "gauge", "",
     "Unix time of the latest cycle."},
    {"tailrace_autoscaler_cycle_duration_seconds", "gauge", "", "Of the latest cycle."},
    {"tailrace_autoscaler_blind", "gauge", "",
     "1 while the replicas of nothing are known and every number below is older."},
    {"tailrace_autoscaler_conditions", "gauge", "kind",
     "Things that are wrong with what was collected, by kind; each is in the log."},
    {"tailrace_autoscaler_variants_dropped", "gauge", "",
     "Variants without series of their own, since there are too many."},
    {"tailrace_autoscaler_desired_replicas", "gauge", kVariant, "Replicas that are wanted."},
    {"tailrace_autoscaler_current_replicas", "gauge", kVariant, "Replicas that serve."},
    {"tailrace_autoscaler_pending_replicas", "gauge", kVariant, "Replicas on their way."},
    {"tailrace_autoscaler_informed", "gauge", kVariant,
     "0 while too little is known and the replicas are held."},
    {"tailrace_autoscaler_decision_info", "gauge", "variant_name, namespace, model, action, rule",
     "Always 1. action: hold, scale_up, scale_down; rule: the one that set the number."},
    {"tailrace_autoscaler_alpha_seconds", "gauge", kVariant, "Learnt: an iteration's fixed time."},
    {"tailrace_autoscaler_beta_seconds", "gauge", kVariant,
     "Learnt: an iteration's time for each token that it computes."},
    {"tailrace_autoscaler_gamma_seconds", "gauge", kVariant,
     "Learnt: an iteration's time for each token of context that it touches."},
    {"tailrace_autoscaler_parameters_identified", "gauge", kVariant,
     "1 where alpha, beta and gamma are all known from data."},
    {"tailrace_autoscaler_parameters_condition", "gauge", kVariant,
     "How much weaker the weakest direction of the parameters is seen than the strongest."},
    {"tailrace_autoscaler_nis", "gauge", kVariant,
     "Normalised innovation squared of the latest cycle."},
    {"tailrace_autoscaler_holdout_error", "gauge", kVariant,
     "Relative error with which latencies were foretold before they were learnt from."},
    {"tailrace_autoscaler_rate_per_replica", "gauge", kVariant,
     "Requests per second that one replica takes within the SLO."},
    {"tailrace_autoscaler_rate_per_replica_bound", "gauge", "variant_name, namespace, model, bound",
     "Its 90 % interval: low, high; absent until the parameters are identified."},
    {"tailrace_autoscaler_utilization", "gauge", kVariant, "Demand over what its replicas take."},
    {"tailrace_autoscaler_data_age_seconds", "gauge", kVariant,
     "Age of its newest reading; absent where none was ever had."},
    {"tailrace_autoscaler_active", "gauge", kModel,
     "0 while the settings have no default entry and replicas are held."},
    {"tailrace_autoscaler_slo_seconds", "gauge", "namespace, model, kind, statistic, source",
     "The target in force. kind: ttft, itl, e2e; source: explicit, inferred, observed."},
    {"tailrace_autoscaler_demand", "gauge", kModel,
     "Requests per second that arrive, and what the backlog adds."},
    {"tailrace_autoscaler_backlog", "gauge", kModel, "Of it: what only waits for capacity."},
    {"tailrace_autoscaler_supply", "gauge", kModel,
     "Requests per second of replicas that are there and on their way."},
    {"tailrace_autoscaler_required", "gauge", kModel, "Requests per second that are lacking."},
    {"tailrace_autoscaler_spare", "gauge", kModel, "Requests per second that are too much."},
}};

}  // namespace

std::span<const core::MetricInfo> series_catalogue() {
  return kCatalogue;
}

std::string autoscaler_metrics_reference() {
  const std::string text = R"(# The autoscaler's metrics

`tailrace autoscale` serves these at `/metrics` in Prometheus' text format. This page is generated from the catalogue
(`tailrace check --metrics-reference-autoscaler`); do not edit it.

Times are seconds, rates requests per second. What is not known is absent, never 0. A variant or model that vanishes takes
its series along. `wva_*` series are those of the workload-variant-autoscaler, so that a HorizontalPodAutoscaler or a
ScaledObject which reads them goes on as before; `metrics.wva_names: false` leaves them out. With
`kubernetes.controller_instance` their gauges have that label too. A counter with labels appears with its first event. An instance that does not lead says nothing of models and variants.

Of its series these are not here, since nothing of ours would be their value: `wva_config_kv_spare_threshold` and
`wva_config_queue_spare_threshold` (replicas are sized by latency targets; there are no such thresholds). Capacities are
`unit="requests_per_second"`, where that autoscaler counts tokens of memory.

)";
  return text + core::metric_table(kCatalogue);
}

}  // namespace tailrace::autoscaler
