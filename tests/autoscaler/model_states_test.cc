// From what was measured and what runs to what a cycle decides from.
#include "tailrace/autoscaler/model_states.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tailrace::autoscaler {
namespace {

using observe::Freshness;
using observe::Measured;

constexpr double kNow = 1'000'000;

Measured known(double value) {
  Measured out;
  out.value = value;
  out.metric = "a_series";
  return out;
}

observe::PodReading pod(const std::string& name, double rate) {
  observe::PodReading out;
  out.pod = out.replica = name;
  out.freshness = Freshness::kFresh;
  out.time_s = kNow - 3;
  out.rate = known(rate);
  out.completed = known(60 * rate);
  out.input_tokens = known(500);
  out.output_tokens = known(100);
  out.ttft_ms = known(80);
  out.itl_ms = known(12);
  out.running = known(6);
  out.waiting = known(2);
  out.prefix_hit = known(0.3);
  return out;
}

KnownVariant variant(const std::string& name, const std::vector<std::string>& pods) {
  KnownVariant out;
  out.key = {"llm", "llama"};
  out.name = name;
  out.current = static_cast<std::int64_t>(pods.size());
  for (const auto& one : pods) out.pods.push_back({one, ""});
  return out;
}

observe::Reading reading_of(const std::vector<KnownVariant>& variants) {
  observe::Reading out;
  out.time_s = kNow;
  for (const auto& v : variants) out.variants.push_back({v.key.ns, v.key.model, v.name, {}, {}});
  return out;
}

observe::GatewayReading gateway(const std::string& instance, double arrivals, double waiting) {
  observe::GatewayReading out;
  out.kind = "tailrace gateway";
  out.ns = "llm";
  out.model = "llama";
  out.instance = instance;
  out.freshness = Freshness::kFresh;
  out.arrivals_per_s = known(arrivals);
  out.waiting_requests = known(waiting);
  out.waiting_tokens = known(waiting * 200);
  return out;
}

TEST(ModelStates, VariantsOfAModelStandTogetherInTheirOrder) {
  std::vector<KnownVariant> variants{variant("h100", {"a"}), variant("other", {}),
                                     variant("l4", {"b"})};
  variants[1].key = {"llm", "qwen"};
  variants[2].priority = 5;
  const auto models = model_states(reading_of(variants), variants);
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0].key.model, "llama");
  ASSERT_EQ(models[0].variants.size(), 2U);
  EXPECT_EQ(models[0].variants[1].name, "l4");
  EXPECT_EQ(models[0].priority, 5);
  EXPECT_EQ(models[1].variants[0].name, "other");
}

TEST(ModelStates, EverythingMeasuredReachesTheObservation) {
  const std::vector variants{variant("h100", {"a"})};
  auto reading = reading_of(variants);
  reading.variants[0].pods = {pod("a", 2)};
  const auto models = model_states(reading, variants);
  ASSERT_EQ(models[0].variants[0].pods.size(), 1U);
  const auto& o = models[0].variants[0].pods[0];
  EXPECT_EQ(o.pod, "a");
  EXPECT_EQ(o.time_s, kNow - 3);
  EXPECT_EQ(o.rate_per_s, 2);
  EXPECT_EQ(o.requests, 120);
  EXPECT_EQ(o.input_tokens, 500);
  EXPECT_EQ(o.output_tokens, 100);
  EXPECT_EQ(o.ttft_ms, 80);
  EXPECT_EQ(o.itl_ms, 12);
  EXPECT_EQ(o.running, 6);
  EXPECT_EQ(o.waiting, 2);
  EXPECT_EQ(o.prefix_hit, 0.3);
  EXPECT_FALSE(o.output_cv) << "no histogram, no spread";
}

TEST(ModelStates, TheGrowthOfAGapCountsWhereAReplicaIsOneEngine) {
  const std::vector variants{variant("h100", {"a"})};
  auto reading = reading_of(variants);
  auto known_pace = pod("a", 2);
  known_pace.itl_per_stream_ratio = known(0.05);
  known_pace.itl_per_stream_error = known(0.2);
  const auto observed = [&](const std::vector<observe::PodReading>& pods) {
    reading.variants[0].pods = pods;
    return model_states(reading, variants)[0].variants[0].pods[0];
  };
  EXPECT_DOUBLE_EQ(observed({known_pace}).itl_per_sequence_ms.value(), 0.05 * 12);
  EXPECT_EQ(observed({known_pace}).itl_per_sequence_error, 0.2);
  EXPECT_FALSE(observed({pod("a", 2)}).itl_per_sequence_ms);
  EXPECT_FALSE(observed({pod("a", 2)}).itl_per_sequence_error);

  auto without = known_pace;
  without.itl_ms = {};
  EXPECT_FALSE(observed({without}).itl_per_sequence_ms);
  EXPECT_FALSE(observed({without}).itl_per_sequence_error);
  auto stale = known_pace;
  stale.freshness = Freshness::kStale;
  EXPECT_FALSE(observed({stale}).itl_per_sequence_ms);
  auto second = known_pace;
  second.pod = "a:8001";
  EXPECT_FALSE(observed({known_pace, second}).itl_per_sequence_ms) << "two engines of one replica";
}

TEST(ModelStates, TheSpreadOfLengthsComesFromTheHistogram) {
  const std::vector variants{variant("h100", {"a"})};
  auto reading = reading_of(variants);
  reading.variants[0].pods = {pod("a", 2)};
  // Half of the answers near 10 tokens, half near 190: mean 100, standard deviation about 90.
  reading.variants[0].pods[0].output_buckets = {
      {9, 0}, {11, 60}, {180, 60}, {200, 120}, {HUGE_VAL, 120}};
  const auto models = model_states(reading, variants);
  ASSERT_TRUE(models[0].variants[0].pods[0].output_cv);
  EXPECT_NEAR(*models[0].variants[0].pods[0].output_cv, 0.9, 0.05);
}

TEST(ModelStates, StaleAndSilentPodsAreUnknownAndNeverIdle) {
  const std::vector variants{variant("h100", {"a", "b", "c"})};
  auto reading = reading_of(variants);
  reading.variants[0].pods = {pod("a", 2), pod("b", 0)};
  reading.variants[0].pods[1].freshness = Freshness::kStale;
  reading.variants[0].silent = {"c"};
  const auto models = model_states(reading, variants);
  const auto& pods = models[0].variants[0].pods;
  ASSERT_EQ(pods.size(), 3U);
  EXPECT_EQ(pods[0].rate_per_s, 2);
  for (const std::size_t i : {1U, 2U}) {
    EXPECT_FALSE(pods[i].rate_per_s) << pods[i].pod;
    EXPECT_FALSE(pods[i].waiting) << pods[i].pod;
  }
}

TEST(ModelStates, AReadingThatIsMissingAltogetherLeavesEveryPodUnknown) {
  const std::vector variants{variant("h100", {"a", "b"})};
  const auto models = model_states(observe::Reading{}, variants);
  ASSERT_EQ(models[0].variants[0].pods.size(), 2U);
  EXPECT_FALSE(models[0].variants[0].pods[0].rate_per_s);
  EXPECT_EQ(models[0].variants[0].current, 2);
}

// A rolling update once counted its surge pods, and grew to 120 pods without load.
TEST(Kubernetes, Issues72775And138505_SurgeAndLeavingPodsAreNoReplicas) {
  const std::vector variants{variant("h100", {"a"})};
  auto reading = reading_of(variants);
  auto surge = pod("surge", 3), starting = pod("starting", 0), leaving = pod("leaving", 0);
  for (auto* extra : {&surge, &starting, &leaving}) extra->expected = false;
  starting.rate.value.reset();
  reading.variants[0].pods = {pod("a", 2), surge, starting, leaving};
  const auto models = model_states(reading, variants);
  EXPECT_EQ(models[0].variants[0].current, 1);
  // What the surge pod takes is demand; of the others nothing is needed.
  ASSERT_EQ(models[0].variants[0].pods.size(), 2U);
  EXPECT_EQ(models[0].variants[0].pods[1].pod, "surge");
}

TEST(ModelStates, EnginesOfOnePodAreOneReplica) {
  const std::vector variants{variant("h100", {"a"})};
  auto reading = reading_of(variants);
  auto one = pod("a", 2), two = pod("a", 6);
  one.pod = "a:8000", two.pod = "a:8001";
  two.output_tokens = known(200);
  one.output_buckets = two.output_buckets = {{100, 50}, {1'000, 100}};
  reading.variants[0].pods = {one, two};
  auto models = model_states(reading, variants);
  ASSERT_EQ(models[0].variants[0].pods.size(), 1U);
  const auto& o = models[0].variants[0].pods[0];
  EXPECT_EQ(o.pod, "a");
  EXPECT_EQ(o.rate_per_s, 8);
  EXPECT_EQ(o.running, 12);
  EXPECT_EQ(o.output_tokens, (2 * 100 + 6 * 200) / 8.0);
  EXPECT_TRUE(o.output_cv);
  reading.variants[0].pods[1].rate.value.reset();
  models = model_states(reading, variants);
  EXPECT_FALSE(models[0].variants[0].pods[0].rate_per_s) << "one of two is unknown";
}

TEST(Backlog, OfGatewaysOfOneKindAddsUpAndOfSeveralKindsTheLargestCounts) {
  const std::vector variants{variant("h100", {"a"})};
  auto reading = reading_of(variants);
  EXPECT_FALSE(model_states(reading, variants)[0].gateway) << "no gateway, not known";
  reading.gateways = {gateway("g-0", 3, 10), gateway("g-1", 4, 5)};
  for (auto& one : reading.gateways) one.relayed_per_s = known(2);
  auto picker = gateway("epp-0", 6.5, 1);
  picker.kind = "llm-d endpoint picker";
  reading.gateways.push_back(picker);
  const auto model = model_states(reading, variants)[0];
  ASSERT_TRUE(model.gateway);
  EXPECT_EQ(model.gateway->requests, 15);
  EXPECT_EQ(model.gateway->output_tokens, 3'000);
  EXPECT_EQ(model.gateway->arrivals_per_s, 7);
  EXPECT_EQ(model.gateway->relayed_per_s, 4);
}

TEST(Backlog, ArrivalsOfAdaptersAreTheBaseModels) {
  std::vector variants{variant("h100", {"a"})};
  auto reading = reading_of(variants);
  reading.gateways = {gateway("g-0", 3, 10), gateway("g-0", 2, 1)};
  reading.gateways[1].model = "llama-sql-lora";
  EXPECT_EQ(model_states(reading, variants)[0].gateway->arrivals_per_s, 3);
  variants[0].model_aliases = {"llama-sql-lora"};
  EXPECT_EQ(model_states(reading, variants)[0].gateway->arrivals_per_s, 5);
  EXPECT_EQ(model_states(reading, variants)[0].gateway->requests, 11);
}

TEST(Backlog, OfAnotherNamespaceIsNotOurs) {
  const std::vector variants{variant("h100", {"a"})};
  auto reading = reading_of(variants);
  reading.gateways = {gateway("g-0", 3, 10)};
  reading.gateways[0].ns = "team-b";
  EXPECT_FALSE(model_states(reading, variants)[0].gateway);
}

TEST(Backlog, OfAStaleGatewayIsUnknown) {
  const std::vector variants{variant("h100", {"a"})};
  auto reading = reading_of(variants);
  reading.gateways = {gateway("g-0", 3, 10)};
  reading.gateways[0].freshness = Freshness::kStale;
  EXPECT_FALSE(model_states(reading, variants)[0].gateway);
}

TEST(ModelStates, LengthsThatAnEngineDoesNotCountAreTheGateways) {
  const std::vector variants{variant("trt", {"a"})};
  auto reading = reading_of(variants);
  reading.variants[0].pods = {pod("a", 2)};
  reading.variants[0].pods[0].output_tokens.value.reset();
  reading.gateways = {gateway("g-0", 2, 0)};
  reading.gateways[0].output_tokens = known(150);
  reading.gateways[0].output_cv = known(1.2);
  const auto models = model_states(reading, variants);
  EXPECT_EQ(models[0].variants[0].pods[0].input_tokens, 500);
  EXPECT_EQ(models[0].variants[0].pods[0].output_tokens, 150);
  EXPECT_EQ(models[0].variants[0].pods[0].output_cv, 1.2);
}

TEST(ModelStates, MemoryForContextIsTheLeastThatAPodHas) {
  std::vector variants{variant("h100", {"a", "b"})};
  auto reading = reading_of(variants);
  reading.variants[0].pods = {pod("a", 2), pod("b", 2)};
  reading.variants[0].pods[0].kv_tokens = known(80'000);
  reading.variants[0].pods[1].kv_tokens = known(64'000);
  EXPECT_EQ(model_states(reading, variants)[0].variants[0].limits.kv_tokens, 64'000);
  variants[0].limits.kv_tokens = 50'000;
  EXPECT_EQ(model_states(reading, variants)[0].variants[0].limits.kv_tokens, 50'000)
      << "what the operator says counts";
}

TEST(ModelStates, AnObserverLooksForWhatIsKnownToRun) {
  auto known_variant = variant("h100", {"a"});
  known_variant.model_aliases = {"chat"};
  known_variant.engine = observe::EngineKind::kSglang;
  const std::vector variants{known_variant};
  const auto expected = expected_variants(variants);
  ASSERT_EQ(expected.size(), 1U);
  EXPECT_EQ(expected[0].ns, "llm");
  EXPECT_EQ(expected[0].model_aliases, std::vector<std::string>{"chat"});
  EXPECT_EQ(expected[0].engine, observe::EngineKind::kSglang);
  EXPECT_EQ(expected[0].pods[0].name, "a");
}

}  // namespace
}  // namespace tailrace::autoscaler
