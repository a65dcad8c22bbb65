// Which configurations are taken, which are refused, and whom a wrong entry holds.
#include "tailrace/capacity/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "capacity/support/vectors.h"
#include "tailrace/core/text.h"

namespace tailrace::capacity {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const ModelKey kLlama{"prod", "llama"};

Config entries(std::vector<ConfigEntry> all) {
  return Config::of_entries(all, "config");
}

Config with_entry(const std::string& yaml) {
  return entries({{"default", "", 0}, {"one", yaml, 0}});
}

std::string message(const Config& config) {
  std::string all;
  for (const auto& problem : config.problems()) all += problem.message + "\n";
  return all;
}

constexpr const char* kManifest = R"(apiVersion: v1
kind: ConfigMap
metadata:
  name: wva-queueing-model-config
data:
  default: |
    sloMultiplier: 2.5
    tuningEnabled: true
  llama-prod: |
    model_id: "llama"
    namespace: "prod"
    targetTTFT: 500.0
    targetITL: 50.0
  mistral: |
    model_id: "mistral"
    namespace: "staging"
    sloMultiplier: 4.0
)";

TEST(SpecSection1, AMapWithoutDefaultIsInactiveAndSaysSo) {
  const auto config = entries({{"one", "model_id: llama\nnamespace: prod\n", 0}});
  EXPECT_FALSE(config.active());
  const auto settings = config.settings_of(kLlama);
  ASSERT_FALSE(settings);
  EXPECT_THAT(settings.error().message, HasSubstr("no `default` entry"));
}

TEST(SpecSection1, AnEmptyFileOrOneWithoutDataIsInactive) {
  for (const char* text : {"", "# nothing\n", "kind: ConfigMap\n", "kind: ConfigMap\ndata:\n"}) {
    const auto config = Config::parse(text, "file");
    ASSERT_TRUE(config) << text;
    EXPECT_FALSE(config->active()) << text;
  }
}

TEST(SpecSection2, AManifestGivesDefaultsAndOverrides) {
  const auto config = Config::parse(kManifest, "file");
  ASSERT_TRUE(config);
  EXPECT_THAT(config->problems(), IsEmpty());
  EXPECT_TRUE(config->active());
  const auto llama = config->settings_of(kLlama);
  ASSERT_TRUE(llama);
  EXPECT_EQ(llama->targets.ttft_ms, 500);
  EXPECT_EQ(llama->targets.itl_ms, 50);
  EXPECT_EQ(llama->slo_multiplier, 2.5);
  EXPECT_TRUE(llama->explicit_slo());
  EXPECT_EQ(config->settings_of({"staging", "mistral"})->slo_multiplier, 4);
  const auto other = config->settings_of({"staging", "llama"});
  ASSERT_TRUE(other);
  EXPECT_EQ(other->slo_multiplier, 2.5);
  EXPECT_FALSE(other->explicit_slo());
}

TEST(SpecSection2, APlainFileOfMappingsSaysTheSame) {
  const auto config = Config::parse(
      "default:\n  sloMultiplier: 2.5\n"
      "llama-prod:\n  model_id: llama\n  namespace: prod\n  targetTTFT: 500\n  targetITL: 50\n",
      "file");
  ASSERT_TRUE(config);
  EXPECT_THAT(config->problems(), IsEmpty());
  EXPECT_EQ(config->settings_of(kLlama)->targets.ttft_ms, 500);
  EXPECT_EQ(config->settings_of(kLlama)->slo_multiplier, 2.5);
}

TEST(SpecSection2, DefaultsAreThoseOfTheFieldReference) {
  const auto settings = entries({{"default", "", 0}}).settings_of(kLlama);
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->slo_multiplier, 3.0);
  EXPECT_EQ(settings->targets.ttft_ms, 0);
  EXPECT_EQ(settings->targets.itl_ms, 0);
}

TEST(SpecSection2, TheMultiplierMustBeAboveOneAndFinite) {
  for (const char* k :
       {"1", "1.0", "0.5", "0", "-3", "nan", ".nan", "inf", ".inf", "1e400", "three"}) {
    const auto config =
        with_entry(fmt::format("model_id: llama\nnamespace: prod\nsloMultiplier: {}", k));
    EXPECT_THAT(message(config), HasSubstr("sloMultiplier")) << k;
    EXPECT_FALSE(config.settings_of(kLlama)) << k;
  }
  EXPECT_EQ(with_entry("model_id: llama\nnamespace: prod\nsloMultiplier: 1.01")
                .settings_of(kLlama)
                ->slo_multiplier,
            1.01);
}

TEST(SpecSection2, TuningMustBeEnabled) {
  const auto config = with_entry("model_id: llama\nnamespace: prod\ntuningEnabled: false");
  EXPECT_THAT(message(config), HasSubstr("without tuning no parameters are ever learnt"));
  EXPECT_FALSE(config.settings_of(kLlama));
  EXPECT_TRUE(config.settings_of({"prod", "other"}));
  EXPECT_THAT(with_entry("model_id: llama\nnamespace: prod\ntuningEnabled: true").problems(),
              IsEmpty());
}

TEST(SpecSection2, BothTargetsOrNeither) {
  const std::string name = "model_id: llama\nnamespace: prod\n";
  EXPECT_THAT(message(with_entry(name + "targetTTFT: 500")), HasSubstr("targetITL is missing"));
  EXPECT_THAT(message(with_entry(name + "targetITL: 50")), HasSubstr("targetTTFT is missing"));
  EXPECT_THAT(message(with_entry(name + "targetTTFT: 500\ntargetITL: 0")),
              HasSubstr("targetITL is 0"));
  EXPECT_THAT(with_entry(name + "targetTTFT: 0\ntargetITL: 0").problems(), IsEmpty());
  EXPECT_THAT(with_entry(name + "targetTTFT: 500\ntargetITL: 50").problems(), IsEmpty());
}

TEST(SpecSection2, HalfAPairIsWrongEvenWhereDefaultHasTheOther) {
  const auto config = entries({{"default", "targetTTFT: 900\ntargetITL: 90", 0},
                               {"one", "model_id: llama\nnamespace: prod\ntargetTTFT: 500", 0}});
  EXPECT_FALSE(config.settings_of(kLlama));
  EXPECT_EQ(config.settings_of({"prod", "other"})->targets.ttft_ms, 900);
}

TEST(SpecSection2, ZeroTargetsInAnEntryInferAgainWhatDefaultSets) {
  const auto config =
      entries({{"default", "targetTTFT: 900\ntargetITL: 90", 0},
               {"one", "model_id: llama\nnamespace: prod\ntargetTTFT: 0\ntargetITL: 0", 0}});
  EXPECT_FALSE(config.settings_of(kLlama)->explicit_slo());
}

TEST(SpecSection2, NegativeOrUnnumberedTargetsAreWrong) {
  for (const char* bad : {"-1", "nan", ".inf", "soon", "[1]", "{a: 1}"}) {
    const auto config = with_entry(
        fmt::format("model_id: llama\nnamespace: prod\ntargetTTFT: {}\ntargetITL: 50", bad));
    EXPECT_THAT(message(config), HasSubstr("targetTTFT")) << bad;
    EXPECT_FALSE(config.settings_of(kLlama)) << bad;
  }
}

TEST(SpecSection2, AModelIsNamedByIdAndNamespaceTogether) {
  const auto half = with_entry("model_id: llama\ntargetTTFT: 500\ntargetITL: 50");
  EXPECT_THAT(message(half), HasSubstr("namespace is missing"));
  EXPECT_FALSE(half.settings_of(kLlama)) << "it may have meant this one";
  EXPECT_FALSE(half.settings_of({"staging", "llama"}));
  EXPECT_TRUE(half.settings_of({"prod", "other"}));
  const auto other_half = with_entry("namespace: prod\ntargetTTFT: 500\ntargetITL: 50");
  EXPECT_THAT(message(other_half), HasSubstr("model_id is missing"));
  EXPECT_FALSE(other_half.settings_of(kLlama));
  EXPECT_TRUE(other_half.settings_of({"staging", "llama"}));
}

TEST(SpecSection2, AnEntryThatNamesNoModelIsAllowedAndDoesNothing) {
  const auto config = with_entry("sloMultiplier: 5");
  EXPECT_THAT(config.problems(), IsEmpty());
  EXPECT_THAT(config.notes(), SizeIs(1));
  EXPECT_EQ(config.settings_of(kLlama)->slo_multiplier, 3);
}

TEST(SpecSection2, DefaultNamesNoModel) {
  const auto config = entries({{"default", "model_id: llama\nnamespace: prod", 0}});
  EXPECT_THAT(message(config), HasSubstr("unknown key \"model_id\""));
}

TEST(Config, TwoEntriesForOneModelHoldItRatherThanLetChanceDecide) {
  const auto config = entries({{"default", "", 0},
                               {"a", "model_id: llama\nnamespace: prod\nsloMultiplier: 2", 0},
                               {"b", "model_id: llama\nnamespace: prod\nsloMultiplier: 4", 0}});
  EXPECT_THAT(message(config), HasSubstr("entries \"a\" and \"b\" both name model \"llama\""));
  ASSERT_FALSE(config.settings_of(kLlama));
  EXPECT_THAT(config.settings_of(kLlama).error().message, HasSubstr("keep one"));
}

TEST(Config, AWrongEntryNeverTakesTheOthersWithIt) {
  const auto config = entries({{"bad", "model_id: llama\nnamespace: prod\nsloMultiplier: 1", 0},
                               {"default", "sloMultiplier: 2", 0},
                               {"torn", "model_id: \"gpt\"  # x\nnamespace: prod\n  : [", 0},
                               {"good", "model_id: qwen\nnamespace: prod\nsloMultiplier: 4", 0}});
  EXPECT_THAT(config.problems(), SizeIs(2));
  EXPECT_FALSE(config.settings_of(kLlama));
  EXPECT_FALSE(config.settings_of({"prod", "gpt"})) << "no YAML, but its model can be read";
  EXPECT_EQ(config.settings_of({"prod", "qwen"})->slo_multiplier, 4);
  EXPECT_EQ(config.settings_of({"prod", "new"})->slo_multiplier, 2);
}

TEST(Config, AWrongDefaultHoldsEveryModelBecauseAllBuildOnIt) {
  const auto config = entries(
      {{"default", "sloMultiplier: 1", 0}, {"good", "model_id: llama\nnamespace: prod", 0}});
  EXPECT_TRUE(config.active());
  ASSERT_FALSE(config.settings_of(kLlama));
  EXPECT_THAT(config.settings_of(kLlama).error().message, HasSubstr("sloMultiplier"));
}

TEST(Config, AnUnknownKeyNamesTheNearestOne) {
  const auto config = with_entry("model_id: llama\nnamespace: prod\ntargetTTF: 500");
  EXPECT_THAT(message(config), HasSubstr("did you mean \"targetTTFT\"?"));
  EXPECT_FALSE(config.settings_of(kLlama));
}

TEST(Config, AMessageNamesTheLineOfTheFile) {
  const auto config = Config::parse(std::string(kManifest) + "    sloMultipler: 5\n", "file");
  ASSERT_TRUE(config);
  ASSERT_THAT(config->problems(), SizeIs(1));
  EXPECT_THAT(config->problems()[0].message, HasSubstr("file:18: mistral.sloMultipler"));
}

TEST(Config, OurKeysReachTheSettings) {
  const auto config = with_entry(R"(model_id: llama
namespace: prod
targetTTFT: 500
targetITL: 50
targetE2E: 20000
percentile: 90
estimator: windowed
priority: 2
drainTime: 30s
scaleUpThreshold: 0.9
scaleDownThreshold: 0.5
transientDelay: 3m
freezeSLO: false
variants:
  big: {cost: 40, min: 1, max: 8, maxBatch: 512, kvTokens: 400000, gpus: 4, accelerator: H100}
)");
  ASSERT_THAT(config.problems(), IsEmpty()) << message(config);
  const auto s = *config.settings_of(kLlama);
  EXPECT_EQ(s.targets.e2e_ms, 20000);
  EXPECT_EQ(s.targets.statistic, queueing::Statistic::kP90);
  EXPECT_EQ(s.drain_s, 30);
  EXPECT_EQ(s.transient_delay_s, 180);
  EXPECT_FALSE(s.freeze_slo);
  Variant variant;
  s.variants.at("big").apply_to(variant);
  EXPECT_EQ(variant.cost, 40);
  EXPECT_EQ(variant.max, 8);
  EXPECT_EQ(variant.limits.max_num_seqs, 512);
  EXPECT_EQ(variant.limits.kv_tokens, 400000);
  EXPECT_EQ(variant.gpus_per_replica, 4);
  EXPECT_EQ(variant.accelerator, "H100");
}

TEST(Config, ContradictionsAreNamed) {
  const std::string name = "model_id: llama\nnamespace: prod\n";
  EXPECT_THAT(message(with_entry(name + "percentile: 99\nlatencyModel: chain")),
              HasSubstr("needs latencyModel corrected"));
  EXPECT_THAT(message(with_entry(name + "scaleUpThreshold: 0.6\nscaleDownThreshold: 0.7")),
              HasSubstr("not below scaleUpThreshold"));
  EXPECT_THAT(message(with_entry(name + "variants: {a: {min: 5, max: 2}}")),
              HasSubstr("more than max 2"));
  EXPECT_THAT(message(with_entry(name + "drainTime: 0")), HasSubstr("infinitely many"));
}

constexpr const char* kFleet = R"(scaleToZero: true
retention: 15m
optimizer: greedy
rescale: true
totalGpus: [H100=16, A100=-1]
limitToNodes: true
quotas:
  prod: {gpus: [H100=8]}
stabilisation: {downWindow: 10m, upPods: off, downPods: 2}
variants:
  prefill: {role: prefill}
)";

TEST(Config, WhatHoldsForAllModelsStandsInDefault) {
  const auto config = entries({{"default", kFleet, 0}});
  ASSERT_THAT(config.problems(), IsEmpty()) << message(config);
  const auto& fleet = config.fleet();
  EXPECT_EQ(fleet.optimizer.kind, OptimizerKind::kGreedyByScore);
  EXPECT_TRUE(fleet.optimizer.rescale);
  EXPECT_TRUE(fleet.limit_to_nodes);
  ASSERT_TRUE(fleet.total);
  EXPECT_EQ(fleet.total->available.at("H100"), 16);
  EXPECT_EQ(fleet.total->available.at("A100"), -1);
  EXPECT_EQ(fleet.total->quota.at("prod").at("H100"), 8);
  ASSERT_TRUE(fleet.stabilisation);
  EXPECT_EQ(fleet.stabilisation->down_window_s, 600);
  EXPECT_FALSE(fleet.stabilisation->up.pods);
  EXPECT_EQ(fleet.stabilisation->up.percent, 100);
  EXPECT_EQ(fleet.stabilisation->down.pods, 2);
  EXPECT_TRUE(fleet.stabilisation->check());
  const auto s = *config.settings_of(kLlama);
  EXPECT_TRUE(s.scale_to_zero);
  EXPECT_EQ(s.retention_s, 900);
  Variant variant;
  s.variants.at("prefill").apply_to(variant);
  EXPECT_EQ(variant.role, Role::kPrefill);
}

TEST(Config, WithoutItsKeysTheFleetHasNoLimitsAndNoWindows) {
  const auto config = entries({{"default", "", 0}});
  EXPECT_EQ(config.fleet().optimizer.kind, OptimizerKind::kCostAware);
  EXPECT_FALSE(config.fleet().total);
  EXPECT_FALSE(config.fleet().stabilisation);
  EXPECT_FALSE(config.settings_of(kLlama)->scale_to_zero);
}

TEST(Config, AnEmptySectionStabilisationIsThatOfTheDefaults) {
  const auto config = entries({{"default", "stabilisation: {}", 0}});
  ASSERT_TRUE(config.fleet().stabilisation) << message(config);
  EXPECT_EQ(config.fleet().stabilisation->down_window_s, 300);
  EXPECT_EQ(config.fleet().stabilisation->up.pods, 4);
}

TEST(Config, AModelsEntryMayNotSpeakForTheFleet) {
  const std::string name = "model_id: llama\nnamespace: prod\n";
  for (const char* keys : {"optimizer: greedy", "rescale: true", "totalGpus: [H100=1]",
                           "quotas: {prod: {gpus: [H100=1]}}", "stabilisation: {downWindow: 1m}"}) {
    const auto config = with_entry(name + keys);
    EXPECT_THAT(message(config), HasSubstr("move it to the entry `default`")) << keys;
    EXPECT_FALSE(config.settings_of(kLlama)) << keys;
    EXPECT_TRUE(config.settings_of({"prod", "other"})) << keys;
  }
}

TEST(Config, WrongFleetKeysNameValueAndRemedy) {
  const std::pair<const char*, const char*> cases[] = {
      {"optimizer: magic", "use cost-aware, greedy"},
      {"totalGpus: [H100]", "is not KIND=NUMBER, such as H100=8"},
      {"totalGpus: [H100=8, H100=9]", "of a kind that stands twice; keep one"},
      {"quotas: {prod: {gpus: [H100=8]}}", "needs totalGpus"},
      {"rescale: true", "needs optimizer greedy"},
      {"retention: 0", "is not a duration from 1s to 24h"},
      {"stabilisation: {upPods: -1}", "is not a whole number from 0 to 1e9, or off"},
      {"stabilisation: {downPercent: nan}", "is not a number from 0 to 1e9, or off"},
      {"stabilisation: {upPeriod: 0}", "is not a duration from 1s to 24h"},
      {"stabilisation: {downWindows: 5m}", "did you mean \"downWindow\"?"},
      {"variants: {a: {role: both, min: 1}, b: {role: chief}}", "use both, prefill or decode"},
  };
  for (const auto& [yaml, words] : cases) {
    EXPECT_THAT(message(entries({{"default", yaml, 0}})), HasSubstr(words)) << yaml;
  }
}

TEST(Config, EveryKeyIsInTheDocs) {
  const auto docs =
      core::read_file(std::string(TAILRACE_SOURCE_DIR) + "/docs/capacity.md", std::size_t{1} << 20);
  ASSERT_TRUE(docs);
  std::string reference = config_reference();
  reference.erase(0, reference.find_first_not_of('\n'));
  EXPECT_NE(docs->find(reference), std::string::npos)
      << "docs/capacity.md is out of date; paste what `tailrace capacity --keys` prints";
}

TEST(Config, AFileThatIsNoConfigMapIsRefusedAsAWhole) {
  for (const char* text :
       {"kind: Deployment\n", "- a\n", "kind: ConfigMap\ndata: [1]\n", "a: [", "a: &x 1\n"}) {
    EXPECT_FALSE(Config::parse(text, "file")) << text;
  }
}

TEST(Config, ReferenceVectorsOfValidation) {
  const auto rows = ::tailrace::testing::queueing_vectors("J");
  if (rows.empty()) GTEST_SKIP() << "no reference vectors; set TAILRACE_SHARED";
  int seen = 0;
  for (const auto& row : rows) {
    const int n = std::atoi(row.id.c_str() + 1);
    if (n == 26) {
      EXPECT_EQ((ModelKey{std::string(row.inputs.at("namespace").as_string()),
                          std::string(row.inputs.at("model").as_string())}
                     .text()),
                row.expected.at("key").as_string());
      ++seen;
    }
    if (n < 17 || n > 25) continue;
    // `default` takes no model, any other entry everything.
    const bool named = row.inputs.contains("model_id") || row.inputs.contains("namespace");
    std::string yaml;
    for (const auto& [key, value] : row.inputs) {
      yaml += std::string(key) + ": " + boost::json::serialize(value) + "\n";
    }
    const auto config = entries({{named ? "one" : "default", yaml, 0}});
    EXPECT_EQ(config.problems().empty(), row.expected.at("valid").as_bool())
        << row.id << "\n"
        << yaml << message(config);
    ++seen;
  }
  EXPECT_GE(seen, 6);
}

TEST(Config, ShippedConfigMapsAreReadAsTheyAre) {
  const auto folder = ::tailrace::testing::shared_path("data/wire_fixtures/wva_configmaps");
  if (!std::filesystem::exists(folder))
    GTEST_SKIP() << "no recorded ConfigMaps; set TAILRACE_SHARED";
  const auto text =
      core::read_file(folder + "/2026-07_deploy_configmap-queueing-model.yaml", 1 << 20);
  ASSERT_TRUE(text);
  const auto config = Config::parse(*text, "shipped");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(config->problems(), IsEmpty()) << message(*config);
  EXPECT_TRUE(config->active());
  EXPECT_EQ(config->settings_of(kLlama)->slo_multiplier, 3);
  // One of another analyzer is told so.
  const auto other =
      core::read_file(folder + "/2026-07_deploy_configmap-saturation-scaling.yaml", 1 << 20);
  ASSERT_TRUE(other);
  const auto foreign = Config::parse(*other, "saturation");
  ASSERT_FALSE(foreign);
  EXPECT_THAT(foreign.error().message, HasSubstr("saturation analyzer"));
}

TEST(Config, EntriesOfOtherControllersAreRecognised) {
  const auto foreign = [](const std::string& name, const std::string& yaml) {
    const std::vector<ConfigEntry> all = {{name, yaml, 0}};
    return foreign_entries(all).value_or("");
  };
  EXPECT_THAT(foreign("default", "kvCacheThreshold: 0.8\nqueueLengthThreshold: 5\n"),
              HasSubstr("saturation analyzer"));
  EXPECT_THAT(foreign("default", "enable_scale_to_zero: true\nretention_period: 15m\n"),
              HasSubstr("scaleToZero"));
  EXPECT_THAT(foreign("A100", R"({"device": "NVIDIA-A100", "cost": "40.00"})"),
              HasSubstr("llm-d.ai/variant-cost"));
  EXPECT_THAT(foreign("premium.yaml",
                      "name: Premium\npriority: 1\ndata:\n  - model: m\n    slo-tpot: 24\n"),
              HasSubstr("targetITL"));
  EXPECT_THAT(foreign("config.yaml", "PROMETHEUS_BASE_URL: x\n"), HasSubstr("autoscaler.yaml"));
  // A stray key among ours is a problem of its entry alone.
  EXPECT_EQ(foreign("default", "sloMultiplier: 3\nkvCacheThreshold: 0.8\n"), "");
  EXPECT_EQ(foreign("default", ""), "");
  EXPECT_EQ(foreign("default", "{"), "");
}

}  // namespace
}  // namespace tailrace::capacity
