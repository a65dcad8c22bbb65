// Public reports about autoscalers whose metrics went away or came from pods that do not count:
// series go through the observer into whole cycles. Names carry the repository and the number.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "capacity/support/reports.h"
#include "observe/support/scrapes.h"
#include "tailrace/autoscaler/brain.h"
#include "tailrace/autoscaler/model_states.h"
#include "tailrace/queueing/sizing.h"

namespace tailrace::autoscaler {
namespace {

using observe::testing::pod_labels;
using observe::testing::Scrapes;
using observe::testing::with;

constexpr double kCycleSeconds = 15;

/// vLLM pods of one variant, what they export, and the cycles over it. Replicas stay as they are.
class Cluster {
 public:
  explicit Cluster(int pods) {
    variant_.key = {"llm", "llama"};
    variant_.name = "llama";
    variant_.accelerator = "H100";
    variant_.current = pods;
    for (int p = 0; p < pods; ++p) variant_.pods.push_back({fmt::format("llama-{}", p), ""});
    capacity::CycleConfig config;
    const std::vector<capacity::ConfigEntry> entries = {
        {"default", "targetTTFT: 150\ntargetITL: 15", 0}};
    config.models = capacity::Config::of_entries(entries, "test");
    brain_.configure(std::move(config));
  }

  /// Pods that the cluster does not count, which export all the same: surging or terminating.
  void add_others(int pods) {
    for (int p = 0; p < pods; ++p) others_.push_back(fmt::format("llama-leaving-{}", p));
  }

  /// One cycle in which all pods share `rate` requests/s. The first `lost` of them are not scraped;
  /// with all lost the whole fetch fails.
  capacity::Decision cycle(double rate, int lost = 0) {
    now_s_ += kCycleSeconds;
    ++cycles_;
    std::vector<std::string> names;
    for (const auto& pod : variant_.pods) names.push_back(pod.name);
    names.insert(names.end(), others_.begin(), others_.end());
    Scrapes scrapes;
    for (std::size_t p = 0; p < names.size(); ++p) {
      const double swing = 1 + 0.3 * std::sin(0.2 * cycles_ + static_cast<double>(p));
      work(names[p], rate * swing / static_cast<double>(names.size()));
      if (static_cast<int>(p) >= lost) write(scrapes, names[p], p >= variant_.pods.size());
    }
    if (gateway_waiting >= 0) {
      // Without a namespace, as the gateway's exporter has it.
      observe::Labels gateway{{"job", "epp"}, {"instance", "epp:9090"}};
      gateway["model_name"] = "llama";
      scrapes.add(now_s_, "llm_d_epp_flow_control_queue_size", gateway, gateway_waiting);
    }
    observe::Fetched fetched = scrapes.fetched();
    if (lost >= static_cast<int>(names.size())) {
      fetched = {};
      fetched.failed = true;
    }
    const std::vector<KnownVariant> known = {variant_};
    const auto reading = observer_.read(now_s_, fetched, expected_variants(known));
    Snapshot snapshot;
    snapshot.time_s = now_s_;
    snapshot.models = model_states(reading, known);
    snapshot.conditions = reading.conditions;
    record = brain_.think(snapshot);
    return record.result.decisions.at(0);
  }
  capacity::Decision cycles(int count, double rate) {
    capacity::Decision last;
    for (int i = 0; i < count; ++i) last = cycle(rate);
    return last;
  }
  double per_replica() const { return record.result.models.at(0).variants.at(0).per_replica_per_s; }

  CycleRecord record;
  double gateway_waiting = -1;

 private:
  struct Work {
    double requests = 0, ttft_s = 0, itl_s = 0, running = 0;
  };

  void work(const std::string& pod, double rate) {
    const auto at =
        *queueing::latency(capacity::testing::true_model(), queueing::Workload::of(rate, 512, 128));
    ASSERT_TRUE(at.stable) << rate;
    Work& w = work_[pod];
    const double requests = rate * kCycleSeconds;
    w.requests += requests;
    w.ttft_s += requests * *at.ttft_ms * 1e-3;
    w.itl_s += requests * 127 * *at.itl_ms * 1e-3;
    w.running = at.concurrency.value_or(0);
  }

  void write(Scrapes& scrapes, const std::string& pod, bool labelled) const {
    auto labels = pod_labels("llm", pod, "llama");
    if (labelled) labels = with(labels, "llm_d_ai_variant", "llama");
    const Work& w = work_.at(pod);
    scrapes.add(now_s_, "vllm:request_success_total", labels, w.requests);
    scrapes.add(now_s_, "vllm:num_requests_running", labels, w.running);
    scrapes.add(now_s_, "vllm:num_requests_waiting", labels, 0);
    const auto sums = [&](const char* name, double count, double sum) {
      scrapes.add_histogram(now_s_, name, labels, {{"+Inf", count}}, sum);
    };
    sums("vllm:request_prompt_tokens", w.requests, 512 * w.requests);
    sums("vllm:request_generation_tokens", w.requests, 128 * w.requests);
    sums("vllm:time_to_first_token_seconds", w.requests, w.ttft_s);
    sums("vllm:inter_token_latency_seconds", 127 * w.requests, w.itl_s);
  }

  double now_s_ = 1'000'000;
  int cycles_ = 0;
  KnownVariant variant_;
  std::vector<std::string> others_;
  std::map<std::string, Work> work_;
  observe::Observer observer_{{}};
  Brain brain_{capacity::StabilisationConfig{}};
};

// Scrapes that were lost looked like a service without load.
TEST(LlmdAutoscaling1376, FiveMinutesWithoutScrapesAtThePeakTakeNothingAway) {
  Cluster cluster(4);
  cluster.cycles(40, 60);
  const double peak = 4 * 0.8 * cluster.per_replica();
  EXPECT_GE(cluster.cycles(20, peak).desired, 4);
  for (int i = 0; i < 20; ++i) {
    EXPECT_GE(cluster.cycle(peak, 4).desired, 4) << "all lost, cycle " << i;
  }
  const auto after = cluster.cycles(8, peak);
  EXPECT_GE(after.desired, 4);
  EXPECT_TRUE(after.informed) << after.reason;
  for (int i = 0; i < 20; ++i) {
    EXPECT_GE(cluster.cycle(peak, 2).desired, 4) << "half lost, cycle " << i;
  }
}

// While a busy pod could not be read for a minute, replicas came a task too late.
TEST(Ray18923, AMinuteWithoutOnePodLosesNeitherItsLoadNorTheOthers) {
  Cluster cluster(3);
  cluster.cycles(40, 45);
  const double load = 3 * 0.75 * cluster.per_replica();
  cluster.cycles(10, load);
  for (int i = 0; i < 4; ++i) EXPECT_GE(cluster.cycle(load, 1).desired, 3);
  EXPECT_GE(cluster.cycles(8, 1.25 * load).desired, 4);
}

// Pods of a rolling update counted as replicas and as load of their own: 120 pods without any.
TEST(Kubernetes138505, PodsThatLeaveAreNoReplicasAndTheirRequestsAreDemand) {
  Cluster steady(4), rolling(4);
  steady.cycles(40, 60);
  const double load = 4 * 0.7 * steady.per_replica();
  const auto without = steady.cycles(10, load);
  rolling.cycles(40, 60);
  rolling.add_others(4);
  capacity::Decision with_others;
  for (int i = 0; i < 10; ++i) {
    with_others = rolling.cycle(load);
    EXPECT_LE(with_others.desired, without.desired + 1) << "cycle " << i;
    EXPECT_GE(with_others.desired, 4) << "cycle " << i;
  }
  EXPECT_EQ(with_others.current, 4);
  EXPECT_EQ(with_others.pending, 0);
}

// The gateway's metrics have no label for the namespace, so its queue belonged to nobody.
TEST(GatewayApiInferenceExtension2309, AQueueWithoutANamespaceIsItsModels) {
  Cluster cluster(2);
  cluster.gateway_waiting = 0;
  const auto before = cluster.cycles(40, 30).desired;
  cluster.gateway_waiting = 10'000;
  EXPECT_GT(cluster.cycles(2, 30).desired, std::max<std::int64_t>(before, 2));
}

}  // namespace
}  // namespace tailrace::autoscaler
