// What recorded scrapes of real engines come to, against sums done by hand from the same pages.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "observe/support/scrapes.h"
#include "tailrace/core/text.h"

namespace tailrace::observe {
namespace {

using testing::count;
using testing::only_pod;
using testing::said;
using testing::Scrapes;
using testing::variant;

constexpr double kStart = 1'000'000;
const Labels kTarget{{"namespace", "llm"}, {"pod", "engine-0"}, {"instance", "10.0.0.1:8000"}};

/// Empty where the data set is not at hand.
std::string recorded(const std::string& name) {
  const char* const root = std::getenv("TAILRACE_SHARED");
  const auto path =
      std::filesystem::path(root != nullptr ? root : TAILRACE_SOURCE_DIR "/../shared") /
      "data/wire_fixtures/metrics" / name;
  return core::read_file(path.string(), 1 << 20).value_or("");
}

#define SKIP_WITHOUT(text) \
  if ((text).empty()) GTEST_SKIP() << "no recorded scrapes; set TAILRACE_SHARED"

/// The part of a file of several scrapes that stands under "== t=..s ==".
std::string scrape_at(const std::string& all, const std::string& title) {
  const auto from = all.find("== " + title + " ==");
  if (from == std::string::npos) return {};
  const auto until = all.find("\n== ", from);
  return all.substr(from, until == std::string::npos ? until : until + 1 - from);
}

TEST(RecordedVllm, LevelsOfAnH100OverTime) {
  const auto all = recorded("vllm_0.21_h100_qwen_samples_every_15s.txt");
  SKIP_WITHOUT(all);
  Observer observer({});
  const auto expected = std::vector{variant("llm", "engine", "qwen", {"engine-0"})};
  Reading reading;
  for (int t = 15; t <= 135; t += 15) {
    Scrapes scrapes;
    const auto text = scrape_at(all, "t=" + std::to_string(t) + "s");
    ASSERT_FALSE(text.empty()) << t;
    scrapes.add_text(kStart + t, text, kTarget);
    reading = observer.read(kStart + t, scrapes.fetched(), expected);
    const auto& pod = only_pod(reading);
    EXPECT_DOUBLE_EQ(pod.waiting.value.value(), 0) << t;
    if (t < 120) {
      EXPECT_DOUBLE_EQ(pod.running.value.value(), 0) << t;
      EXPECT_DOUBLE_EQ(pod.kv_usage.value.value(), 0) << t;
    }
  }
  const auto& pod = only_pod(reading);
  EXPECT_DOUBLE_EQ(pod.running.value.value(), (0 + 0 + 47 + 126) / 4.0);
  EXPECT_DOUBLE_EQ(pod.kv_usage.value.value(), 0.8034682080924855);
  // The page was cut down to levels: what it does not say is not known, and never 0.
  for (const auto* quantity : {&pod.rate, &pod.completed, &pod.input_tokens, &pod.output_tokens,
                               &pod.ttft_ms, &pod.itl_ms}) {
    EXPECT_FALSE(quantity->value);
  }
  EXPECT_NE(said(reading, ConditionKind::kSeriesMissing).find("the rate of requests"),
            std::string::npos);
}

TEST(RecordedVllm, AnIdleOldOneIsIdleAndItsHitRateOfMinusOneUnknown) {
  const auto text = recorded("vllm_0.6_qwen2.5-coder_idle_partial.prom");
  SKIP_WITHOUT(text);
  Scrapes scrapes;
  for (int t = 0; t <= 60; t += 15) scrapes.add_text(kStart + t, text, kTarget);
  Observer observer({});
  const auto expected =
      std::vector{variant("llm", "engine", "Qwen/Qwen2.5-Coder-1.5B-Instruct", {"engine-0"})};
  const auto reading = observer.read(kStart + 60, scrapes.fetched(), expected);
  const auto& pod = only_pod(reading);
  EXPECT_DOUBLE_EQ(pod.rate.value.value(), 0);
  EXPECT_DOUBLE_EQ(pod.running.value.value(), 0);
  EXPECT_DOUBLE_EQ(pod.waiting.value.value(), 0);
  EXPECT_DOUBLE_EQ(pod.kv_usage.value.value(), 0);
  EXPECT_DOUBLE_EQ(pod.kv_tokens.value.value(), 81'767.0 * 16);
  EXPECT_FALSE(pod.prefix_hit.value);
  EXPECT_FALSE(pod.output_tokens.value) << "without a request there is no length";
}

TEST(RecordedSglang, AnOverloadedOneSinceItBegan) {
  const auto text = recorded("sglang_llama-3.1-8b_overloaded.prom");
  SKIP_WITHOUT(text);
  // As if it had begun a minute before: every counter at 0, nobody inside.
  std::string begun;
  for (const auto line : core::split(text, '\n')) {
    if (line.empty() || line.front() == '#') continue;
    begun += std::string(line.substr(0, line.rfind(' '))) + " 0\n";
  }
  Scrapes scrapes;
  scrapes.add_text(kStart, begun, kTarget);
  scrapes.add_text(kStart + 60, text, kTarget);
  Observer observer({});
  const auto expected = std::vector{variant("llm", "engine", "meta-llama/Llama-3.1-8B-Instruct",
                                            {"engine-0"}, EngineKind::kSglang)};
  const auto reading = observer.read(kStart + 60, scrapes.fetched(), expected);
  const auto& pod = only_pod(reading);
  // 11,228 have left it; 162 run and 2,826 wait.
  EXPECT_DOUBLE_EQ(pod.rate.value.value(), (11'228 + 162 + 2'826) / 60.0);
  EXPECT_DOUBLE_EQ(pod.waiting.value.value(), 2'826);
  EXPECT_DOUBLE_EQ(pod.input_tokens.value.value(), 8.128902e6 / 11'228);
  EXPECT_DOUBLE_EQ(pod.output_tokens.value.value(), 7.557572e6 / 11'228);
  EXPECT_DOUBLE_EQ(pod.ttft_ms.value.value(), 2.3518979474117756e6 / 11'008 * 1'000);
  EXPECT_NEAR(pod.itl_ms.value.value(), 866'964.5791549598 / 7.400757e6 * 1'000, 1e-9);
  EXPECT_DOUBLE_EQ(pod.ttft_p99_ms.value.value(), 30'000);
  EXPECT_TRUE(pod.ttft_p99_ms.at_least) << "8,495 of 11,008 took longer than the last edge";
  EXPECT_NEAR(pod.itl_p99_ms.value.value(),
              500 + 250 * (0.99 * 7.400757e6 - 7.312226e6) / (7.339675e6 - 7.312226e6), 1e-6);
  EXPECT_DOUBLE_EQ(pod.kv_usage.value.value(), 0.28);
  EXPECT_DOUBLE_EQ(pod.prefix_hit.value.value(), 0.007507552643049313);
}

TEST(RecordedVllm, APageWithoutInfinityBucketsIsReadAsFarAsItGoes) {
  const auto text = recorded("vllm_v1_llama-3.1-8b_docs_elided.prom");
  SKIP_WITHOUT(text);
  Scrapes scrapes;
  scrapes.add_text(kStart, text, kTarget);
  Observer observer({});
  const auto expected =
      std::vector{variant("llm", "engine", "meta-llama/Llama-3.1-8B-Instruct", {"engine-0"})};
  const auto reading = observer.read(kStart, scrapes.fetched(), expected);
  EXPECT_DOUBLE_EQ(only_pod(reading).running.value.value(), 8);
  EXPECT_FALSE(only_pod(reading).kv_tokens.value) << "num_gpu_blocks was left out";
}

}  // namespace
}  // namespace tailrace::observe
