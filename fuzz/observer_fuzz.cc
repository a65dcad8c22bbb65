// Any series, labels, points and times through several cycles of the observer and on to what a
// capacity cycle would get: every number is finite and at least 0 or has a reason why it is not
// there, and memory stays within the limits.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "input_bytes.h"
#include "tailrace/autoscaler/model_states.h"
#include "tailrace/core/check.h"
#include "tailrace/observe/observer.h"

namespace {

using namespace tailrace;
using observe::Measured;

void check(const Measured& m) {
  TAILRACE_CHECK(!m.value || (std::isfinite(*m.value) && *m.value >= 0));
  TAILRACE_CHECK(m.value || !m.missing.empty());
  TAILRACE_CHECK(std::isfinite(m.age_s) && m.age_s >= 0);
}

void check(const observe::Reading& reading) {
  for (const auto& variant : reading.variants) {
    for (const auto& pod : variant.pods) {
      for (const auto* m :
           {&pod.rate, &pod.completed, &pod.input_tokens, &pod.output_tokens, &pod.ttft_ms,
            &pod.itl_ms, &pod.ttft_p99_ms, &pod.itl_p99_ms, &pod.running, &pod.waiting,
            &pod.kv_usage, &pod.kv_tokens, &pod.prefix_hit}) {
        check(*m);
      }
      double before = 0;
      for (const auto& bucket : pod.output_buckets) {
        TAILRACE_CHECK(bucket.cumulative >= before && std::isfinite(bucket.cumulative));
        before = bucket.cumulative;
      }
    }
  }
  for (const auto& g : reading.gateways) {
    for (const auto* m : {&g.arrivals_per_s, &g.waiting_requests, &g.waiting_tokens,
                          &g.input_tokens, &g.output_tokens, &g.input_cv, &g.output_cv}) {
      check(*m);
    }
  }
}

void check(const std::vector<capacity::ModelState>& models) {
  for (const auto& model : models) {
    for (const auto& variant : model.variants) {
      for (const auto& pod : variant.pods) {
        for (const auto& value : {pod.rate_per_s, pod.input_tokens, pod.output_tokens, pod.ttft_ms,
                                  pod.itl_ms, pod.running, pod.requests, pod.output_cv,
                                  pod.input_cv, pod.prefix_hit, pod.waiting}) {
          TAILRACE_CHECK(!value || (std::isfinite(*value) && *value >= 0));
        }
      }
    }
  }
}

observe::Series any_series(fuzz::InputBytes& in, const std::vector<std::string>& names,
                           double now_s) {
  static constexpr const char* kWords[] = {"llama", "llama-0", "llama-1", "a",      "b",
                                           "0",     "1",       "success", "+Inf",   "0.5",
                                           "16",    "1e400",   "",        "\xff\n", "llm"};
  static constexpr const char* kLabels[] = {
      "namespace", "pod",     "instance", "model_name",    "llm_d_ai_variant",  "engine",
      "le",        "tp_rank", "model",    "backend",       "target_model_name", "pod_name",
      "port",      "status",  "job",      "num_gpu_blocks"};
  observe::Series out;
  out.key.name = names[in.byte() % names.size()];
  if (in.flag()) out.key.labels = {{"pod", "llama-0"}, {"model_name", "llama"}};
  for (int i = in.up_to(4); i > 0; --i) out.key.labels[in.one_of(kLabels)] = in.one_of(kWords);
  for (int i = in.up_to(6); i > 0; --i) {
    const double time_s = in.flag() ? now_s - in.up_to(120) : in.number(now_s);
    out.points.push_back({time_s, in.number(100)});
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::InputBytes in(data, size);
  static const std::vector<observe::EngineKind> kEngines{
      observe::EngineKind::kVllm, observe::EngineKind::kSglang, observe::EngineKind::kTensorRtLlm,
      observe::EngineKind::kLlamaCpp};
  static const auto kNames = observe::Observer::names_of(kEngines);
  autoscaler::KnownVariant known;
  known.key = {in.flag() ? "llm" : "", "llama"};
  known.name = "llama";
  known.engine = kEngines[in.byte() % kEngines.size()];
  known.pods = {{"llama-0", ""}, {"llama-1", "a"}};
  known.model_aliases = {"a"};
  known.current = 2;
  const std::vector variants{known};
  const auto expected = autoscaler::expected_variants(variants);
  observe::ObserverConfig config;
  config.series_max = 50;
  config.points_max = 8;
  config.conditions_max = 20;
  observe::Observer observer(config);
  double now_s = 1'000'000;
  for (int cycle = 0; cycle < 6 && !in.empty(); ++cycle) {
    observe::Fetched fetched;
    fetched.failed = in.byte() > 250;
    for (int i = in.up_to(20); i > 0 && !fetched.failed; --i) {
      fetched.series.push_back(any_series(in, kNames, now_s));
    }
    const auto reading = observer.read(now_s, fetched, expected);
    TAILRACE_CHECK(reading.conditions.size() <= config.conditions_max + 1);
    TAILRACE_CHECK(reading.variants.size() == 1);
    check(reading);
    check(autoscaler::model_states(reading, variants));
    now_s += in.up_to(90);
  }
  return 0;
}
