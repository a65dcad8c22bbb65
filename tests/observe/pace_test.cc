// By how much does one more stream slow a pod, as its gateways say?
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "observe/support/scrapes.h"

namespace tailrace::observe {
namespace {

using namespace testing;

struct Says {
  double gap = 0.04, per_stream = 0.002, error = 0.0005;
};

/// What a gateway says of the pod llama-0 at one moment.
void add_gateway(Scrapes& scrapes, const std::string& instance, const Says& says,
                 double time_s = kNow - 5) {
  const Labels backend{{"instance", instance}, {"backend", "llama-0"}};
  scrapes.add(time_s, "tailrace_backend_itl_seconds", backend, says.gap);
  scrapes.add(time_s, "tailrace_backend_itl_per_stream_seconds", backend, says.per_stream);
  scrapes.add(time_s, "tailrace_backend_itl_per_stream_error_seconds", backend, says.error);
}

Scrapes with_engine() {
  Scrapes scrapes;
  scrapes.add(kNow - 15, "vllm:num_requests_running", pod_labels("llm", "llama-0", "llama"), 4);
  scrapes.add(kNow, "vllm:num_requests_running", pod_labels("llm", "llama-0", "llama"), 4);
  return scrapes;
}

TEST(PaceOfAPod, IsAShareOfTheGapSinceAnEngineMaySendSeveralTokensAtOnce) {
  for (const double tokens_at_once : {1.0, 4.0}) {
    Scrapes scrapes = with_engine();
    add_gateway(scrapes, "10.0.0.2:9090",
                {0.04 * tokens_at_once, 0.002 * tokens_at_once, 0.0005 * tokens_at_once});
    const auto reading = read_once(scrapes);
    const auto& pod = only_pod(reading);
    EXPECT_NEAR(pod.itl_per_stream_ratio.value.value(), 0.05, 1e-12);
    EXPECT_NEAR(pod.itl_per_stream_error.value.value(), 0.25, 1e-12);
    EXPECT_EQ(pod.itl_per_stream_ratio.metric, "tailrace_backend_itl_per_stream_seconds");
    EXPECT_EQ(pod.itl_per_stream_ratio.age_s, 5);
  }
}

TEST(PaceOfAPod, OfSeveralGatewaysIsWeighedByHowSureEachIs) {
  Scrapes scrapes = with_engine();
  add_gateway(scrapes, "10.0.0.2:9090", {0.04, 0.002, 0.0005});
  add_gateway(scrapes, "10.0.0.3:9090", {0.04, 0.003, 0.001});
  const auto reading = read_once(scrapes);
  const auto& pod = only_pod(reading);
  const double mean = (4 * 0.002 + 0.003) / 5;
  EXPECT_NEAR(pod.itl_per_stream_ratio.value.value(), mean / 0.04, 1e-9);
  EXPECT_NEAR(pod.itl_per_stream_error.value.value(), 1 / std::sqrt(5e6) / mean, 1e-9);
}

TEST(PaceOfAPod, IsUnknownWithoutAGatewayOrWhereOneSaysAPartOfItOnly) {
  EXPECT_FALSE(only_pod(read_once(with_engine())).itl_per_stream_ratio.value);
  Scrapes scrapes = with_engine();
  scrapes.add(kNow, "tailrace_backend_itl_seconds",
              {{"instance", "10.0.0.2:9090"}, {"backend", "llama-0"}}, 0.04);
  const auto reading = read_once(scrapes);
  EXPECT_FALSE(only_pod(reading).itl_per_stream_ratio.value);
  EXPECT_FALSE(only_pod(reading).itl_per_stream_error.value);
  EXPECT_EQ(count(reading, ConditionKind::kContradiction), 0);
}

TEST(PaceOfAPod, ThatWasSaidLongAgoIsUnknown) {
  Scrapes scrapes = with_engine();
  add_gateway(scrapes, "10.0.0.2:9090", {}, kNow - 61);
  const auto reading = read_once(scrapes);
  EXPECT_FALSE(only_pod(reading).itl_per_stream_ratio.value);
}

TEST(PaceOfAPod, ThatDoesNotGrowIsUnknownWithoutAWord) {
  for (const double growth : {0.0, -0.001}) {
    Scrapes scrapes = with_engine();
    add_gateway(scrapes, "10.0.0.2:9090", {0.04, growth, 0.0005});
    const auto reading = read_once(scrapes);
    EXPECT_FALSE(only_pod(reading).itl_per_stream_ratio.value);
    EXPECT_FALSE(only_pod(reading).itl_per_stream_error.value);
    EXPECT_EQ(count(reading, ConditionKind::kContradiction), 0);
  }
}

TEST(PaceOfAPod, ThatCannotBeIsUnknownAndSaid) {
  constexpr double kHuge = 1e300, kTiny = 1e-300;
  for (const Says says :
       {Says{0, 0.002, 0.0005}, Says{-0.04, 0.002, 0.0005}, Says{0.04, 0.002, -0.0005},
        Says{kHuge, 0.002, 0.0005}, Says{0.04, 0.002, kHuge}, Says{kTiny, kTiny, kTiny}}) {
    Scrapes scrapes = with_engine();
    add_gateway(scrapes, "10.0.0.2:9090", says);
    add_gateway(scrapes, "10.0.0.3:9090", {});
    const auto reading = read_once(scrapes);
    EXPECT_FALSE(only_pod(reading).itl_per_stream_ratio.value) << says.gap << ' ' << says.error;
    EXPECT_NE(said(reading, ConditionKind::kContradiction).find("which cannot be"),
              std::string::npos)
        << says.gap << ' ' << says.error;
  }
}

TEST(PaceOfAPod, ThatIsNoNumberIsUnknownAndSaid) {
  for (const double none : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (const Says says :
         {Says{none, 0.002, 0.0005}, Says{0.04, none, 0.0005}, Says{0.04, 0.002, none}}) {
      Scrapes scrapes = with_engine();
      add_gateway(scrapes, "10.0.0.2:9090", says);
      const auto reading = read_once(scrapes);
      EXPECT_FALSE(only_pod(reading).itl_per_stream_ratio.value);
      EXPECT_FALSE(said(reading, ConditionKind::kContradiction).empty());
    }
  }
}

TEST(PaceOfAPod, OfAnotherPodTellsNothingOfThisOne) {
  Scrapes scrapes = with_engine();
  const Labels other{{"instance", "10.0.0.2:9090"}, {"backend", "llama-1"}};
  scrapes.add(kNow, "tailrace_backend_itl_seconds", other, 0.04);
  scrapes.add(kNow, "tailrace_backend_itl_per_stream_seconds", other, 0.002);
  scrapes.add(kNow, "tailrace_backend_itl_per_stream_error_seconds", other, 0.0005);
  EXPECT_FALSE(only_pod(read_once(scrapes)).itl_per_stream_ratio.value) << "another pod's";
}

}  // namespace
}  // namespace tailrace::observe
