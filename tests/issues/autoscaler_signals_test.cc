// Public reports about what autoscalers read: counters taken for gauges, scrapes that were lost,
// labels that were lost on the way, ranks that counted twice. Names carry the repository and the
// number.
#include <gtest/gtest.h>

#include <cmath>

#include "observe/support/scrapes.h"
#include "tailrace/observe/observer.h"

namespace tailrace::observe {
namespace {

using namespace testing;

/// A vLLM pod that takes 2 requests/s and holds 6, over the last minute.
void add_pod(Scrapes& scrapes, const Labels& pod, double until_s = kNow) {
  for (int i = 0; i <= 4; ++i) {
    const double t = until_s - 60 + 15 * i;
    scrapes.add(t, "vllm:request_success_total", pod, 1'000'000 + 30.0 * i);
    scrapes.add(t, "vllm:num_requests_running", pod, 6);
    scrapes.add(t, "vllm:num_requests_waiting", pod, 1);
  }
}

// A counter that only grows was the target of a gauge: replicas grew with it.
TEST(Aibrix852, ACounterIsReadAsARateAndNeverAsItsValue) {
  Scrapes scrapes;
  add_pod(scrapes, pod_labels("llm", "llama-0", "llama"));
  const auto rate = only_pod(read_once(scrapes)).rate;
  ASSERT_TRUE(rate.value);
  EXPECT_DOUBLE_EQ(*rate.value, 2);
  Scrapes once;
  once.add(kNow, "vllm:request_success_total", pod_labels("llm", "llama-0", "llama"), 1'000'000);
  const auto reading = read_once(once);
  EXPECT_FALSE(only_pod(reading).rate.value);
  EXPECT_FALSE(only_pod(reading).rate.missing.empty());
}

// An empty answer to a query was 0: production was scaled to its minimum at peak.
TEST(Keda3065, AnEmptyAnswerLeavesEverythingUnknown) {
  Observer observer({});
  const auto expected = llama();
  const auto reading = observer.read(kNow, Fetched{}, expected);
  ASSERT_EQ(reading.variants.size(), 1U);
  EXPECT_TRUE(reading.variants[0].pods.empty());
  EXPECT_EQ(reading.variants[0].silent, std::vector<std::string>{"llama-0"});
  EXPECT_GT(count(reading, ConditionKind::kPodMissing), 0);
}

// Old metrics were used as if they were new.
TEST(LlmdAutoscaling385, AValueCarriesItsAgeAndEndsWhenItIsTooOld) {
  const auto expected = llama();
  const auto freshness_after = [&](double seconds) {
    Scrapes scrapes;
    add_pod(scrapes, pod_labels("llm", "llama-0", "llama"));
    Observer observer({});
    const auto first = observer.read(kNow, scrapes.fetched(), expected);
    EXPECT_EQ(only_pod(first).freshness, Freshness::kFresh);
    Fetched failed;
    failed.failed = true;
    const auto later = observer.read(kNow + seconds, failed, expected);
    return later.variants[0].pods.empty() ? Freshness::kUnavailable
                                          : later.variants[0].pods[0].freshness;
  };
  EXPECT_EQ(freshness_after(30), Freshness::kFresh);
  EXPECT_EQ(freshness_after(120), Freshness::kStale);
  EXPECT_EQ(freshness_after(400), Freshness::kUnavailable);
}

// The model's name in metrics was another than in the configuration: everything looked healthy and
// nothing scaled.
TEST(Llmd2310, AnotherNameOfTheModelIsSaidWithBothNames) {
  Scrapes scrapes;
  add_pod(scrapes, pod_labels("llm", "llama-0", "llama-served"));
  auto expected = std::vector{variant("llm", "llama", "meta/llama", {"llama-0"})};
  const auto reading = read_once(scrapes, expected);
  EXPECT_TRUE(reading.variants[0].pods.empty());
  const auto message = said(reading, ConditionKind::kLabelMismatch);
  EXPECT_NE(message.find("llama-served"), std::string::npos) << message;
  EXPECT_NE(message.find("meta/llama"), std::string::npos) << message;
  expected[0].model_aliases = {"llama-served"};
  EXPECT_TRUE(only_pod(read_once(scrapes, expected)).rate.value);
}

// Ranks of one engine were counted as engines, or all but one were lost.
TEST(LlmdAutoscaling1469, RanksOfOneEngineAddUpToOnePod) {
  Scrapes scrapes;
  const auto pod = pod_labels("llm", "llama-0", "llama");
  for (const char* rank : {"0", "1", "2"}) add_pod(scrapes, with(pod, "engine", rank));
  const auto reading = read_once(scrapes);
  EXPECT_DOUBLE_EQ(only_pod(reading).rate.value.value(), 6);
  EXPECT_DOUBLE_EQ(only_pod(reading).running.value.value(), 18);
}

// Pods of a group were counted one by one, or their engines not at all.
TEST(LlmdAutoscaling1358, EnginesOfAPodAreToldApartByTheirPort) {
  Scrapes scrapes;
  const auto pod = pod_labels("llm", "llama-0", "llama");
  for (const char* at : {"10.0.0.1:8000", "10.0.0.1:8001"}) {
    add_pod(scrapes, with(pod, "instance", at));
  }
  const auto reading = read_once(scrapes);
  ASSERT_EQ(reading.variants[0].pods.size(), 2U);
  for (const auto& engine : reading.variants[0].pods) {
    EXPECT_DOUBLE_EQ(engine.rate.value.value(), 2) << engine.pod;
  }
}

// A label was lost or had a suffix: scale-up was stuck without a word.
TEST(Kserve5701, APodsNameWithASuffixIsNamedAsAMismatch) {
  Scrapes scrapes;
  add_pod(scrapes, pod_labels("llm", "llama-0-rank-0", "llama"));
  const auto reading = read_once(scrapes);
  std::string all;
  for (const auto& c : reading.conditions) all += c.subject + ": " + c.message + "\n";
  EXPECT_NE(all.find("llama-0-rank-0"), std::string::npos) << all;
  for (const auto& pod : reading.variants[0].pods) {
    EXPECT_TRUE(!pod.rate.value || *pod.rate.value > 0) << "a mismatch is never a rate of 0";
  }
}

}  // namespace
}  // namespace tailrace::observe
