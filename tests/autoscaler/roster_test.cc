// What a cluster's objects come to in a snapshot, and what its nodes allow.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kubernetes/discovery_paths.h"
#include "kubernetes/support/object_api.h"
#include "tailrace/autoscaler/brain.h"
#include "tailrace/autoscaler/collector.h"
#include "tailrace/net/sim_network.h"

namespace tailrace::autoscaler {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
namespace paths = kubernetes::paths;

class NoMetrics final : public observe::Source {
 public:
  void fetch(double, const observe::Wanted&, UniqueFunction<void(observe::Fetched)> done) override {
    done({});
  }
};

class ClusterGpusTest : public ::testing::Test {
 protected:
  ClusterGpusTest() {
    api.lists[paths::horizontal_pod_autoscalers("")] = {
        R"j({"metadata":{"namespace":"llm","name":"llama","annotations":{
              "llm-d.ai/managed":"true","llm-d.ai/model-id":"llama"}},
             "spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"llama"},
                     "maxReplicas":10}})j"};
    api.lists[paths::deployments("")] = {
        R"j({"metadata":{"namespace":"llm","name":"llama"},
             "spec":{"replicas":2,"selector":{"matchLabels":{"app":"llama"}},
               "template":{"metadata":{"annotations":{"tailrace.dev/accelerator":"H100"}},
                 "spec":{"containers":[{"name":"e","image":"vllm/vllm-openai",
                   "resources":{"limits":{"nvidia.com/gpu":"4"}}}]}}},
             "status":{"readyReplicas":2}})j"};
    nodes({{"n1", "H100"}, {"n2", "H100"}});
  }

  void nodes(const std::vector<std::pair<std::string, std::string>>& named) {
    auto& list = api.lists[paths::nodes()];
    list.clear();
    for (const auto& [name, product] : named) {
      list.push_back(fmt::format(
          R"j({{"metadata":{{"name":"{}","labels":{{"nvidia.com/gpu.product":"{}"}}}},
               "status":{{"allocatable":{{"nvidia.com/gpu":"8"}},
                          "conditions":[{{"type":"Ready","status":"True"}}]}}}})j",
          name, product));
    }
  }

  Snapshot collect() {
    if (!discovery) discovery = kubernetes::Discovery::make(loop, api, {});
    const auto roster = cluster_roster(*discovery, {}, [](const kubernetes::Inventory&) {});
    NoMetrics source;
    SnapshotCollector collector(*roster, source, {});
    Snapshot out;
    collector.collect(1e9, [&](Snapshot snapshot) { out = std::move(snapshot); });
    loop.run_for(std::chrono::seconds(1));
    return out;
  }

  /// Cycles in which two replicas have far too much to do; nothing is carried out.
  CycleRecord overloaded(bool limit_to_nodes) {
    Brain brain(std::nullopt);
    capacity::CycleConfig config;
    const std::vector<capacity::ConfigEntry> entries = {
        {"default", "targetTTFT: 400\ntargetITL: 40", 0}};
    config.models = capacity::Config::of_entries(entries, "test");
    config.limit_to_nodes = limit_to_nodes;
    brain.configure(config);
    Snapshot snapshot = collect();
    CycleRecord record;
    for (int c = 0; c < 8; ++c) {
      snapshot.time_s += 60;
      auto& model = snapshot.models.at(0);
      auto& variant = model.variants.at(0);
      variant.pods.clear();
      for (int p = 0; p < 2; ++p) {
        const double rate = 3 + 0.5 * ((c + p) % 3);
        tune::Observation o;
        o.pod = fmt::format("p{}", p);
        o.time_s = snapshot.time_s;
        o.rate_per_s = rate;
        o.requests = 60 * rate;
        o.input_tokens = 512;
        o.output_tokens = 128;
        o.ttft_ms = 60 + 5 * rate;
        o.itl_ms = 15 + rate;
        o.running = rate * 128 * 0.001 * *o.itl_ms;
        o.waiting = 0;
        variant.pods.push_back(std::move(o));
      }
      model.gateway = capacity::Backlog{0};
      model.gateway->arrivals_per_s = c < 7 ? 7 : 500;
      record = brain.think(snapshot);
    }
    return record;
  }

  net::SimLoop loop;
  kubernetes::testing::ObjectApi api;
  std::unique_ptr<kubernetes::Discovery> discovery;
};

TEST_F(ClusterGpusTest, NodesAreCountedByKindAndUnreadableOnesAreNotNone) {
  auto snapshot = collect();
  ASSERT_TRUE(snapshot.gpus);
  EXPECT_TRUE(snapshot.gpus->known);
  EXPECT_EQ(snapshot.gpus->count.at("H100"), 16);
  EXPECT_EQ(snapshot.gpus->vendor.at("H100"), "nvidia.com");
  api.failures[paths::nodes()] = {ErrorCode::kUnavailable, "forbidden"};
  snapshot = collect();
  ASSERT_TRUE(snapshot.gpus);
  EXPECT_FALSE(snapshot.gpus->known);
  EXPECT_EQ(snapshot.models.size(), 1U) << "variants are known all the same";
}

TEST_F(ClusterGpusTest, GrowthStopsAtWhatTheNodesHaveWhereThatIsWanted) {
  const auto free = overloaded(false).result.decisions.at(0);
  EXPECT_EQ(free.desired, 10) << "the maximum: nodes may be added for pods that wait";
  const auto cut = overloaded(true).result.decisions.at(0);
  EXPECT_EQ(cut.desired, 4) << "16 GPUs, four to each replica";
  EXPECT_THAT(cut.waits_for, HasSubstr("GPUs of H100"));
}

TEST_F(ClusterGpusTest, AKindThatNoNodeHasIsNotCutAndIsNamed) {
  nodes({{"n1", "NVIDIA-H100-80GB-HBM3"}, {"n2", "NVIDIA-L4"}});
  const auto record = overloaded(true);
  EXPECT_EQ(record.result.decisions.at(0).desired, 10);
  EXPECT_THAT(record.result.models.at(0).notes, Contains(HasSubstr("no node has GPUs of llama's")));
}

TEST_F(ClusterGpusTest, NodesThatCannotBeReadCutNothing) {
  api.failures[paths::nodes()] = {ErrorCode::kUnavailable, "forbidden"};
  EXPECT_EQ(overloaded(true).result.decisions.at(0).desired, 10);
}

}  // namespace
}  // namespace tailrace::autoscaler
