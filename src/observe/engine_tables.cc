#include "observe/engine_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "tailrace/core/check.h"

namespace tailrace::observe {
namespace {

constexpr double kMillis = 1000;  // exporters count seconds

EngineTable vllm() {
  EngineTable t;
  t.kind = EngineKind::kVllm;
  t.prefixes = {"vllm:"};
  t.completed = {{"vllm:request_success_total"}, {"vllm:e2e_request_latency_seconds_count"}};
  t.running = {{"vllm:num_requests_running"}};
  t.waiting = {{"vllm:num_requests_waiting"}};
  t.input_tokens = {Histogram{"vllm:request_prompt_tokens"},
                    PerRequest{{"vllm:prompt_tokens_total"}}};
  t.output_tokens = {Histogram{"vllm:request_generation_tokens"},
                     PerRequest{{"vllm:generation_tokens_total"}}};
  t.ttft_ms = {Histogram{"vllm:time_to_first_token_seconds", kMillis}};
  t.itl_ms = {Histogram{"vllm:inter_token_latency_seconds", kMillis},
              Histogram{"vllm:time_per_output_token_seconds", kMillis},
              Histogram{"vllm:request_time_per_output_token_seconds", kMillis}};
  t.kv_usage = {Gauge{"vllm:kv_cache_usage_perc"}, Gauge{"vllm:gpu_cache_usage_perc"}};
  t.kv_tokens = {InfoProduct{"vllm:cache_config_info", "num_gpu_blocks", "block_size"}};
  t.prefix_hit = {
      CounterRatio{{"vllm:prefix_cache_hits_total"}, {"vllm:prefix_cache_queries_total"}},
      CounterRatio{{"vllm:prefix_cache_hits"}, {"vllm:prefix_cache_queries"}},
      CounterRatio{{"vllm:gpu_prefix_cache_hits_total"}, {"vllm:gpu_prefix_cache_queries_total"}},
      Gauge{"vllm:gpu_prefix_cache_hit_rate"}};
  return t;
}

/// Newer releases write no colons.
EngineTable sglang() {
  EngineTable t;
  t.kind = EngineKind::kSglang;
  t.prefixes = {"sglang:", "sglang_"};
  t.completed = {{"sglang:num_requests_total"},
                 {"sglang_num_requests_total"},
                 {"sglang:e2e_request_latency_seconds_count"},
                 {"sglang_e2e_request_latency_seconds_count"}};
  t.running = {{"sglang:num_running_reqs"}, {"sglang_num_running_reqs"}};
  t.waiting = {{"sglang:num_queue_reqs"}, {"sglang_num_queue_reqs"}};
  t.input_tokens = {
      Histogram{"sglang:prompt_tokens_histogram"}, Histogram{"sglang_prompt_tokens_histogram"},
      PerRequest{{"sglang:prompt_tokens_total"}}, PerRequest{{"sglang_prompt_tokens_total"}}};
  t.output_tokens = {Histogram{"sglang:generation_tokens_histogram"},
                     Histogram{"sglang_generation_tokens_histogram"},
                     PerRequest{{"sglang:generation_tokens_total"}},
                     PerRequest{{"sglang_generation_tokens_total"}}};
  t.ttft_ms = {Histogram{"sglang:time_to_first_token_seconds", kMillis},
               Histogram{"sglang_time_to_first_token_seconds", kMillis}};
  t.itl_ms = {Histogram{"sglang:inter_token_latency_seconds", kMillis},
              Histogram{"sglang_inter_token_latency_seconds", kMillis},
              Histogram{"sglang:time_per_output_token_seconds", kMillis}};
  t.kv_usage = {Gauge{"sglang:token_usage"}, Gauge{"sglang_token_usage"}};
  t.kv_tokens = {Gauge{"sglang:max_total_num_tokens"}, Gauge{"sglang_max_total_num_tokens"},
                 InfoProduct{"sglang:cache_config_info", "num_pages", "page_size"},
                 InfoProduct{"sglang_cache_config_info", "num_pages", "page_size"}};
  t.prefix_hit = {CounterRatio{{"sglang:cached_tokens_total"}, {"sglang:prompt_tokens_total"}},
                  CounterRatio{{"sglang_cached_tokens_total"}, {"sglang_prompt_tokens_total"}},
                  Gauge{"sglang:cache_hit_rate"}, Gauge{"sglang_cache_hit_rate"}};
  return t;
}

EngineTable tensorrt_llm() {
  EngineTable t;
  t.kind = EngineKind::kTensorRtLlm;
  t.prefixes = {"trtllm_", "trtllm:", "nv_trt_llm_"};
  t.completed = {{"trtllm_request_success_total"},
                 {"trtllm:request_success_total"},
                 {"trtllm_e2e_request_latency_seconds_count"}};
  t.running = {{"trtllm_num_requests_running"},
               {"nv_trt_llm_request_metrics", {"request_type", "scheduled"}}};
  t.waiting = {{"trtllm_num_requests_waiting"},
               {"nv_trt_llm_request_metrics", {"request_type", "waiting"}}};
  t.ttft_ms = {Histogram{"trtllm_time_to_first_token_seconds", kMillis},
               Histogram{"trtllm:time_to_first_token_seconds", kMillis}};
  t.itl_ms = {Histogram{"trtllm_time_per_output_token_seconds", kMillis},
              Histogram{"trtllm:time_per_output_token_seconds", kMillis}};
  t.kv_usage = {Gauge{"trtllm_kv_cache_utilization"},
                Gauge{"nv_trt_llm_kv_cache_block_metrics", {"kv_cache_block_type", "fraction"}}};
  t.kv_tokens = {
      GaugeProduct{{"trtllm_kv_cache_max_blocks"}, {"trtllm_kv_cache_tokens_per_block"}},
      GaugeProduct{{"nv_trt_llm_kv_cache_block_metrics", {"kv_cache_block_type", "max"}},
                   {"nv_trt_llm_kv_cache_block_metrics", {"kv_cache_block_type", "tokens_per"}}}};
  return t;
}

/// llama-server counts tokens and seconds, not requests: what it takes for each one can be said
/// where a gateway counts them.
EngineTable llama_cpp() {
  EngineTable t;
  t.kind = EngineKind::kLlamaCpp;
  t.prefixes = {"llamacpp:"};
  t.running = {{"llamacpp:requests_processing"}};
  t.waiting = {{"llamacpp:requests_deferred"}};
  t.input_tokens = {PerRequest{{"llamacpp:prompt_tokens_total"}}};
  t.output_tokens = {PerRequest{{"llamacpp:tokens_predicted_total"}}};
  t.ttft_ms = {PerRequestAndWait{{"llamacpp:prompt_seconds_total"}, kMillis}};
  t.itl_ms = {CounterRatio{
      {"llamacpp:tokens_predicted_seconds_total"}, {"llamacpp:tokens_predicted_total"}, kMillis}};
  t.kv_usage = {Gauge{"llamacpp:kv_cache_usage_ratio"}};
  return t;
}

GatewayTable tailrace() {
  GatewayTable t;
  t.name = "tailrace gateway";
  t.model_labels = {"model"};
  t.arrivals = {{"tailrace_arrivals_total"}};
  t.relayed = {{"tailrace_relayed_requests_total"}};
  t.waiting_requests = {{"tailrace_queue_jobs"}};
  t.waiting_tokens = {{"tailrace_queue_output_tokens"}};
  t.input_tokens = {
      CounterRatio{{"tailrace_prompt_tokens_total"}, {"tailrace_queue_entries_total"}}};
  t.output_tokens = {Histogram{"tailrace_answer_tokens"}};
  t.input_squares = {{{"tailrace_prompt_tokens_squared_total"}, {"tailrace_queue_entries_total"}}};
  t.output_squares = {{{"tailrace_answer_tokens_squared_total"}, {"tailrace_answer_tokens_count"}}};
  t.dispatched = {{"tailrace_backend_requests_total"}};
  t.pace = {{{"tailrace_backend_itl_seconds"},
             {"tailrace_backend_itl_per_stream_seconds"},
             {"tailrace_backend_itl_per_stream_error_seconds"}}};
  t.pod_labels = {"backend"};
  return t;
}

GatewayTable endpoint_picker() {
  GatewayTable t;
  t.name = "llm-d endpoint picker";
  t.model_labels = {"target_model_name", "model_name"};
  t.arrivals = {{"llm_d_epp_request_total"},
                {"inference_extension_request_total"},
                {"inference_objective_request_total"},
                {"inference_model_request_total"}};
  t.waiting_requests = {{"llm_d_epp_flow_control_queue_size"},
                        {"inference_extension_flow_control_queue_size"}};
  t.input_tokens = {
      Histogram{"llm_d_epp_request_input_tokens"}, Histogram{"inference_extension_input_tokens"},
      Histogram{"inference_objective_input_tokens"}, Histogram{"inference_model_input_tokens"}};
  t.output_tokens = {Histogram{"inference_extension_output_tokens"},
                     Histogram{"inference_objective_output_tokens"},
                     Histogram{"inference_model_output_tokens"}};
  t.dispatched = {{"llm_d_epp_scheduler_attempts_total", {"status", "success"}},
                  {"inference_extension_scheduler_attempts_total", {"status", "success"}}};
  t.pod_labels = {"endpoint_name", "pod_name"};
  t.port_label = "port";
  return t;
}

// --- what a table has --------------------------------------------------------------------------

/// Shows each quantity with its name and its choices.
template <class Show>
void each_quantity(const EngineTable& t, const Show& show) {
  show("requests completed", t.completed);
  show("running", t.running);
  show("waiting", t.waiting);
  show("prompt tokens", t.input_tokens);
  show("output tokens", t.output_tokens);
  show("TTFT", t.ttft_ms);
  show("ITL", t.itl_ms);
  show("KV cache in use", t.kv_usage);
  show("KV cache, tokens", t.kv_tokens);
  show("prefix cache hits", t.prefix_hit);
}
template <class Show>
void each_quantity(const GatewayTable& t, const Show& show) {
  show("arrivals", t.arrivals);
  show("requests that generate nothing", t.relayed);
  show("waiting", t.waiting_requests);
  show("waiting, predicted output tokens", t.waiting_tokens);
  show("prompt tokens", t.input_tokens);
  show("prompt tokens squared", t.input_squares);
  show("output tokens", t.output_tokens);
  show("output tokens squared", t.output_squares);
  show("sent to each pod", t.dispatched);
  show("ITL of each pod, growth with a stream, error of that", t.pace);
}

// --- names -----------------------------------------------------------------------------------

using Names = std::set<std::string, std::less<>>;

void name(Names& out, const Counter& c) {
  out.emplace(c.name);
}
void name(Names& out, const Gauge& g) {
  out.emplace(g.name);
}
void name(Names& out, const Histogram& h) {
  for (const char* suffix : {"_sum", "_count", "_bucket"}) out.insert(std::string(h.name) + suffix);
}
void name(Names& out, const GaugeProduct& p) {
  name(out, p.one);
  name(out, p.other);
}
void name(Names& out, const GaugesOfPace& p) {
  for (const Gauge& gauge : {p.gap, p.per_stream, p.error}) name(out, gauge);
}
void name(Names& out, const InfoProduct& p) {
  out.emplace(p.name);
}
void name(Names& out, const CounterRatio& r) {
  name(out, r.over);
  name(out, r.under);
}
void name(Names& out, const PerRequest& p) {
  name(out, p.total);
}
void name(Names& out, const PerRequestAndWait& p) {
  name(out, p.seconds);
}
template <class... Kinds>
void name(Names& out, const std::variant<Kinds...>& any) {
  std::visit([&](const auto& one) { name(out, one); }, any);
}
template <class Table>
void names(Names& out, const Table& table) {
  each_quantity(table, [&](std::string_view, const auto& choices) {
    for (const auto& one : choices) name(out, one);
  });
}

// --- the page --------------------------------------------------------------------------------

std::string where(const OnlyWhere& only) {
  return only.label.empty() ? "" : fmt::format("{{{}=\"{}\"}}", only.label, only.value);
}
std::string text(const Counter& c) {
  return fmt::format("`{}{}`", c.name, where(c.only));
}
std::string text(const Gauge& g) {
  return fmt::format("`{}{}`", g.name, where(g.only));
}
std::string text(const Histogram& h) {
  return fmt::format("histogram `{}`", h.name);
}
std::string text(const GaugeProduct& p) {
  return text(p.one) + " × " + text(p.other);
}
std::string text(const GaugesOfPace& p) {
  return text(p.gap) + ", " + text(p.per_stream) + ", " + text(p.error);
}
std::string text(const InfoProduct& p) {
  return fmt::format("labels `{}` × `{}` of `{}`", p.one, p.other, p.name);
}
std::string text(const CounterRatio& r) {
  return text(r.over) + " / " + text(r.under);
}
std::string text(const PerRequest& p) {
  return text(p.total) + " / requests";
}
std::string text(const PerRequestAndWait& p) {
  return text(p.seconds) + " / requests + waiting / rate";
}
template <class... Kinds>
std::string text(const std::variant<Kinds...>& any) {
  return std::visit([](const auto& one) { return text(one); }, any);
}

template <class Table>
void rows(std::string& out, std::string_view exporter, const Table& table) {
  each_quantity(table, [&](std::string_view quantity, const auto& choices) {
    std::string series;
    for (const auto& one : choices) series += (series.empty() ? "" : "; else ") + text(one);
    out += fmt::format("| {} | {} | {} |\n", exporter, quantity, series.empty() ? "–" : series);
  });
}

}  // namespace

std::span<const EngineTable> engine_tables() {
  static const std::array<EngineTable, 4> kTables{vllm(), sglang(), tensorrt_llm(), llama_cpp()};
  return kTables;
}

const EngineTable& table_of(EngineKind kind) {
  for (const auto& table : engine_tables()) {
    if (table.kind == kind) return table;
  }
  TAILRACE_CHECK(false);
}

std::span<const GatewayTable> gateway_tables() {
  static const std::array<GatewayTable, 2> kTables{tailrace(), endpoint_picker()};
  return kTables;
}

std::vector<std::string> series_names(std::span<const EngineKind> engines) {
  Names out{std::string(kProcessStart)};
  for (const EngineKind kind : engines) names(out, table_of(kind));
  for (const auto& t : gateway_tables()) names(out, t);
  return {out.begin(), out.end()};
}

bool is_summed(std::string_view name) {
  static const Names kSummed = [] {
    Names out;
    const auto take = [&](const auto& choices) {
      for (const auto& one : choices) out.emplace(one.name);
    };
    for (const auto& t : engine_tables()) take(t.completed), take(t.running), take(t.waiting);
    for (const auto& t : gateway_tables()) {
      take(t.arrivals), take(t.relayed), take(t.waiting_requests);
    }
    return out;
  }();
  return kSummed.find(name) != kSummed.end();
}

std::span<const std::string_view> model_label_names() {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> out{"model_name"};
    for (const auto& t : gateway_tables()) {
      for (const auto label : t.model_labels) {
        if (std::find(out.begin(), out.end(), label) == out.end()) out.push_back(label);
      }
    }
    return out;
  }();
  return kNames;
}

std::string engine_tables_reference() {
  std::string out = "| exporter | quantity | series |\n|---|---|---|\n";
  for (const auto& t : engine_tables()) rows(out, to_string(t.kind), t);
  for (const auto& t : gateway_tables()) rows(out, t.name, t);
  return out;
}

}  // namespace tailrace::observe
