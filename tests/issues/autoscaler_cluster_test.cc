// Public reports about what autoscalers find in a cluster and how they run beside others:
// two controllers, kinds that are installed later, intervals that were ignored, replicas that go
// with their answers. Names carry the repository and the number.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "autoscaler/support/fakes.h"
#include "autoscaler/support/process_world.h"
#include "kubernetes/discovery_paths.h"
#include "kubernetes/support/object_api.h"
#include "observe/support/scrapes.h"
#include "tailrace/autoscaler/brain.h"
#include "tailrace/autoscaler/collector.h"
#include "tailrace/autoscaler/control_loop.h"
#include "tailrace/autoscaler/metrics_output.h"
#include "tailrace/core/text.h"
#include "tailrace/core/yaml_tree.h"
#include "tailrace/net/sim_network.h"

namespace tailrace::autoscaler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
namespace paths = kubernetes::paths;

std::string managed(const std::string& name, const std::string& spec, const std::string& instance) {
  return fmt::format(
      R"j({{"metadata":{{"namespace":"llm","name":"{0}","annotations":{{
             "llm-d.ai/managed":"true","llm-d.ai/model-id":"{0}"}},
             "labels":{{"wva.llmd.ai/controller-instance":"{2}"}}}},
           "spec":{{"scaleTargetRef":{{"apiVersion":"apps/v1","kind":"Deployment","name":"{0}"}},
                    "maxReplicas":10{1}}}}})j",
      name, spec, instance);
}

std::string deployment(const std::string& name, int replicas) {
  return fmt::format(
      R"j({{"metadata":{{"namespace":"llm","name":"{0}"}},
           "spec":{{"replicas":{1},"selector":{{"matchLabels":{{"app":"{0}"}}}},
             "template":{{"spec":{{"containers":[{{"name":"e","image":"vllm/vllm-openai"}}]}}}}}},
           "status":{{"readyReplicas":{1}}}}})j",
      name, replicas);
}

/// What one autoscaler sees of a cluster and says of it.
class Instance {
 public:
  Instance(kubernetes::Api& api, const std::string& name) {
    kubernetes::DiscoveryConfig discovery;
    discovery.controller_instance = name;
    discovery_ = kubernetes::Discovery::make(loop_, api, std::move(discovery));
    roster_ = cluster_roster(*discovery_, {}, [](const kubernetes::Inventory&) {});
    MetricsOutputConfig output;
    output.controller_instance = name;
    output_ = std::make_unique<MetricsOutput>(std::move(output));
    capacity::CycleConfig config;
    const std::vector<capacity::ConfigEntry> entries = {
        {"default", "targetTTFT: 150\ntargetITL: 15\nscaleToZero: true\nretention: 60s", 0}};
    config.models = capacity::Config::of_entries(entries, "test");
    brain_.configure(std::move(config));
  }

  Known look() {
    Known known;
    roster_->look(now_s_, [&](Known found) { known = std::move(found); });
    loop_.run_for(std::chrono::seconds(1));
    return known;
  }
  /// One cycle in which all pods say that they are idle.
  CycleRecord idle_cycle() {
    const Known known = look();
    Snapshot snapshot;
    snapshot.time_s = now_s_;
    snapshot.models = model_states({}, known.variants);
    for (auto& model : snapshot.models) {
      model.gateway = capacity::Backlog{0};
      for (auto& variant : model.variants) {
        variant.pods.clear();
        for (std::int64_t p = 0; p < variant.current; ++p) {
          tune::Observation idle;
          idle.pod = fmt::format("p{}", p);
          idle.time_s = now_s_;
          idle.rate_per_s = idle.running = idle.waiting = idle.requests = 0;
          variant.pods.push_back(std::move(idle));
        }
      }
    }
    auto record = brain_.think(snapshot);
    output_->record(record, {});
    now_s_ += 30;
    return record;
  }
  std::string page() const { return output_->expose(); }

 private:
  net::SimLoop loop_;
  std::unique_ptr<kubernetes::Discovery> discovery_;
  std::unique_ptr<Roster> roster_;
  std::unique_ptr<MetricsOutput> output_;
  Brain brain_{capacity::StabilisationConfig{}};
  double now_s_ = 1'700'000'000;
};

std::vector<std::string> names(const Known& known) {
  std::vector<std::string> all;
  for (const auto& variant : known.variants) all.push_back(variant.name);
  return all;
}

// Two controllers on one cluster, and an HPA that read the other's series.
TEST(LlmdAutoscaling1044, OfTwoInstancesEachSeesItsOwnVariantsAndSignsItsSeries) {
  kubernetes::testing::ObjectApi api;
  api.lists[paths::horizontal_pod_autoscalers("")] = {managed("north", "", "blue"),
                                                      managed("south", "", "green")};
  api.lists[paths::deployments("")] = {deployment("north", 2), deployment("south", 2)};
  Instance blue(api, "blue"), green(api, "green");
  EXPECT_THAT(names(blue.look()), ElementsAre("north"));
  EXPECT_THAT(names(green.look()), ElementsAre("south"));
  blue.idle_cycle();
  green.idle_cycle();
  for (const char* series : {"wva_desired_replicas", "wva_current_replicas", "wva_desired_ratio"}) {
    EXPECT_THAT(blue.page(),
                HasSubstr(fmt::format("{}{{variant_name=\"north\",namespace=\"llm\","
                                      "accelerator_type=\"\",controller_instance=\"blue\"}}",
                                      series)));
    EXPECT_THAT(green.page(), HasSubstr(fmt::format("{}{{variant_name=\"south\"", series)));
  }
  EXPECT_THAT(blue.page(), Not(HasSubstr("south")));
  EXPECT_THAT(green.page(), Not(HasSubstr("north")));
  EXPECT_THAT(green.page(), Not(HasSubstr("controller_instance=\"blue\"")));
}

// A kind that was installed later needed a restart.
TEST(LlmdAutoscaling1509, AKindThatIsInstalledLaterIsSeenInTheNextCycle) {
  kubernetes::testing::ObjectApi api;
  api.lists[paths::horizontal_pod_autoscalers("")];
  api.lists[paths::deployments("")] = {deployment("north", 2)};
  Instance one(api, "");
  EXPECT_THAT(names(one.look()), IsEmpty());
  EXPECT_FALSE(one.look().blind);
  api.lists[paths::scaled_objects("")] = {managed("north", "", "")};
  EXPECT_THAT(names(one.look()), ElementsAre("north"));
}

// minReplicaCount 0 of a ScaledObject was taken for 1.
TEST(LlmdAutoscaling1339, AScaledObjectWithAMinimumOfZeroGoesToZeroWithoutRequests) {
  const auto after_five_minutes = [](const std::string& least) {
    kubernetes::testing::ObjectApi api;
    api.lists[paths::horizontal_pod_autoscalers("")];
    api.lists[paths::scaled_objects("")] = {
        managed("north", fmt::format(",\"minReplicaCount\":{}", least), "")};
    api.lists[paths::deployments("")] = {deployment("north", 2)};
    Instance one(api, "");
    std::int64_t desired = -1;
    for (int i = 0; i < 12; ++i) desired = one.idle_cycle().result.decisions.at(0).desired;
    return desired;
  };
  EXPECT_EQ(after_five_minutes("0"), 0);
  EXPECT_EQ(after_five_minutes("1"), 1);
}

// Requests for adapters were nobody's: they are the base model's.
TEST(LlmDRouter709, WhatWaitsForAdaptersIsDemandOfTheirBase) {
  KnownVariant base;
  base.key = {"llm", "llama"};
  base.name = "llama";
  base.model_aliases = {"llama-sql", "llama-chat"};
  const auto waiting = [&](const std::vector<std::string>& models) {
    observe::testing::Scrapes scrapes;
    for (const auto& model : models) {
      scrapes.add(1e6, "llm_d_epp_flow_control_queue_size",
                  {{"job", "epp"}, {"instance", "epp:9090"}, {"model_name", model}}, 5);
    }
    const std::vector<KnownVariant> known = {base};
    const auto reading =
        observe::Observer({}).read(1e6, scrapes.fetched(), expected_variants(known));
    const auto states = model_states(reading, known);
    return states.at(0).gateway.value_or(capacity::Backlog{0}).requests;
  };
  EXPECT_EQ(waiting({"llama"}), 5);
  EXPECT_EQ(waiting({"llama", "llama-sql", "llama-chat"}), 15);
  EXPECT_EQ(waiting({"llama", "another"}), 5);
}

// Pods were deleted with the answers that they were writing.
TEST(Kthena1589, AReplicaThatGoesIsDrainedBeforeItIsEnded) {
  testing::ProcessWorld world;
  world.start();
  world.decide("small", 2);
  world.run_for(std::chrono::seconds(6));
  world.gateway.backends.at("small-0").running = 1;
  world.gateway.backends.at("small-1").running = 9;
  world.run_for(std::chrono::seconds(3));
  world.decide("small", 1);
  world.run_for(std::chrono::seconds(20));
  EXPECT_TRUE(world.gateway.backends.at("small-0").draining) << "#1152: the one with least to lose";
  EXPECT_FALSE(world.gateway.backends.at("small-1").draining);
  for (const auto& program : world.machine.programs) EXPECT_THAT(program->signals, IsEmpty());
  world.gateway.backends.at("small-0").running = 0;
  world.gateway.backends.erase("small-0");
  world.run_for(std::chrono::seconds(10));
  EXPECT_THAT(world.machine.programs.at(0)->signals, ElementsAre(SIGTERM));
  EXPECT_EQ(world.machine.alive(), 1U);
}

// The interval was configured and exported, and cycles came every 30 s all the same.
TEST(LlmdAutoscaling1487, CyclesComeAtTheIntervalThatIsConfigured) {
  for (const int interval_s : {7, 20}) {
    net::SimLoop loop;
    testing::SimCalendar calendar(loop);
    testing::Fleet fleet;
    testing::FakeCollector collector(loop, fleet);
    testing::FakeSettings settings("default:\n  targetTTFT: 150\n  targetITL: 15\n");
    LoopParts parts;
    parts.loop = &loop;
    parts.calendar = &calendar;
    parts.settings = &settings;
    parts.collector = &collector;
    LoopConfig config;
    config.interval = std::chrono::seconds(interval_s);
    ControlLoop control(config, parts);
    std::vector<double> times_s;
    control.start([&](const CycleReport& report) { times_s.push_back(report.record.time_s); });
    loop.run_for(std::chrono::seconds(5 * interval_s + 1));
    ASSERT_EQ(times_s.size(), 6U);
    for (std::size_t i = 1; i < times_s.size(); ++i) {
      EXPECT_NEAR(times_s[i] - times_s[i - 1], interval_s, 0.1);
    }
    control.stop([] {});
    loop.run_for(std::chrono::seconds(1));
  }
}

const core::YamlNode* find(const core::YamlNode& node, const std::vector<std::string>& path) {
  const core::YamlNode* at = &node;
  for (const auto& key : path) {
    const core::YamlNode* next = nullptr;
    for (const auto& [name, value] : at->members) {
      if (name == key) next = &value;
    }
    if (next == nullptr) return nullptr;
    at = next;
  }
  return at;
}

std::vector<core::YamlNode> documents(const std::string& file) {
  const auto text =
      core::read_file(fmt::format("{}/deploy/{}", TAILRACE_SOURCE_DIR, file), 1 << 20);
  EXPECT_TRUE(text) << file;
  std::vector<core::YamlNode> out;
  std::string_view rest = text ? std::string_view(*text) : std::string_view();
  while (!rest.empty()) {
    const auto end = rest.find("\n---\n");
    auto document = core::parse_yaml(rest.substr(0, end));
    EXPECT_TRUE(document) << file;
    if (document) out.push_back(std::move(*document));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 5);
  }
  return out;
}

// The ServiceMonitor that was shipped selected neither the Service's labels nor its port.
TEST(LlmdAutoscaling321, TheServiceMonitorSelectsTheServiceAndAPortThatItHas) {
  const auto monitor = documents("examples/servicemonitor.yaml").at(0);
  const auto* wanted = find(monitor, {"spec", "selector", "matchLabels"});
  const auto* endpoints = find(monitor, {"spec", "endpoints"});
  ASSERT_TRUE(wanted != nullptr && endpoints != nullptr && endpoints->items.size() == 1);
  int matched = 0;
  for (const auto& document : documents("autoscaler.yaml")) {
    if (find(document, {"kind"})->text != "Service") continue;
    const auto* labels = find(document, {"metadata", "labels"});
    bool all = labels != nullptr && find(document, {"metadata", "namespace"})->text ==
                                        find(monitor, {"metadata", "namespace"})->text;
    for (const auto& [name, value] : wanted->members) {
      const auto* own = all ? find(*labels, {name}) : nullptr;
      all = own != nullptr && own->text == value.text;
    }
    if (!all) continue;
    for (const auto& port : find(document, {"spec", "ports"})->items) {
      if (find(port, {"name"})->text == find(endpoints->items[0], {"port"})->text) ++matched;
    }
  }
  EXPECT_EQ(matched, 1);
}

}  // namespace
}  // namespace tailrace::autoscaler
