// What each engine's series come to, and what is said of those that come to nothing.
#include "tailrace/observe/observer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "observe/support/scrapes.h"

namespace tailrace::observe {
namespace {

using namespace testing;

/// A vLLM pod with 2 requests/s completed, running 4 → 10 and waiting 0 → 24 over 60 s.
void add_vllm(Scrapes& scrapes, const Labels& pod, double until_s = kNow) {
  for (int i = 0; i <= 4; ++i) {
    const double t = until_s - 60 + 15 * i;
    scrapes.add(t, "vllm:request_success_total", with(pod, "finished_reason", "stop"),
                1'000 + 22.5 * i);
    scrapes.add(t, "vllm:request_success_total", with(pod, "finished_reason", "length"),
                50 + 7.5 * i);
    scrapes.add(t, "vllm:num_requests_running", pod, 4 + 1.5 * i);
    scrapes.add(t, "vllm:num_requests_waiting", pod, 6.0 * i);
    scrapes.add(t, "vllm:kv_cache_usage_perc", pod, 0.1 * i);
    scrapes.add(t, "vllm:prefix_cache_queries_total", pod, 10'000 + 1'000.0 * i);
    scrapes.add(t, "vllm:prefix_cache_hits_total", pod, 500 + 250.0 * i);
    scrapes.add_histogram(t, "vllm:request_prompt_tokens", pod,
                          {{"100.0", 10 + 10.0 * i}, {"1000.0", 5 + 20.0 * i}, {"+Inf", 0}},
                          5'000 + 9'000.0 * i);
    scrapes.add_histogram(t, "vllm:request_generation_tokens", pod,
                          {{"10.0", 10.0 * i}, {"200.0", 20.0 * i}, {"+Inf", 0}}, 3'000.0 * i);
    scrapes.add_histogram(t, "vllm:time_to_first_token_seconds", pod,
                          {{"0.1", 29.0 * i}, {"0.5", 1.0 * i}, {"+Inf", 0}}, 1.5 * i);
    scrapes.add_histogram(t, "vllm:inter_token_latency_seconds", pod,
                          {{"0.01", 2'000.0 * i}, {"0.05", 1'000.0 * i}, {"+Inf", 0}}, 36.0 * i);
  }
  scrapes.add(until_s, "vllm:cache_config_info",
              with(with(pod, "num_gpu_blocks", "5000"), "block_size", "16"), 1);
}

TEST(Vllm, ArrivalsAreCompletionsAndTheGrowthOfWhatIsInside) {
  Scrapes scrapes;
  add_vllm(scrapes, pod_labels("llm", "llama-0", "llama"));
  const auto reading = read_once(scrapes);
  const auto& pod = only_pod(reading);
  EXPECT_EQ(pod.pod, "llama-0");
  EXPECT_EQ(pod.freshness, Freshness::kFresh);
  ASSERT_TRUE(pod.rate.value);
  EXPECT_DOUBLE_EQ(*pod.rate.value, 2 + (6 + 24) / 60.0);
  EXPECT_DOUBLE_EQ(pod.completed.value.value(), 120);
  EXPECT_TRUE(reading.conditions.empty()) << said(reading, reading.conditions.front().kind);
}

TEST(Vllm, EveryQuantityIsReadFromItsSeries) {
  Scrapes scrapes;
  add_vllm(scrapes, pod_labels("llm", "llama-0", "llama"));
  const auto reading = read_once(scrapes);
  const auto& pod = only_pod(reading);
  EXPECT_DOUBLE_EQ(pod.input_tokens.value.value(), 300);   // 36,000 tokens of 120 requests
  EXPECT_DOUBLE_EQ(pod.output_tokens.value.value(), 100);  // 12,000 of 120
  EXPECT_DOUBLE_EQ(pod.ttft_ms.value.value(), 50);         // 6 s of 120
  EXPECT_DOUBLE_EQ(pod.itl_ms.value.value(), 12);          // 144 s of 12,000
  EXPECT_DOUBLE_EQ(pod.running.value.value(), (5.5 + 7 + 8.5 + 10) / 4);
  EXPECT_DOUBLE_EQ(pod.waiting.value.value(), 24);
  EXPECT_DOUBLE_EQ(pod.kv_usage.value.value(), 0.4);
  EXPECT_DOUBLE_EQ(pod.kv_tokens.value.value(), 80'000);
  EXPECT_DOUBLE_EQ(pod.prefix_hit.value.value(), 0.25);
  // 120 of 120 are below 0.5 s, 116 below 0.1 s: rank 118.8 is 0.7 of the way.
  EXPECT_NEAR(pod.ttft_p99_ms.value.value(), 100 + 400 * 0.7, 1e-9);
  EXPECT_EQ(pod.output_buckets, (std::vector<LengthBucket>{{10, 40}, {200, 120}, {HUGE_VAL, 120}}));
}

TEST(Vllm, OldNamesAreRead) {
  const auto pod = pod_labels("llm", "old", "llama");
  Scrapes scrapes;
  for (int i = 0; i <= 4; ++i) {
    const double t = kNow - 60 + 15 * i;
    scrapes.add(t, "vllm:request_success_total", pod, 30.0 * i);
    scrapes.add(t, "vllm:num_requests_running", pod, 3);
    scrapes.add(t, "vllm:num_requests_waiting", pod, 0);
    scrapes.add(t, "vllm:gpu_cache_usage_perc", pod, 0.5);
    scrapes.add(t, "vllm:gpu_prefix_cache_hit_rate", pod, 0.2);
    scrapes.add(t, "vllm:prompt_tokens_total", pod, 9'000.0 * i);
    scrapes.add(t, "vllm:generation_tokens_total", pod, 3'000.0 * i);
    scrapes.add_histogram(t, "vllm:time_per_output_token_seconds", pod, {{"+Inf", 3'000.0 * i}},
                          60.0 * i);
  }
  const auto reading = read_once(scrapes, {variant("llm", "old", "llama", {"old"})});
  const auto& read = only_pod(reading);
  EXPECT_DOUBLE_EQ(read.kv_usage.value.value(), 0.5);
  EXPECT_EQ(read.kv_usage.metric, "vllm:gpu_cache_usage_perc");
  EXPECT_DOUBLE_EQ(read.prefix_hit.value.value(), 0.2);
  EXPECT_DOUBLE_EQ(read.input_tokens.value.value(), 300);
  EXPECT_DOUBLE_EQ(read.output_tokens.value.value(), 100);
  EXPECT_DOUBLE_EQ(read.itl_ms.value.value(), 20);
  EXPECT_EQ(read.itl_ms.metric, "vllm:time_per_output_token_seconds");
  EXPECT_FALSE(read.ttft_ms.value);
  EXPECT_NE(said(reading, ConditionKind::kSeriesMissing).find("time to first token"),
            std::string::npos);
}

TEST(Vllm, AHitRateOfMinusOneIsNotKnown) {
  Scrapes scrapes;
  const auto pod = pod_labels("llm", "old", "llama");
  scrapes.add(kNow, "vllm:num_requests_running", pod, 0);
  scrapes.add(kNow, "vllm:gpu_prefix_cache_hit_rate", pod, -1);
  const auto reading = read_once(scrapes, {variant("llm", "old", "llama", {"old"})});
  EXPECT_FALSE(only_pod(reading).prefix_hit.value);
}

/// One SGLang pod under a prefix of names.
void add_sglang(Scrapes& scrapes, const Labels& pod, const std::string& prefix) {
  for (int i = 0; i <= 4; ++i) {
    const double t = kNow - 60 + 15 * i;
    scrapes.add(t, prefix + "num_requests_total", pod, 15.0 * i);
    scrapes.add(t, prefix + "num_running_reqs", pod, 8);
    scrapes.add(t, prefix + "num_queue_reqs", pod, 2);
    scrapes.add(t, prefix + "token_usage", pod, 0.28);
    scrapes.add(t, prefix + "max_total_num_tokens", pod, 100'000);
    scrapes.add(t, prefix + "prompt_tokens_total", pod, 7'500.0 * i);
    scrapes.add(t, prefix + "cached_tokens_total", pod, 2'500.0 * i);
    scrapes.add_histogram(t, prefix + "prompt_tokens_histogram", pod,
                          {{"1000", 15.0 * i}, {"+Inf", 0}}, 7'500.0 * i);
    scrapes.add_histogram(t, prefix + "generation_tokens_histogram", pod,
                          {{"1000", 15.0 * i}, {"+Inf", 0}}, 1'500.0 * i);
    scrapes.add_histogram(t, prefix + "time_to_first_token_seconds", pod,
                          {{"1", 15.0 * i}, {"+Inf", 0}}, 3.0 * i);
    scrapes.add_histogram(t, prefix + "inter_token_latency_seconds", pod,
                          {{"1", 1'500.0 * i}, {"+Inf", 0}}, 45.0 * i);
  }
}

TEST(Sglang, EveryQuantityIsReadUnderBothSpellings) {
  for (const std::string prefix : {"sglang:", "sglang_"}) {
    Scrapes scrapes;
    add_sglang(scrapes, pod_labels("llm", "sg-0", "llama"), prefix);
    const auto reading =
        read_once(scrapes, {variant("llm", "sg", "llama", {"sg-0"}, EngineKind::kSglang)});
    const auto& pod = only_pod(reading);
    EXPECT_EQ(pod.engine, EngineKind::kSglang);
    EXPECT_DOUBLE_EQ(pod.rate.value.value(), 1) << prefix;
    EXPECT_DOUBLE_EQ(pod.input_tokens.value.value(), 500);
    EXPECT_DOUBLE_EQ(pod.output_tokens.value.value(), 100);
    EXPECT_DOUBLE_EQ(pod.ttft_ms.value.value(), 200);
    EXPECT_DOUBLE_EQ(pod.itl_ms.value.value(), 30);
    EXPECT_DOUBLE_EQ(pod.running.value.value(), 8);
    EXPECT_DOUBLE_EQ(pod.waiting.value.value(), 2);
    EXPECT_DOUBLE_EQ(pod.kv_usage.value.value(), 0.28);
    EXPECT_DOUBLE_EQ(pod.kv_tokens.value.value(), 100'000);
    EXPECT_NEAR(pod.prefix_hit.value.value(), 1.0 / 3, 1e-12);
    EXPECT_TRUE(reading.conditions.empty());
  }
}

TEST(Sglang, RanksOfOneEngineAreCountedOnce) {
  Scrapes scrapes;
  const auto pod = pod_labels("llm", "sg-0", "llama");
  for (const char* rank : {"0", "1", "2", "3"})
    add_sglang(scrapes, with(pod, "tp_rank", rank), "sglang:");
  const auto reading =
      read_once(scrapes, {variant("llm", "sg", "llama", {"sg-0"}, EngineKind::kSglang)});
  EXPECT_DOUBLE_EQ(only_pod(reading).running.value.value(), 8);
  EXPECT_DOUBLE_EQ(only_pod(reading).rate.value.value(), 1);
}

TEST(TensorRtLlm, BothServersAreRead) {
  Scrapes scrapes;
  const auto serve = pod_labels("llm", "trt-0", "llama"), triton = pod_labels("llm", "trt-1");
  for (int i = 0; i <= 4; ++i) {
    const double t = kNow - 60 + 15 * i;
    scrapes.add(t, "trtllm_request_success_total", serve, 30.0 * i);
    scrapes.add(t, "trtllm_num_requests_running", serve, 5);
    scrapes.add(t, "trtllm_num_requests_waiting", serve, 1);
    scrapes.add(t, "trtllm_kv_cache_utilization", serve, 0.6);
    scrapes.add(t, "trtllm_kv_cache_max_blocks", serve, 1'000);
    scrapes.add(t, "trtllm_kv_cache_tokens_per_block", serve, 32);
    scrapes.add_histogram(t, "trtllm_time_to_first_token_seconds", serve, {{"+Inf", 30.0 * i}},
                          3.0 * i);
    scrapes.add_histogram(t, "trtllm_time_per_output_token_seconds", serve, {{"+Inf", 30.0 * i}},
                          0.6 * i);
    const auto requests = [&](const char* type) { return with(triton, "request_type", type); };
    const auto blocks = [&](const char* type) { return with(triton, "kv_cache_block_type", type); };
    scrapes.add(t, "nv_trt_llm_request_metrics", requests("waiting"), 3);
    scrapes.add(t, "nv_trt_llm_request_metrics", requests("scheduled"), 7);
    scrapes.add(t, "nv_trt_llm_request_metrics", requests("max"), 512);
    scrapes.add(t, "nv_trt_llm_kv_cache_block_metrics", blocks("fraction"), 0.25);
    scrapes.add(t, "nv_trt_llm_kv_cache_block_metrics", blocks("max"), 6'239);
    scrapes.add(t, "nv_trt_llm_kv_cache_block_metrics", blocks("tokens_per"), 64);
  }
  const auto reading = read_once(
      scrapes, {variant("llm", "trt", "llama", {"trt-0", "trt-1"}, EngineKind::kTensorRtLlm)});
  ASSERT_EQ(reading.variants[0].pods.size(), 2U);
  const auto& one = reading.variants[0].pods[0];
  EXPECT_DOUBLE_EQ(one.rate.value.value(), 2);
  EXPECT_DOUBLE_EQ(one.running.value.value(), 5);
  EXPECT_DOUBLE_EQ(one.waiting.value.value(), 1);
  EXPECT_DOUBLE_EQ(one.kv_usage.value.value(), 0.6);
  EXPECT_DOUBLE_EQ(one.kv_tokens.value.value(), 32'000);
  EXPECT_DOUBLE_EQ(one.ttft_ms.value.value(), 100);
  EXPECT_DOUBLE_EQ(one.itl_ms.value.value(), 20);
  EXPECT_FALSE(one.output_tokens.value);
  const auto& two = reading.variants[0].pods[1];
  EXPECT_FALSE(two.rate.value);
  EXPECT_DOUBLE_EQ(two.running.value.value(), 7);
  EXPECT_DOUBLE_EQ(two.waiting.value.value(), 3);
  EXPECT_DOUBLE_EQ(two.kv_usage.value.value(), 0.25);
  EXPECT_DOUBLE_EQ(two.kv_tokens.value.value(), 6'239 * 64);
}

Labels gateway_labels() {
  return {{"instance", "127.0.0.1:9901"}};
}

void add_llama_cpp(Scrapes& scrapes, const Labels& target) {
  for (int i = 0; i <= 4; ++i) {
    const double t = kNow - 60 + 15 * i;
    scrapes.add(t, "llamacpp:requests_processing", target, 4);
    scrapes.add(t, "llamacpp:requests_deferred", target, 1);
    scrapes.add(t, "llamacpp:prompt_tokens_total", target, 1'500.0 * i);
    scrapes.add(t, "llamacpp:prompt_seconds_total", target, 3.0 * i);
    scrapes.add(t, "llamacpp:tokens_predicted_total", target, 450.0 * i);
    scrapes.add(t, "llamacpp:tokens_predicted_seconds_total", target, 45.0 * i);
    scrapes.add(t, "tailrace_backend_requests_total", with(gateway_labels(), "backend", "llama-1"),
                7.5 * i);
  }
}

TEST(LlamaCpp, IsReadWithTheHelpOfTheGatewayThatCountsItsRequests) {
  Scrapes scrapes;
  add_llama_cpp(scrapes, {{"instance", "127.0.0.1:8001"}});
  auto expected = std::vector{variant("", "llama", "llama", {"llama-1"}, EngineKind::kLlamaCpp)};
  expected[0].pods[0].address = "127.0.0.1:8001";
  const auto reading = read_once(scrapes, expected);
  const auto& pod = only_pod(reading);
  EXPECT_EQ(pod.pod, "llama-1");
  EXPECT_DOUBLE_EQ(pod.rate.value.value(), 0.5);
  EXPECT_EQ(pod.rate.metric, "tailrace_backend_requests_total");
  EXPECT_DOUBLE_EQ(pod.input_tokens.value.value(), 200);
  EXPECT_DOUBLE_EQ(pod.output_tokens.value.value(), 60);
  EXPECT_DOUBLE_EQ(pod.itl_ms.value.value(), 100);
  EXPECT_DOUBLE_EQ(pod.ttft_ms.value.value(), 400 + 2'000);  // 1 waits at 0.5 a second: 2 s
  EXPECT_DOUBLE_EQ(pod.running.value.value(), 4);
  EXPECT_DOUBLE_EQ(pod.waiting.value.value(), 1);
}

TEST(LlamaCpp, WithoutAGatewayItsRateIsUnknownAndNotZero) {
  Scrapes scrapes;
  const Labels target{{"instance", "127.0.0.1:8001"}};
  scrapes.add(kNow, "llamacpp:requests_processing", target, 4);
  scrapes.add(kNow, "llamacpp:requests_deferred", target, 0);
  auto expected = std::vector{variant("", "llama", "llama", {"llama-1"}, EngineKind::kLlamaCpp)};
  expected[0].pods[0].address = "127.0.0.1:8001";
  const auto reading = read_once(scrapes, expected);
  EXPECT_FALSE(only_pod(reading).rate.value);
  EXPECT_NE(only_pod(reading).rate.missing.find("gateway"), std::string::npos);
}

TEST(Gateway, SaysArrivalsBacklogAndTheSpreadOfLengths) {
  Scrapes scrapes;
  const auto model = with(gateway_labels(), "model", "llama");
  for (int i = 0; i <= 4; ++i) {
    const double t = kNow - 60 + 15 * i;
    scrapes.add(t, "tailrace_arrivals_total", model, 100 + 45.0 * i);
    scrapes.add(t, "tailrace_relayed_requests_total", model, 7 + 75.0 * i);
    scrapes.add(t, "tailrace_queue_entries_total", model, 90 + 30.0 * i);
    scrapes.add(t, "tailrace_queue_jobs", model, 10.0 * i);
    scrapes.add(t, "tailrace_queue_output_tokens", model, 5'000.0 * i);
    scrapes.add(t, "tailrace_prompt_tokens_total", model, 3'000.0 * i);            // mean 100
    scrapes.add(t, "tailrace_prompt_tokens_squared_total", model, 375'000.0 * i);  // 12,500 each
    scrapes.add_histogram(t, "tailrace_answer_tokens", model, {{"+Inf", 15.0 * i}}, 3'000.0 * i);
    scrapes.add(t, "tailrace_answer_tokens_squared_total", model, 1'200'000.0 * i);  // 80,000 each
  }
  const auto reading = read_once(scrapes, {});
  ASSERT_EQ(reading.gateways.size(), 1U);
  const auto& gateway = reading.gateways[0];
  EXPECT_EQ(gateway.model, "llama");
  EXPECT_EQ(gateway.freshness, Freshness::kFresh);
  EXPECT_DOUBLE_EQ(gateway.arrivals_per_s.value.value(), 3);
  EXPECT_DOUBLE_EQ(gateway.relayed_per_s.value.value(), 5);
  EXPECT_DOUBLE_EQ(gateway.waiting_requests.value.value(), 40);
  EXPECT_DOUBLE_EQ(gateway.waiting_tokens.value.value(), 20'000);
  EXPECT_DOUBLE_EQ(gateway.input_tokens.value.value(), 100);
  EXPECT_DOUBLE_EQ(gateway.input_cv.value.value(), 0.5);
  EXPECT_DOUBLE_EQ(gateway.output_tokens.value.value(), 200);
  EXPECT_DOUBLE_EQ(gateway.output_cv.value.value(), 1);
}

TEST(EndpointPicker, DispatchesArePerPodAndArrivalsOfAdaptersAreTheirOwnModels) {
  for (const auto& [attempts, pod_label] :
       {std::pair<std::string, std::string>{"llm_d_epp_scheduler_attempts_total", "endpoint_name"},
        {"inference_extension_scheduler_attempts_total", "pod_name"}}) {
    Scrapes scrapes;
    const auto epp = pod_labels("llm", "epp-0");
    const auto pod = pod_labels("llm", "llama-0", "llama");
    for (int i = 0; i <= 4; ++i) {
      const double t = kNow - 60 + 15 * i;
      scrapes.add(t, "vllm:num_requests_running", pod, 4);
      scrapes.add(t, "vllm:num_requests_waiting", pod, 0);
      scrapes.add(t, "vllm:request_success_total", pod, 3.0 * i);
      const auto sent = with(with(epp, pod_label, "llama-0-rank-0"), "port", "8000");
      scrapes.add(t, attempts, with(with(sent, "status", "success"), "target_model_name", "llama"),
                  30.0 * i);
      scrapes.add(t, attempts,
                  with(with(sent, "status", "success"), "target_model_name", "llama-lora"),
                  15.0 * i);
      scrapes.add(t, attempts, with(sent, "status", "failure"), 999.0 * i);
      scrapes.add(t, "inference_objective_request_total",
                  with(with(epp, "model_name", "chat"), "target_model_name", "llama"), 45.0 * i);
      scrapes.add(t, "llm_d_epp_flow_control_queue_size", with(epp, "model_name", "llama"), 7);
    }
    const auto reading = read_once(scrapes);
    EXPECT_DOUBLE_EQ(only_pod(reading).rate.value.value(), 3);
    EXPECT_EQ(only_pod(reading).rate.metric, attempts);
    ASSERT_EQ(reading.gateways.size(), 1U);
    EXPECT_EQ(reading.gateways[0].model, "llama");
    EXPECT_EQ(reading.gateways[0].ns, "llm");
    EXPECT_DOUBLE_EQ(reading.gateways[0].arrivals_per_s.value.value(), 3);
    EXPECT_DOUBLE_EQ(reading.gateways[0].waiting_requests.value.value(), 7);
  }
}

TEST(Observer, OnePointOfACounterIsNotKnownYetAndNeverZero) {
  Scrapes scrapes;
  const auto pod = pod_labels("llm", "llama-0", "llama");
  scrapes.add(kNow, "vllm:request_success_total", pod, 0);
  scrapes.add(kNow, "vllm:num_requests_running", pod, 0);
  const auto reading = read_once(scrapes);
  EXPECT_FALSE(only_pod(reading).rate.value);
  EXPECT_NE(only_pod(reading).rate.missing.find("yet"), std::string::npos);
}

TEST(Observer, ARestartedEngineLosesWhatWasInsideAndCountsOn) {
  Scrapes scrapes;
  const auto pod = pod_labels("llm", "llama-0", "llama");
  const double completed[] = {1'000, 1'030, 15, 45, 75};
  const double inside[] = {20, 20, 5, 5, 5};
  for (int i = 0; i <= 4; ++i) {
    const double t = kNow - 60 + 15 * i;
    scrapes.add(t, "vllm:request_success_total", pod, completed[i]);
    scrapes.add(t, "vllm:num_requests_running", pod, inside[i]);
    scrapes.add(t, "vllm:num_requests_waiting", pod, 0);
  }
  const auto reading = read_once(scrapes);
  // 30 + 15 + 30 + 30 completed; 5 are inside that were not there when the process began.
  EXPECT_DOUBLE_EQ(only_pod(reading).rate.value.value(), (105 + 5) / 60.0);
  EXPECT_EQ(count(reading, ConditionKind::kCounterReset), 1);
}

TEST(Observer, NoNumberIsNoValue) {
  Scrapes scrapes;
  const auto pod = pod_labels("llm", "llama-0", "llama");
  add_vllm(scrapes, pod, kNow - 15);
  for (const char* name : {"vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"}) {
    scrapes.add(kNow, name, pod, std::nan(""));
  }
  const auto reading = read_once(scrapes);
  const auto& read = only_pod(reading);
  EXPECT_FALSE(read.waiting.value);
  EXPECT_FALSE(read.kv_usage.value);
  EXPECT_TRUE(read.itl_ms.value);
}

TEST(Observer, CountersThatFallBelowZeroAreNoDemand) {
  Scrapes scrapes;
  const auto pod = pod_labels("llm", "llama-0", "llama");
  for (int i = 0; i <= 4; ++i) {
    const double t = kNow - 60 + 15 * i;
    scrapes.add(t, "vllm:request_success_total", with(pod, "finished_reason", "stop"), 30.0 * i);
    scrapes.add(t, "vllm:request_success_total", with(pod, "finished_reason", "length"),
                -10 - 500.0 * i);
    scrapes.add_histogram(t, "vllm:request_generation_tokens", pod, {{"+Inf", -20.0 * i - 1}},
                          -3'000.0 * i - 1);
    scrapes.add(t, "vllm:num_requests_running", pod, 4 + i);
    scrapes.add(t, "vllm:num_requests_waiting", pod, 0);
  }
  const auto reading = read_once(scrapes);
  const auto& read = only_pod(reading);
  EXPECT_FALSE(read.rate.value) << "the part that is known is not the whole";
  EXPECT_FALSE(read.output_tokens.value);
  EXPECT_TRUE(read.running.value);
  EXPECT_EQ(count(reading, ConditionKind::kContradiction), 1);
}

/// One scrape of a pod that has completed `parts` by reason, those below 0 not said.
Scrapes completions(double time_s, const std::map<std::string, double>& parts) {
  Scrapes scrapes;
  const auto pod = pod_labels("llm", "llama-0", "llama");
  for (const auto& [reason, value] : parts) {
    scrapes.add(time_s, "vllm:request_success_total", with(pod, "finished_reason", reason), value);
  }
  scrapes.add(time_s, "vllm:num_requests_running", pod, 4);
  scrapes.add(time_s, "vllm:num_requests_waiting", pod, 0);
  return scrapes;
}

TEST(Observer, ThePartsThatAreLeftOfACounterAreNotTheWhole) {
  Observer observer({});
  const auto expected = llama();
  double t = kNow;
  for (int i = 0; i <= 4; ++i, t += 15) {
    (void)observer.read(
        t, completions(t, {{"abort", 3}, {"length", 50 + 30.0 * i}, {"stop", 7}}).fetched(),
        expected);
  }
  // The only part that rises is dropped, and stays so for an hour.
  Reading reading;
  for (int i = 0; i <= 240; ++i, t += 15) {
    reading = observer.read(t, completions(t, {{"abort", 3}, {"stop", 7}}).fetched(), expected);
    if (i < 2) continue;
    ASSERT_FALSE(only_pod(reading).rate.value) << i;
    ASSERT_FALSE(only_pod(reading).completed.value) << i;
    ASSERT_NE(said(reading, ConditionKind::kSeriesMissing)
                  .find("llama-0: vllm:request_success_total{finished_reason=\"length\""),
              std::string::npos)
        << i << said(reading, ConditionKind::kSeriesMissing);
  }
  // It is back: the next two points tell a rate again.
  for (int i = 0; i <= 4; ++i, t += 15) {
    reading = observer.read(
        t, completions(t, {{"abort", 3}, {"length", 900 + 30.0 * i}, {"stop", 7}}).fetched(),
        expected);
  }
  EXPECT_DOUBLE_EQ(only_pod(reading).rate.value.value(), 2);
  EXPECT_EQ(said(reading, ConditionKind::kSeriesMissing).find("length"), std::string::npos);
}

// A restart of ours forgets which parts there were; another count of the same requests tells.
TEST(Vllm, ACounterThatLostAPartBeforeItWasFirstSeenIsNotTakenForTheWhole) {
  const auto pod = pod_labels("llm", "llama-0", "llama");
  for (const bool lost : {true, false}) {
    Scrapes scrapes;
    for (int i = 0; i <= 4; ++i) {
      const double t = kNow - 60 + 15 * i;
      scrapes.add(t, "vllm:request_success_total", with(pod, "finished_reason", "stop"), 7);
      if (!lost) {
        scrapes.add(t, "vllm:request_success_total", with(pod, "finished_reason", "length"),
                    50 + 29.0 * i);
      }
      scrapes.add_histogram(t, "vllm:e2e_request_latency_seconds", pod, {{"+Inf", 57 + 30.0 * i}},
                            100.0 * i);
      scrapes.add(t, "vllm:num_requests_running", pod, 4);
      scrapes.add(t, "vllm:num_requests_waiting", pod, 0);
    }
    const auto reading = read_once(scrapes);
    const auto& read = only_pod(reading);
    EXPECT_DOUBLE_EQ(read.completed.value.value(), lost ? 120 : 116)
        << "a few more in the other are none that are missing";
    EXPECT_DOUBLE_EQ(read.rate.value.value(), (lost ? 120 : 116) / 60.0);
  }
}

TEST(Observer, AfterARestartThePartsThatHaveNotBegunAreNotMissed) {
  Observer observer({});
  const auto expected = llama();
  double t = kNow;
  for (int i = 0; i <= 4; ++i, t += 15) {
    (void)observer.read(
        t, completions(t, {{"length", 50 + 30.0 * i}, {"stop", 500 + 15.0 * i}}).fetched(),
        expected);
  }
  Reading reading;
  for (int i = 0; i <= 40; ++i, t += 15) {
    reading = observer.read(t, completions(t, {{"stop", 30.0 * i}}).fetched(), expected);
    ASSERT_TRUE(only_pod(reading).rate.value) << i;
    ASSERT_EQ(said(reading, ConditionKind::kSeriesMissing).find("length"), std::string::npos) << i;
  }
  EXPECT_DOUBLE_EQ(only_pod(reading).rate.value.value(), 2);
}

TEST(Observer, AScraperThatLabelsAllSeriesAnewLeavesThemUnknownForAWhileOnly) {
  Observer observer({});
  const auto expected = llama();
  double t = kNow;
  Reading reading;
  for (int i = 0; i <= 44; ++i, t += 15) {
    Scrapes scrapes;
    auto pod = pod_labels("llm", "llama-0", "llama");
    if (i > 4) pod = with(pod, "zone", "a");
    scrapes.add(t, "vllm:request_success_total", pod, 30.0 * i);
    scrapes.add(t, "vllm:num_requests_running", pod, 4);
    scrapes.add(t, "vllm:num_requests_waiting", pod, 0);
    reading = observer.read(t, scrapes.fetched(), expected);
    if (i == 10) {
      EXPECT_FALSE(only_pod(reading).rate.value);
    }
  }
  EXPECT_DOUBLE_EQ(only_pod(reading).rate.value.value(), 2);
}

TEST(Observer, ALevelThatCannotBeIsUnknownAndNamed) {
  Scrapes scrapes;
  const auto pod = pod_labels("llm", "llama-0", "llama");
  for (int i = 0; i <= 4; ++i) {
    const double t = kNow - 60 + 15 * i;
    scrapes.add(t, "vllm:request_success_total", pod, 30.0 * i);
    scrapes.add(t, "vllm:num_requests_running", pod, 4e18);
    scrapes.add(t, "vllm:num_requests_waiting", pod, 1.7e308);
  }
  const auto reading = read_once(scrapes);
  EXPECT_FALSE(only_pod(reading).running.value);
  EXPECT_FALSE(only_pod(reading).waiting.value);
  const auto message = said(reading, ConditionKind::kContradiction);
  EXPECT_NE(message.find("vllm:num_requests_running says 4e+18"), std::string::npos) << message;
  EXPECT_NE(message.find("vllm:num_requests_waiting says 1.7e+308"), std::string::npos) << message;
}

TEST(Observer, PointsThatAreNoNumbersAreNamed) {
  for (const double value : {std::nan(""), HUGE_VAL}) {
    Scrapes scrapes;
    const auto pod = pod_labels("llm", "llama-0", "llama");
    add_vllm(scrapes, pod, kNow - 15);
    scrapes.add(kNow, "vllm:num_requests_waiting", pod, value);
    const auto message = said(read_once(scrapes), ConditionKind::kContradiction);
    EXPECT_NE(message.find("vllm:num_requests_waiting: 1 points are NaN or infinite"),
              std::string::npos)
        << message;
  }
}

TEST(Observer, CountersThatCanCountNoFurtherAreNoDemandAndNamed) {
  Scrapes scrapes;
  const auto pod = pod_labels("llm", "llama-0", "llama");
  for (int i = 0; i <= 4; ++i) {
    const double t = kNow - 60 + 15 * i;
    scrapes.add(t, "vllm:request_success_total", pod, 1e17 + 1e15 * i);
    scrapes.add(t, "vllm:num_requests_running", pod, 4);
    scrapes.add(t, "vllm:num_requests_waiting", pod, 0);
  }
  const auto reading = read_once(scrapes);
  EXPECT_FALSE(only_pod(reading).rate.value);
  EXPECT_NE(said(reading, ConditionKind::kContradiction)
                .find("vllm:request_success_total: 5 points of counters"),
            std::string::npos);
}

TEST(Observer, AFailedFetchMakesReadingsOlderAndTheyRecoverByThemselves) {
  Scrapes scrapes;
  add_vllm(scrapes, pod_labels("llm", "llama-0", "llama"));
  Observer observer({});
  const auto expected = llama();
  (void)observer.read(kNow, scrapes.fetched(), expected);
  Fetched failed;
  failed.failed = true;
  failed.problems.push_back({"prometheus", "no answer within 10 s"});
  auto reading = observer.read(kNow + 120, failed, expected);
  EXPECT_EQ(only_pod(reading).freshness, Freshness::kStale);
  EXPECT_EQ(count(reading, ConditionKind::kSourceFailed), 1);
  EXPECT_EQ(count(reading, ConditionKind::kStale), 1);
  reading = observer.read(kNow + 301, failed, expected);
  EXPECT_TRUE(reading.variants[0].pods.empty());
  EXPECT_EQ(reading.variants[0].silent, std::vector<std::string>{"llama-0"});
  // Nobody knows what happened in the 10 minutes: the first point after them tells no rate yet.
  Scrapes after;
  const auto pod = pod_labels("llm", "llama-0", "llama");
  after.add(kNow + 600, "vllm:request_success_total", pod, 5'000);
  reading = observer.read(kNow + 600, after.fetched(), expected);
  EXPECT_FALSE(only_pod(reading).rate.value);
  Scrapes next;
  next.add(kNow + 615, "vllm:request_success_total", pod, 5'030);
  reading = observer.read(kNow + 615, next.fetched(), expected);
  EXPECT_DOUBLE_EQ(only_pod(reading).rate.value.value(), 2);
}

TEST(Observer, PodsThatSayNothingAreNamed) {
  Scrapes scrapes;
  add_vllm(scrapes, pod_labels("llm", "llama-0", "llama"));
  const auto reading =
      read_once(scrapes, {variant("llm", "llama", "llama", {"llama-0", "llama-1"})});
  EXPECT_EQ(reading.variants[0].silent, std::vector<std::string>{"llama-1"});
  EXPECT_NE(said(reading, ConditionKind::kPodMissing).find("llama-1"), std::string::npos);
}

// After a restart of ours, or a scale-up, all is well before everything has been scraped once.
TEST(Observer, APodIsCalledMissingOnceItHadTheTimeToReport) {
  ObserverConfig config;
  config.grace_s = 30;
  Observer observer(config);
  const auto read = [&](double at_s, const std::vector<std::string>& pods) {
    Scrapes scrapes;
    add_vllm(scrapes, pod_labels("llm", "llama-0", "llama"), kNow + at_s);
    return observer.read(kNow + at_s, scrapes.fetched(),
                         std::vector{variant("llm", "llama", "llama", pods)});
  };
  const std::vector<std::string> both{"llama-0", "llama-1"}, three{"llama-0", "llama-1", "llama-2"};
  for (const double at_s : {0.0, 15.0, 29.0}) {
    const auto reading = read(at_s, both);
    EXPECT_EQ(count(reading, ConditionKind::kPodMissing), 0) << at_s;
    EXPECT_EQ(reading.variants[0].silent, std::vector<std::string>{"llama-1"})
        << "nothing is known of it all the same";
  }
  const auto late = read(30, three);
  EXPECT_NE(said(late, ConditionKind::kPodMissing).find("llama-1"), std::string::npos);
  EXPECT_EQ(said(late, ConditionKind::kPodMissing).find("llama-2"), std::string::npos)
      << "a new one has time of its own";
  EXPECT_NE(said(read(60, three), ConditionKind::kPodMissing).find("llama-2"), std::string::npos);
  EXPECT_EQ(count(read(75, {"llama-0"}), ConditionKind::kPodMissing), 0);
  EXPECT_EQ(count(read(90, both), ConditionKind::kPodMissing), 0) << "one that is expected anew";
}

TEST(Observer, SeriesAreCalledUnmatchedOnceDiscoveryHadTimeForTheirPod) {
  ObserverConfig config;
  config.grace_s = 30;
  Observer observer(config);
  const auto read = [&](double at_s) {
    Scrapes scrapes;
    add_vllm(scrapes, pod_labels("llm", "llama-0", "llama"), kNow + at_s);
    add_vllm(scrapes, pod_labels("llm", "stranger", "other"), kNow + at_s);
    return observer.read(kNow + at_s, scrapes.fetched(),
                         std::vector{variant("llm", "llama", "llama", {"llama-0"})});
  };
  for (const double at_s : {0.0, 15.0}) {
    const auto reading = read(at_s);
    EXPECT_EQ(count(reading, ConditionKind::kUnmatchedSeries), 0) << at_s;
    EXPECT_EQ(reading.unmatched.at("llm"), 1U) << "counted all the same";
  }
  EXPECT_NE(said(read(30), ConditionKind::kUnmatchedSeries).find("stranger"), std::string::npos);
}

TEST(Observer, AnotherModelNameIsAMismatchThatNamesLabelAndValues) {
  Scrapes scrapes;
  add_vllm(scrapes, pod_labels("llm", "llama-0", "llama-served"));
  Observer observer({});
  auto expected = std::vector{variant("llm", "llama", "meta/llama", {"llama-0"})};
  auto reading = observer.read(kNow, scrapes.fetched(), expected);
  EXPECT_TRUE(reading.variants[0].pods.empty());
  const auto message = said(reading, ConditionKind::kLabelMismatch);
  for (const char* part : {"llm/llama", "model_name", "llama-served", "meta/llama", "alias"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  }
  expected[0].model_aliases = {"llama-served"};
  reading = observer.read(kNow, scrapes.fetched(), expected);
  EXPECT_DOUBLE_EQ(only_pod(reading).rate.value.value(), 2.5);
}

TEST(Observer, AnotherNamespaceIsAMismatch) {
  Scrapes scrapes;
  add_vllm(scrapes, pod_labels("monitoring", "llama-0", "llama"));
  const auto reading = read_once(scrapes);
  EXPECT_TRUE(reading.variants[0].pods.empty());
  const auto message = said(reading, ConditionKind::kLabelMismatch);
  EXPECT_NE(message.find("namespace"), std::string::npos);
  EXPECT_NE(message.find("monitoring"), std::string::npos);
}

TEST(Observer, APodLabelThatIsNotThePodIsAMismatch) {
  Scrapes scrapes;
  add_vllm(scrapes, pod_labels("llm", "prometheus-proxy", "llama"));
  const auto reading = read_once(scrapes);
  EXPECT_TRUE(reading.variants[0].pods.empty());
  EXPECT_NE(said(reading, ConditionKind::kLabelMismatch).find("label pod says"), std::string::npos);
  EXPECT_NE(said(reading, ConditionKind::kUnmatchedSeries).find("prometheus-proxy"),
            std::string::npos);
}

// After a scale-down the series of pods that have gone are remembered for minutes.
TEST(Observer, APodThatHasGoneIsNoLongerNamedAsUnmatched) {
  Observer observer({});
  const std::vector<std::string> names = {"llama-0", "llama-1", "llama-2"};
  const auto read = [&](double now_s, std::size_t reporting, std::size_t expected) {
    Scrapes scrapes;
    for (std::size_t p = 0; p < reporting; ++p) {
      add_vllm(scrapes, pod_labels("llm", names[p], "llama"), now_s);
    }
    const std::vector<std::string> known(names.begin(),
                                         names.begin() + static_cast<std::ptrdiff_t>(expected));
    return observer.read(now_s, scrapes.fetched(),
                         std::vector{variant("llm", "llama", "llama", known)});
  };
  EXPECT_EQ(count(read(kNow, 3, 3), ConditionKind::kUnmatchedSeries), 0);
  const auto leaving = read(kNow + 15, 3, 1);
  EXPECT_EQ(count(leaving, ConditionKind::kUnmatchedSeries), 2) << "they still report";
  EXPECT_EQ(leaving.unmatched.at("llm"), 2U);
  const auto gone = read(kNow + 60, 1, 1);
  EXPECT_EQ(count(gone, ConditionKind::kUnmatchedSeries), 0);
  EXPECT_TRUE(gone.unmatched.empty());
  // The last one, too, when nobody is left to compare it with.
  EXPECT_EQ(count(read(kNow + 75, 0, 0), ConditionKind::kUnmatchedSeries), 1);
  EXPECT_EQ(count(read(kNow + 120, 0, 0), ConditionKind::kUnmatchedSeries), 0);
}

TEST(Observer, TheListOfConditionsIsBounded) {
  Scrapes scrapes;
  for (int i = 0; i < 50; ++i) {
    scrapes.add(kNow, "vllm:num_requests_running", pod_labels("llm", "x-" + std::to_string(i)), 1);
  }
  ObserverConfig config;
  config.conditions_max = 10;
  Observer observer(config);
  const auto reading = observer.read(kNow, scrapes.fetched(), {});
  EXPECT_EQ(reading.conditions.size(), 11U);
  EXPECT_NE(said(reading, ConditionKind::kLimit).find("40 more"), std::string::npos);
}

TEST(Observer, TheVariantsLabelIsEnoughAndSuchPodsAreNotExpectedOnes) {
  Scrapes scrapes;
  add_vllm(scrapes, pod_labels("llm", "llama-0", "llama"));
  add_vllm(scrapes, with(pod_labels("llm", "surge-0", "llama"), "llm_d_ai_variant", "llama"));
  const auto reading = read_once(scrapes);
  ASSERT_EQ(reading.variants[0].pods.size(), 2U);
  EXPECT_TRUE(reading.variants[0].pods[0].expected);
  EXPECT_EQ(reading.variants[0].pods[1].pod, "surge-0");
  EXPECT_FALSE(reading.variants[0].pods[1].expected);
}

TEST(Observer, AGhostOfADeletedPodEndsAsSoonAsTheOthersHaveGoneOn) {
  const auto labelled = [](const char* pod) {
    return with(pod_labels("llm", pod, "llama"), "llm_d_ai_variant", "llama");
  };
  Scrapes scrapes;
  add_vllm(scrapes, labelled("llama-0"));
  add_vllm(scrapes, labelled("deleted"), kNow - 20);
  const auto reading = read_once(scrapes);
  EXPECT_EQ(only_pod(reading).pod, "llama-0");
}

TEST(Observer, SeveralEnginesInAPodAreReadOneByOne) {
  Scrapes scrapes;
  const auto pod = pod_labels("llm", "llama-0", "llama");
  add_vllm(scrapes, with(pod, "instance", "10.0.0.1:8000"));
  add_vllm(scrapes, with(pod, "instance", "10.0.0.1:8001"));
  const auto reading = read_once(scrapes);
  ASSERT_EQ(reading.variants[0].pods.size(), 2U);
  EXPECT_EQ(reading.variants[0].pods[0].pod, "llama-0:8000");
  EXPECT_EQ(reading.variants[0].pods[1].pod, "llama-0:8001");
}

TEST(Observer, APodThatCameBackWithAnotherAddressIsOnePod) {
  Scrapes scrapes;
  const auto pod = pod_labels("llm", "llama-0", "llama");
  add_vllm(scrapes, with(pod, "instance", "10.0.0.1:8000"), kNow - 30);
  add_vllm(scrapes, with(pod, "instance", "10.0.0.2:8000"));
  const auto reading = read_once(scrapes);
  EXPECT_EQ(only_pod(reading).pod, "llama-0");
}

TEST(Observer, APodThatTwoJobsScrapeIsCountedOnce) {
  Scrapes scrapes;
  const auto pod = pod_labels("llm", "llama-0", "llama");
  add_vllm(scrapes, with(pod, "job", "podmonitor"));
  add_vllm(scrapes, with(pod, "job", "servicemonitor"));
  const auto reading = read_once(scrapes);
  EXPECT_DOUBLE_EQ(only_pod(reading).rate.value.value(), 2.5);
}

TEST(Observer, DataParallelRanksOfOneProcessAreOneEngine) {
  Scrapes scrapes;
  const auto pod = pod_labels("llm", "llama-0", "llama");
  add_vllm(scrapes, with(pod, "engine", "0"));
  add_vllm(scrapes, with(pod, "engine", "1"));
  const auto reading = read_once(scrapes);
  EXPECT_DOUBLE_EQ(only_pod(reading).rate.value.value(), 5);
  EXPECT_DOUBLE_EQ(only_pod(reading).waiting.value.value(), 48);
  EXPECT_DOUBLE_EQ(only_pod(reading).kv_usage.value.value(), 0.4);
  EXPECT_DOUBLE_EQ(only_pod(reading).kv_tokens.value.value(), 160'000);
  EXPECT_DOUBLE_EQ(only_pod(reading).output_tokens.value.value(), 100);
}

TEST(Observer, EqualNamesInTwoNamespacesStayApart) {
  Scrapes scrapes;
  add_vllm(scrapes, pod_labels("a", "llama-0", "llama"));
  add_vllm(scrapes, pod_labels("b", "llama-0", "llama"));
  const auto reading = read_once(scrapes, {variant("a", "llama", "llama", {"llama-0"}),
                                           variant("b", "llama", "llama", {"llama-0"})});
  ASSERT_EQ(reading.variants.size(), 2U);
  for (const auto& v : reading.variants) {
    ASSERT_EQ(v.pods.size(), 1U) << v.ns;
    EXPECT_DOUBLE_EQ(v.pods[0].rate.value.value(), 2.5);
  }
  EXPECT_TRUE(reading.conditions.empty());
}

TEST(Observer, ClocksThatDisagreeAreSaidAndTheFarFutureIsNotBelieved) {
  Scrapes scrapes;
  add_vllm(scrapes, pod_labels("llm", "llama-0", "llama"), kNow + 30);
  auto reading = read_once(scrapes);
  EXPECT_EQ(count(reading, ConditionKind::kClockSkew), 1);
  EXPECT_EQ(only_pod(reading).freshness, Freshness::kFresh);
  EXPECT_EQ(only_pod(reading).waiting.age_s, 0);
  Scrapes future;
  add_vllm(future, pod_labels("llm", "llama-0", "llama"), kNow + 100'000);
  reading = read_once(future);
  EXPECT_EQ(count(reading, ConditionKind::kClockSkew), 1);
  EXPECT_TRUE(reading.variants[0].pods.empty());
}

TEST(Observer, AnotherEngineThanExpectedIsReadAndSaid) {
  Scrapes scrapes;
  add_sglang(scrapes, pod_labels("llm", "sg-0", "llama"), "sglang:");
  const auto reading = read_once(scrapes, {variant("llm", "sg", "llama", {"sg-0"})});
  EXPECT_EQ(only_pod(reading).engine, EngineKind::kSglang);
  EXPECT_EQ(count(reading, ConditionKind::kContradiction), 1);
}

TEST(Observer, StartsOfProcessesThatSayNothingElseAreNotKept) {
  Scrapes scrapes;
  for (int i = 0; i < 20; ++i) {
    scrapes.add(kNow, "process_start_time_seconds", pod_labels("x", "other-" + std::to_string(i)),
                1);
  }
  scrapes.add(kNow, "vllm:num_requests_running", pod_labels("llm", "llama-0", "llama"), 1);
  ObserverConfig config;
  config.series_max = 1;
  Observer observer(config);
  const auto reading = observer.read(kNow, scrapes.fetched(), {});
  EXPECT_EQ(count(reading, ConditionKind::kLimit), 0);
}

}  // namespace
}  // namespace tailrace::observe
