// Which variants a cluster runs, and how many of their replicas count.
#include "tailrace/kubernetes/discovery.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kubernetes/discovery_paths.h"
#include "kubernetes/support/object_api.h"
#include "tailrace/net/sim_network.h"

namespace tailrace::kubernetes {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kManaged = R"j("llm-d.ai/managed":"true","llm-d.ai/model-id":"llama")j";

std::string hpa(const std::string& name, const std::string& annotations,
                const std::string& target = "llama", const std::string& spec = "",
                const std::string& more = "") {
  return fmt::format(
      R"j({{"metadata":{{"namespace":"llm","name":"{}","annotations":{{{}}}{}}},
           "spec":{{"scaleTargetRef":{{"apiVersion":"apps/v1","kind":"Deployment","name":"{}"}},
                    "maxReplicas":10{}}}}})j",
      name, annotations, more, target, spec);
}

std::string scaled_object(const std::string& name, const std::string& annotations,
                          const std::string& target = "llama", const std::string& spec = "") {
  return fmt::format(
      R"j({{"metadata":{{"namespace":"llm","name":"{}","annotations":{{{}}}}},
           "spec":{{"scaleTargetRef":{{"name":"{}"}}{}}}}})j",
      name, annotations, target, spec);
}

std::string deployment(const std::string& name, int replicas, int ready,
                       const std::string& annotations = "", const std::string& pod_spec = "") {
  return fmt::format(
      R"j({{"metadata":{{"namespace":"llm","name":"{0}","uid":"{0}-uid","annotations":{{{3}}}}},
           "spec":{{"replicas":{1},"selector":{{"matchLabels":{{"app":"{0}"}}}},
             "template":{{"metadata":{{"labels":{{"app":"{0}"}}}},"spec":{{"containers":[
               {{"name":"e","image":"vllm/vllm-openai:v0.11.0","args":["--max-num-seqs=64"],
                 "resources":{{"limits":{{"nvidia.com/gpu":"2"}}}}}}]{4}}}}}}},
           "status":{{"readyReplicas":{2}}}}})j",
      name, replicas, ready, annotations, pod_spec);
}

std::string replica_set(const std::string& name, const std::string& owner) {
  return fmt::format(
      R"j({{"metadata":{{"namespace":"llm","name":"{}","ownerReferences":[
           {{"kind":"Deployment","name":"{}","controller":true}}]}}}})j",
      name, owner);
}

std::string pod(const std::string& name, const std::string& set, bool ready,
                bool terminating = false, const std::string& node = "n1") {
  return fmt::format(
      R"j({{"metadata":{{"namespace":"llm","name":"{}"{},"ownerReferences":[
           {{"kind":"ReplicaSet","name":"{}","controller":true}}]}},
           "spec":{{"nodeName":"{}"}},
           "status":{{"phase":"Running","podIP":"10.0.0.7",
             "conditions":[{{"type":"Ready","status":"{}"}}]}}}})j",
      name, terminating ? R"j(,"deletionTimestamp":"2026-11-30T12:00:00Z")j" : "", set, node,
      ready ? "True" : "False");
}

std::string node(const std::string& name, const std::string& product, int gpus, bool ready = true,
                 bool cordoned = false) {
  return fmt::format(
      R"j({{"metadata":{{"name":"{}","labels":{{"nvidia.com/gpu.product":"{}"}}}},
           "spec":{{"unschedulable":{}}},
           "status":{{"allocatable":{{"cpu":"64","nvidia.com/gpu":"{}"}},
             "conditions":[{{"type":"Ready","status":"{}"}}]}}}})j",
      name, product, cordoned, gpus, ready ? "True" : "False");
}

class DiscoveryTest : public ::testing::Test {
 protected:
  DiscoveryTest() {
    api.lists[paths::horizontal_pod_autoscalers("")];
    api.lists[paths::scaled_objects("")];
    api.lists[paths::deployments("")] = {deployment("llama", 2, 2)};
    api.lists[paths::nodes()] = {node("n1", "H100", 8)};
    api.lists[paths::namespaces()];
    pods_of("llama") = {pod("llama-5d-a", "llama-5d", true), pod("llama-5d-b", "llama-5d", true)};
    sets_of("llama") = {replica_set("llama-5d", "llama")};
  }

  std::vector<std::string>& hpas() { return api.lists[paths::horizontal_pod_autoscalers("")]; }
  std::vector<std::string>& scaled() { return api.lists[paths::scaled_objects("")]; }
  std::vector<std::string>& deployments() { return api.lists[paths::deployments("")]; }
  std::vector<std::string>& pods_of(const std::string& app) {
    return api.lists[paths::pods("llm", "app=" + app)];
  }
  std::vector<std::string>& sets_of(const std::string& app) {
    return api.lists[paths::replica_sets("llm", "app=" + app)];
  }

  Result<Inventory> try_discover() {
    auto result = Result<Inventory>(fail(ErrorCode::kInternal, "no answer"));
    if (!discovery) discovery = Discovery::make(loop, api, config);
    discovery->discover([&](Result<Inventory> got) { result = std::move(got); });
    while (api.held() > 0) api.answer_next();
    loop.run_for(std::chrono::seconds(1));
    return result;
  }
  Inventory discover() {
    auto result = try_discover();
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result ? *result : Inventory{};
  }

  static auto problem(const std::string& object, const std::string& words) {
    return Contains(AllOf(Field(&DiscoveryProblem::object, object),
                          Field(&DiscoveryProblem::message, HasSubstr(words))));
  }

  net::SimLoop loop;
  testing::ObjectApi api;
  DiscoveryConfig config;
  std::unique_ptr<Discovery> discovery;
};

TEST_F(DiscoveryTest, AnAnnotatedHpaIsAVariantUnderItsOwnName) {
  hpas() = {hpa("llama-hpa", std::string(kManaged) + R"j(,"llm-d.ai/variant-cost":"40.5")j")};
  const auto found = discover();
  EXPECT_THAT(found.problems, IsEmpty());
  ASSERT_THAT(found.variants, SizeIs(1));
  const auto& v = found.variants[0];
  EXPECT_EQ(v.ns, "llm");
  EXPECT_EQ(v.name, "llama-hpa");
  EXPECT_EQ(v.model, "llama");
  EXPECT_EQ(v.scaler, ScalerKind::kHorizontalPodAutoscaler);
  EXPECT_EQ(v.target.scale_path(), "/apis/apps/v1/namespaces/llm/deployments/llama/scale");
  EXPECT_EQ(v.cost, 40.5);
  EXPECT_EQ(v.min, 1);
  EXPECT_EQ(v.max, 10);
  EXPECT_EQ(v.gpus_per_replica, 2);
  EXPECT_EQ(v.engine.max_num_seqs, 64);
  EXPECT_EQ(v.spec_replicas, 2);
  EXPECT_EQ(v.ready_replicas, 2);
  EXPECT_EQ(v.role, "both");
  ASSERT_THAT(v.pods, SizeIs(2));
  EXPECT_EQ(v.pods[0].name, "llama-5d-a");
  EXPECT_EQ(v.pods[0].address, "10.0.0.7");
  EXPECT_TRUE(v.pods[0].ready);
}

TEST_F(DiscoveryTest, AScaledObjectIsAVariantWithItsOwnMinimum) {
  scaled() = {scaled_object("llama-so", kManaged)};
  auto found = discover();
  ASSERT_THAT(found.variants, SizeIs(1));
  EXPECT_EQ(found.variants[0].scaler, ScalerKind::kScaledObject);
  EXPECT_EQ(found.variants[0].cost, 10);
  EXPECT_EQ(found.variants[0].min, 0);
  EXPECT_EQ(found.variants[0].max, 100);
  scaled() = {scaled_object("llama-so", kManaged, "llama",
                            R"j(,"minReplicaCount":2,"maxReplicaCount":6)j")};
  found = discover();
  EXPECT_EQ(found.variants[0].min, 2);
  EXPECT_EQ(found.variants[0].max, 6);
}

TEST_F(DiscoveryTest, WithoutAnnotationsNothingIsOurs) {
  hpas() = {hpa("a", ""), hpa("b", R"j("llm-d.ai/managed":"false","llm-d.ai/model-id":"x")j", "b")};
  const auto found = discover();
  EXPECT_THAT(found.variants, IsEmpty());
  EXPECT_THAT(found.problems, IsEmpty());
}

TEST_F(DiscoveryTest, TheScaledObjectWinsOverAnHpaOnTheSameTarget) {
  hpas() = {hpa("by-hand", kManaged)};
  scaled() = {scaled_object("so", kManaged)};
  const auto found = discover();
  ASSERT_THAT(found.variants, SizeIs(1));
  EXPECT_EQ(found.variants[0].name, "so");
  EXPECT_THAT(found.problems, problem("HorizontalPodAutoscaler llm/by-hand", "delete one of them"));
}

TEST_F(DiscoveryTest, TheHpaThatKedaMakesIsNoSecondScaler) {
  hpas() = {hpa("keda-hpa-so", kManaged, "llama", "",
                R"j(,"ownerReferences":[{"kind":"ScaledObject","name":"so","controller":true}])j")};
  scaled() = {scaled_object("so", kManaged)};
  const auto found = discover();
  ASSERT_THAT(found.variants, SizeIs(1));
  EXPECT_EQ(found.variants[0].name, "so");
  EXPECT_THAT(found.problems, IsEmpty());
}

TEST_F(DiscoveryTest, AWrongScaledObjectDoesNotGiveWayToItsHpa) {
  hpas() = {hpa("keda-hpa-so", kManaged, "llama", "",
                R"j(,"ownerReferences":[{"kind":"ScaledObject","name":"so","controller":true}])j")};
  scaled() = {scaled_object("so", R"j("llm-d.ai/managed":"true")j")};
  const auto found = discover();
  EXPECT_THAT(found.variants, IsEmpty());
  EXPECT_THAT(found.problems, problem("ScaledObject llm/so", "llm-d.ai/model-id is missing"));
}

TEST_F(DiscoveryTest, TwoHpasOnOneTargetAreOneVariantAndAProblem) {
  hpas() = {hpa("b", kManaged), hpa("a", kManaged)};
  const auto found = discover();
  ASSERT_THAT(found.variants, SizeIs(1));
  EXPECT_EQ(found.variants[0].name, "a");
  EXPECT_THAT(found.problems, problem("HorizontalPodAutoscaler llm/b", "delete one of them"));
}

TEST_F(DiscoveryTest, MinimumAboveMaximumIsRefusedWithTheObjectsName) {
  hpas() = {hpa("llama-hpa", kManaged, "llama", R"j(,"minReplicas":11)j")};
  auto found = discover();
  EXPECT_THAT(found.variants, IsEmpty());
  EXPECT_THAT(found.problems, problem("HorizontalPodAutoscaler llm/llama-hpa",
                                      "spec.minReplicas 11 is more than spec.maxReplicas 10"));
  hpas().clear();
  scaled() = {
      scaled_object("so", kManaged, "llama", R"j(,"minReplicaCount":5,"maxReplicaCount":4)j")};
  found = discover();
  EXPECT_THAT(found.problems, problem("ScaledObject llm/so", "spec.minReplicaCount 5"));
  scaled().clear();
  deployments() = {deployment("llama", 2, 2,
                              R"j("tailrace.dev/model-id":"llama","tailrace.dev/min-replicas":"5",
                                  "tailrace.dev/max-replicas":"4")j")};
  found = discover();
  EXPECT_THAT(found.variants, IsEmpty());
  EXPECT_THAT(found.problems, problem("Deployment llm/llama", "tailrace.dev/min-replicas 5"));
}

TEST_F(DiscoveryTest, ACostThatIsNoneIsRefused) {
  for (const char* cost : {"-1", "dear", "nan", "inf", "1e400", ""}) {
    hpas() = {hpa("h", fmt::format(R"j({},"llm-d.ai/variant-cost":"{}")j", kManaged, cost))};
    const auto found = discover();
    EXPECT_THAT(found.variants, IsEmpty()) << cost;
    EXPECT_THAT(found.problems, problem("HorizontalPodAutoscaler llm/h", "variant-cost")) << cost;
  }
  hpas() = {hpa("h", fmt::format(R"j({},"llm-d.ai/variant-cost":"0")j", kManaged))};
  EXPECT_EQ(discover().variants.at(0).cost, 0);
}

TEST_F(DiscoveryTest, ATargetThatDoesNotExistOrCannotBeAVariantIsAProblem) {
  hpas() = {hpa("h", kManaged, "gone")};
  EXPECT_THAT(discover().problems, problem("HorizontalPodAutoscaler llm/h", "\"gone\""));
  hpas() = {R"j({"metadata":{"namespace":"llm","name":"h","annotations":{"llm-d.ai/managed":"true",
    "llm-d.ai/model-id":"m"}},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1",
    "kind":"StatefulSet","name":"llama"}}})j"};
  const auto found = discover();
  EXPECT_THAT(found.variants, IsEmpty());
  EXPECT_THAT(found.problems, problem("HorizontalPodAutoscaler llm/h", "\"StatefulSet\""));
}

TEST_F(DiscoveryTest, ADeploymentWithOurAnnotationsIsAVariantWithoutAScaler) {
  deployments() = {
      deployment("llama", 2, 2,
                 R"j("tailrace.dev/model-id":"org/llama","tailrace.dev/variant-cost":"7",
                                  "tailrace.dev/min-replicas":"0","tailrace.dev/max-replicas":"9",
                                  "tailrace.dev/accelerator":"L40S")j")};
  const auto found = discover();
  EXPECT_THAT(found.problems, IsEmpty());
  ASSERT_THAT(found.variants, SizeIs(1));
  const auto& v = found.variants[0];
  EXPECT_EQ(v.scaler, ScalerKind::kDeployment);
  EXPECT_EQ(v.name, "llama");
  EXPECT_EQ(v.model, "org/llama");
  EXPECT_EQ(v.cost, 7);
  EXPECT_EQ(v.min, 0);
  EXPECT_EQ(v.max, 9);
  EXPECT_EQ(v.accelerator, "L40S");
  EXPECT_EQ(v.target_uid, "llama-uid");
}

TEST_F(DiscoveryTest, AnAnnotatedDeploymentThatSomebodyElseScalesIsLeftAlone) {
  deployments() = {deployment("llama", 2, 2, R"j("tailrace.dev/model-id":"llama")j")};
  hpas() = {hpa("by-cpu", "")};
  auto found = discover();
  EXPECT_THAT(found.variants, IsEmpty());
  EXPECT_THAT(found.problems,
              problem("Deployment llm/llama", "HorizontalPodAutoscaler llm/by-cpu"));
  hpas() = {hpa("managed", kManaged)};
  found = discover();
  ASSERT_THAT(found.variants, SizeIs(1));
  EXPECT_EQ(found.variants[0].name, "managed");
  EXPECT_THAT(found.problems, problem("Deployment llm/llama", "do nothing"));
}

TEST_F(DiscoveryTest, AManagedHpaBesideAForeignScaledObjectIsLeftAlone) {
  hpas() = {hpa("h", kManaged)};
  scaled() = {scaled_object("foreign", "")};
  const auto found = discover();
  EXPECT_THAT(found.variants, IsEmpty());
  EXPECT_THAT(found.problems, problem("HorizontalPodAutoscaler llm/h", "ScaledObject llm/foreign"));
}

TEST_F(DiscoveryTest, ExcludedObjectsAndNamespacesAreLeftOut) {
  hpas() = {hpa("h", std::string(kManaged) + R"j(,"wva.llmd.ai/exclude":"true")j")};
  EXPECT_THAT(discover().variants, IsEmpty());
  hpas() = {hpa("h", kManaged)};
  EXPECT_THAT(discover().variants, SizeIs(1));
  api.lists[paths::namespaces()] = {
      R"j({"metadata":{"name":"llm","annotations":{"wva.llmd.ai/exclude":"true"}}})j"};
  EXPECT_THAT(discover().variants, IsEmpty());
}

TEST_F(DiscoveryTest, AControllerInstanceSeesOnlyItsOwn) {
  deployments().push_back(deployment("other", 1, 1));
  hpas() = {
      hpa("a", kManaged, "llama", "", R"j(,"labels":{"wva.llmd.ai/controller-instance":"blue"})j"),
      hpa("b", kManaged, "other", "",
          R"j(,"labels":{"wva.llmd.ai/controller-instance":"green"})j")};
  EXPECT_THAT(discover().variants, SizeIs(2));
  config.controller_instance = "blue";
  discovery.reset();
  const auto found = discover();
  ASSERT_THAT(found.variants, SizeIs(1));
  EXPECT_EQ(found.variants[0].name, "a");
}

TEST_F(DiscoveryTest, OneNameInANamespaceIsOneVariant) {
  deployments().push_back(deployment("other", 1, 1));
  hpas() = {hpa("same", kManaged)};
  scaled() = {scaled_object("same", kManaged, "other")};
  const auto found = discover();
  EXPECT_THAT(found.variants, SizeIs(1));
  EXPECT_THAT(found.problems, Contains(Field(&DiscoveryProblem::message, HasSubstr("rename"))));
}

// kubernetes/kubernetes#72775: pods of a rolling update were taken for replicas.
TEST_F(DiscoveryTest, SurgeAndTerminatingPodsAreNoReplicas) {
  hpas() = {hpa("h", kManaged)};
  sets_of("llama") = {replica_set("llama-5d", "llama"), replica_set("llama-6e", "llama")};
  pods_of("llama") = {pod("llama-5d-a", "llama-5d", true), pod("llama-5d-b", "llama-5d", true),
                      pod("llama-5d-c", "llama-5d", true, true),
                      pod("llama-6e-d", "llama-6e", true), pod("llama-6e-e", "llama-6e", false)};
  auto found = discover();
  ASSERT_THAT(found.variants, SizeIs(1));
  EXPECT_EQ(found.variants[0].spec_replicas, 2);
  EXPECT_EQ(found.variants[0].ready_replicas, 2);
  EXPECT_THAT(found.variants[0].pods, SizeIs(5));
  EXPECT_TRUE(found.variants[0].pods[2].terminating);
  pods_of("llama") = {pod("llama-5d-a", "llama-5d", true, true),
                      pod("llama-5d-b", "llama-5d", true, true)};
  found = discover();
  EXPECT_EQ(found.variants[0].ready_replicas, 0);
}

TEST_F(DiscoveryTest, PodsOfAnotherOwnerUnderTheSameLabelsAreNotCounted) {
  hpas() = {hpa("h", kManaged)};
  pods_of("llama").push_back(pod("job-x", "llama-canary-77", true));
  sets_of("llama").push_back(replica_set("llama-canary-77", "llama-canary"));
  EXPECT_THAT(discover().variants.at(0).pods, SizeIs(2));
  // Without the sets the names tell.
  api.failures[paths::replica_sets("llm", "app=llama")] = {ErrorCode::kUnavailable, "later"};
  const auto found = discover();
  EXPECT_THAT(found.variants.at(0).pods, SizeIs(2));
  EXPECT_THAT(found.problems, problem("HorizontalPodAutoscaler llm/h", "later"));
}

TEST_F(DiscoveryTest, WherePodsCannotBeReadTheStatusCountsAndNothingBecomesZero) {
  hpas() = {hpa("h", kManaged)};
  api.failures[paths::pods("llm", "app=llama")] = {ErrorCode::kUnavailable, "503"};
  const auto found = discover();
  EXPECT_EQ(found.variants.at(0).ready_replicas, 2);
  EXPECT_THAT(found.variants.at(0).pods, IsEmpty());
  EXPECT_THAT(found.problems, problem("HorizontalPodAutoscaler llm/h", "503"));
}

TEST_F(DiscoveryTest, AListThatFailsLeavesNothingKnown) {
  hpas() = {hpa("h", kManaged)};
  for (const auto& path : {paths::horizontal_pod_autoscalers(""), paths::scaled_objects(""),
                           paths::deployments(""), paths::leader_worker_sets("")}) {
    api.failures = {{path, {ErrorCode::kUnavailable, "the server is starting"}}};
    const auto found = try_discover();
    ASSERT_FALSE(found) << path;
    EXPECT_THAT(found.error().message, HasSubstr("the server is starting"));
  }
  api.failures.clear();
  EXPECT_THAT(discover().variants, SizeIs(1));
}

TEST_F(DiscoveryTest, KindsThatTheClusterDoesNotHaveAreNoError) {
  hpas() = {hpa("h", kManaged)};
  api.lists.erase(paths::scaled_objects(""));
  api.lists.erase(paths::leader_worker_sets(""));
  EXPECT_THAT(discover().variants, SizeIs(1));
}

// llm-d/llm-d-autoscaling#1509: a kind that was installed later needed a restart.
TEST_F(DiscoveryTest, AKindThatAppearsLaterIsSeenInTheNextCycle) {
  api.lists.erase(paths::scaled_objects(""));
  EXPECT_THAT(discover().variants, IsEmpty());
  scaled() = {scaled_object("so", kManaged)};
  EXPECT_THAT(discover().variants, SizeIs(1));
}

TEST_F(DiscoveryTest, NodesTellKindsAndNumbersOfGpus) {
  hpas() = {hpa("h", kManaged)};
  api.lists[paths::nodes()] = {node("n1", "H100", 8), node("n2", "H100", 8), node("n3", "L4", 4),
                               node("n4", "H100", 8, false), node("n5", "H100", 8, true, true)};
  auto found = discover();
  ASSERT_TRUE(found.gpus);
  EXPECT_THAT(*found.gpus,
              ElementsAre(std::pair<const std::string, GpuKind>("H100", {16, "nvidia.com"}),
                          std::pair<const std::string, GpuKind>("L4", {4, "nvidia.com"})));
  // Its pods run on n1.
  EXPECT_EQ(found.variants.at(0).accelerator, "H100");
  const auto fingerprint = found.variants[0].fingerprint;
  // Without pods it is still what it was: what was learnt of it stays its own.
  pods_of("llama").clear();
  found = discover();
  EXPECT_EQ(found.variants.at(0).accelerator, "H100");
  EXPECT_EQ(found.variants[0].fingerprint, fingerprint);
  api.failures[paths::nodes()] = {ErrorCode::kUnavailable, "forbidden"};
  found = discover();
  EXPECT_FALSE(found.gpus) << "not known is not none";
  EXPECT_THAT(found.problems, problem("/api/v1/nodes", "GPUs and their kinds are not known"));
}

TEST_F(DiscoveryTest, AnAcceleratorThatNothingTellsIsNotResolved) {
  hpas() = {hpa("h", kManaged)};
  pods_of("llama").clear();
  api.lists[paths::nodes()] = {node("n1", "H100", 8), node("n2", "L4", 4)};
  EXPECT_EQ(discover().variants.at(0).accelerator, "");
}

// llm-d/llm-d-autoscaling#1358: workers of a LeaderWorkerSet were counted as replicas.
TEST_F(DiscoveryTest, AReplicaOfALeaderWorkerSetIsItsLeader) {
  api.lists[paths::leader_worker_sets("")] = {
      R"j({"metadata":{"namespace":"llm","name":"big"},"spec":{"replicas":2,"leaderWorkerTemplate":{
        "size":4,"workerTemplate":{"metadata":{"labels":{"llm-d.ai/role":"decode"}},
          "spec":{"containers":[{"image":"vllm:1",
          "resources":{"limits":{"nvidia.com/gpu":"8"}}}]}}}},"status":{"readyReplicas":1}})j"};
  const std::string leaders =
      "leaderworkerset.sigs.k8s.io/name=big,leaderworkerset.sigs.k8s.io/worker-index=0";
  api.lists[paths::pods("llm", leaders)] = {pod("big-0", "", true), pod("big-1", "", true)};
  hpas() = {R"j({"metadata":{"namespace":"llm","name":"h","annotations":{"llm-d.ai/managed":"true",
    "llm-d.ai/model-id":"m"}},"spec":{"maxReplicas":3,"scaleTargetRef":{
    "apiVersion":"leaderworkerset.x-k8s.io/v1","kind":"LeaderWorkerSet","name":"big"}}})j"};
  const auto found = discover();
  EXPECT_THAT(found.problems, IsEmpty());
  ASSERT_THAT(found.variants, SizeIs(1));
  const auto& v = found.variants[0];
  EXPECT_EQ(v.gpus_per_replica, 32);
  EXPECT_EQ(v.role, "decode");
  EXPECT_EQ(v.spec_replicas, 2);
  EXPECT_EQ(v.ready_replicas, 1);  // a leader is ready before its workers
  EXPECT_THAT(v.pods, SizeIs(2));
  EXPECT_EQ(v.target.scale_path(),
            "/apis/leaderworkerset.x-k8s.io/v1/namespaces/llm/leaderworkersets/big/scale");
}

TEST_F(DiscoveryTest, APausedScaledObjectKeepsItsReplicas) {
  scaled() = {
      scaled_object("so", std::string(kManaged) + R"j(,"autoscaling.keda.sh/paused":"true")j")};
  auto found = discover();
  EXPECT_TRUE(found.variants.at(0).paused);
  EXPECT_EQ(found.variants[0].min, 2);
  EXPECT_EQ(found.variants[0].max, 2);
  scaled() = {scaled_object(
      "so", std::string(kManaged) + R"j(,"autoscaling.keda.sh/paused-replicas":"5")j")};
  found = discover();
  EXPECT_EQ(found.variants.at(0).min, 5);
  EXPECT_EQ(found.variants[0].max, 5);
}

TEST_F(DiscoveryTest, TheOldResourceIsRefusedWithTheStepThatReplacesIt) {
  api.lists[paths::old_variants("")] = {
      R"j({"metadata":{"namespace":"llm","name":"old"},"spec":{"modelID":"meta/llama's",
          "variantCost":"80.0","scaleTargetRef":{"kind":"Deployment","name":"llama"}}})j"};
  hpas() = {hpa("llama-hpa", "")};
  auto found = discover();
  EXPECT_THAT(found.variants, IsEmpty());
  EXPECT_THAT(found.problems,
              problem("VariantAutoscaling llm/old",
                      "kubectl annotate hpa -n llm llama-hpa llm-d.ai/managed=true "
                      "llm-d.ai/model-id='meta/llama'\\''s' llm-d.ai/variant-cost=80.0"));
  hpas() = {hpa("llama-hpa", kManaged)};
  EXPECT_THAT(discover().problems, problem("VariantAutoscaling llm/old", "annotated already"));
  hpas().clear();
  EXPECT_THAT(discover().problems, problem("VariantAutoscaling llm/old", "nothing scales"));
}

TEST_F(DiscoveryTest, NamedNamespacesAreReadOneByOne) {
  config.namespaces = {"llm", "two"};
  for (const auto& ns : config.namespaces) {
    api.lists[paths::horizontal_pod_autoscalers(ns)];
    api.lists[paths::deployments(ns)];
  }
  api.lists[paths::horizontal_pod_autoscalers("llm")] = {hpa("h", kManaged)};
  api.lists[paths::deployments("llm")] = {deployment("llama", 2, 2)};
  EXPECT_THAT(discover().variants, SizeIs(1));
  EXPECT_FALSE(api.was_asked(paths::deployments("")));
  EXPECT_FALSE(api.was_asked(paths::namespaces()));
}

TEST_F(DiscoveryTest, AnswersMayComeLaterAndFewQuestionsAreOpenAtOnce) {
  for (int i = 0; i < 30; ++i) {
    const auto name = fmt::format("d{}", i);
    deployments().push_back(deployment(name, 1, 1));
    hpas().push_back(hpa(fmt::format("h{}", i), kManaged, name));
    pods_of(name);
    sets_of(name);
  }
  api.hold = true;
  std::size_t most = 0;
  Result<Inventory> result = fail(ErrorCode::kInternal, "no answer");
  discovery = Discovery::make(loop, api, config);
  discovery->discover([&](Result<Inventory> got) { result = std::move(got); });
  while (api.held() > 0) {
    most = std::max(most, api.held());
    api.answer_next();
  }
  loop.run_for(std::chrono::seconds(1));
  ASSERT_TRUE(result);
  EXPECT_THAT(result->variants, SizeIs(30));
  EXPECT_LE(most, 8U);
}

TEST_F(DiscoveryTest, ItMayGoAwayWhileItAsks) {
  api.hold = true;
  discovery = Discovery::make(loop, api, config);
  discovery->discover([](const Result<Inventory>&) { FAIL() << "nobody waits"; });
  discovery.reset();
  loop.run_for(std::chrono::seconds(1));
}

TEST_F(DiscoveryTest, DocumentsOfAnotherShapeAreProblemsOfTheirOwn) {
  hpas() = {"[]", "{", R"j({"metadata":{"name":7}})j", hpa("h", kManaged)};
  const auto found = discover();
  EXPECT_THAT(found.variants, SizeIs(1));
  EXPECT_THAT(found.problems, SizeIs(3));
}

}  // namespace
}  // namespace tailrace::kubernetes
