// What holds of the operator's settings while they are edited, broken, deleted and unreachable.
#include "tailrace/autoscaler/settings_source.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "kubernetes/support/object_api.h"
#include "support/temp_folder.h"

namespace tailrace::autoscaler {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const capacity::ModelKey kLlama{"prod", "llama"}, kMistral{"prod", "mistral"};
constexpr const char* kLlamaEntry =
    "model_id: llama\nnamespace: prod\ntargetTTFT: 500\ntargetITL: 50\n";

class MountedFolder : public TempFolder {
 public:
  /// A ConfigMap's new version, as the kubelet puts it there.
  void mount(const std::map<std::string, std::string>& data) {
    const std::string version = fmt::format("..2026_11_30_{}", ++versions_);
    fs::create_directory(path() / version);
    for (const auto& [name, text] : data) write(version + "/" + name, text);
    fs::create_symlink(version, path() / "..data_tmp");
    fs::rename(path() / "..data_tmp", path() / "..data");
    for (const auto& [name, text] : data) {
      if (fs::is_symlink(path() / name)) continue;
      fs::create_symlink(fs::path("..data") / name, path() / name);
    }
    if (versions_ > 1) fs::remove_all(path() / fmt::format("..2026_11_30_{}", versions_ - 1));
  }

 private:
  int versions_ = 0;
};

class MountedTest : public ::testing::Test {
 protected:
  MountedTest() : source(mounted_settings(folder.path().string())) {}
  MountedFolder folder;
  std::unique_ptr<SettingsSource> source;
};

double ttft(const Settings& settings, const capacity::ModelKey& key = kLlama) {
  const auto of_model = settings.config.settings_of(key);
  return of_model ? of_model->targets.ttft_ms : -1;
}

std::string why_held(const Settings& settings, const capacity::ModelKey& key = kLlama) {
  const auto of_model = settings.config.settings_of(key);
  return of_model ? "" : of_model.error().message;
}

TEST_F(MountedTest, SpecSection1_AnEditTakesEffectInTheNextReading) {
  folder.mount({{"default", "sloMultiplier: 3.0\n"}});
  EXPECT_TRUE(source->read().changed);
  EXPECT_EQ(source->read().config.settings_of(kLlama)->slo_multiplier, 3);
  folder.mount({{"default", "sloMultiplier: 2.0\n"}});
  const auto& settings = source->read();
  EXPECT_TRUE(settings.changed);
  EXPECT_EQ(settings.version, 2U);
  EXPECT_EQ(settings.config.settings_of(kLlama)->slo_multiplier, 2);
}

TEST_F(MountedTest, SpecSection1_TheSameBytesAreNoChange) {
  folder.mount({{"default", "sloMultiplier: 3.0\n"}});
  (void)source->read();
  EXPECT_FALSE(source->read().changed);
  folder.mount({{"default", "sloMultiplier: 3.0\n"}});
  const auto& settings = source->read();
  EXPECT_FALSE(settings.changed);
  EXPECT_EQ(settings.version, 1U);
}

TEST_F(MountedTest, SpecSection1_DeletingTheDefaultKeyDeactivates) {
  folder.mount({{"default", ""}, {"llama", kLlamaEntry}});
  EXPECT_EQ(ttft(source->read()), 500);
  folder.mount({{"llama", kLlamaEntry}});
  const auto& settings = source->read();
  EXPECT_TRUE(settings.changed);
  EXPECT_FALSE(settings.config.active());
  EXPECT_THAT(settings.condition, HasSubstr("inactive, replicas are held"));
  EXPECT_THAT(why_held(settings), HasSubstr("no `default` entry"));
}

TEST_F(MountedTest, SpecSection1_DeletingTheMapDeactivates) {
  folder.mount({{"default", ""}});
  EXPECT_TRUE(source->read().config.active());
  fs::remove_all(folder.path());
  const auto& settings = source->read();
  EXPECT_TRUE(settings.changed);
  EXPECT_FALSE(settings.config.active());
  EXPECT_THAT(settings.condition, HasSubstr("does not exist"));
  EXPECT_THAT(why_held(settings), HasSubstr("does not exist"));
}

TEST_F(MountedTest, SpecSection2_AWrongEntryIsRefusedWhileTheOthersAndItsLastVersionHold) {
  folder.mount({{"default", ""}, {"llama", kLlamaEntry}});
  (void)source->read();
  folder.mount({{"default", "sloMultiplier: 4\n"},
                {"llama", "model_id: llama\nnamespace: prod\ntargetTTFT: 700\n"},
                {"mistral", "model_id: mistral\nnamespace: prod\ntargetTTFT: 9\ntargetITL: 1\n"}});
  const auto& settings = source->read();
  EXPECT_TRUE(settings.changed);
  EXPECT_EQ(ttft(settings), 500);
  EXPECT_EQ(ttft(settings, kMistral), 9);
  EXPECT_EQ(settings.config.settings_of({"prod", "other"})->slo_multiplier, 4);
  ASSERT_THAT(settings.problems, SizeIs(1));
  EXPECT_EQ(settings.problems[0].entry, "llama");
  EXPECT_THAT(settings.problems[0].message, HasSubstr("targetITL is missing"));
  EXPECT_THAT(settings.problems[0].message, HasSubstr("last good version stays in force"));
  // And it goes on to hold, until the entry is right again.
  EXPECT_EQ(ttft(source->read()), 500);
  folder.mount({{"default", "sloMultiplier: 4\n"},
                {"llama", "model_id: llama\nnamespace: prod\ntargetTTFT: 700\ntargetITL: 70\n"}});
  EXPECT_EQ(ttft(source->read()), 700);
  EXPECT_THAT(source->read().problems, IsEmpty());
}

TEST_F(MountedTest, SpecSection2_AWrongDefaultLeavesTheLastOneInForce) {
  folder.mount({{"default", "sloMultiplier: 2\n"}});
  (void)source->read();
  for (const char* wrong :
       {"sloMultiplier: 1\n", "tuningEnabled: false\n", "{", "sloMultipler: 4\n"}) {
    folder.mount({{"default", wrong}});
    const auto& settings = source->read();
    EXPECT_FALSE(settings.changed) << wrong;
    EXPECT_EQ(settings.config.settings_of(kLlama)->slo_multiplier, 2) << wrong;
    EXPECT_THAT(settings.problems, ElementsAre(Field(&capacity::ConfigProblem::entry, "default")));
  }
}

TEST_F(MountedTest, SpecSection2_AnEntryThatNeverWasGoodHoldsItsModel) {
  folder.mount({{"default", ""}, {"llama", "model_id: llama\nnamespace: prod\ntargetTTFT: 1\n"}});
  const auto& settings = source->read();
  EXPECT_THAT(why_held(settings), HasSubstr("targetITL is missing"));
  EXPECT_EQ(ttft(settings, kMistral), 0);
  EXPECT_THAT(settings.problems, SizeIs(1));
}

TEST_F(MountedTest, SpecSection2_ANewEntryForANamedModelDoesNotPushAsideTheOneInForce) {
  folder.mount({{"default", ""}, {"llama", kLlamaEntry}});
  (void)source->read();
  folder.mount({{"default", ""},
                {"a-newer", "model_id: llama\nnamespace: prod\ntargetTTFT: 1\ntargetITL: 1\n"},
                {"llama", kLlamaEntry}});
  const auto& settings = source->read();
  EXPECT_EQ(ttft(settings), 500);
  ASSERT_THAT(settings.problems, SizeIs(1));
  EXPECT_EQ(settings.problems[0].entry, "a-newer");
  EXPECT_THAT(settings.problems[0].message, HasSubstr("left out"));
}

TEST_F(MountedTest, SpecSection2_AnEntryThatOnlyTheOldDefaultBoreHolds) {
  folder.mount({{"default", "scaleUpThreshold: 0.9\n"},
                {"llama", "model_id: llama\nnamespace: prod\nscaleDownThreshold: 0.8\n"}});
  EXPECT_THAT(source->read().problems, IsEmpty());
  folder.mount({{"default", "scaleUpThreshold: 0.75\n"},
                {"llama", "model_id: llama\nnamespace: prod\nscaleDownThreshold: 0.8\n"}});
  const auto& settings = source->read();
  // Its text is the same, but over the new default it contradicts itself.
  EXPECT_THAT(why_held(settings), HasSubstr("scaleDownThreshold"));
  EXPECT_EQ(settings.config.settings_of(kMistral)->scale_up_threshold, 0.75);
}

// llm-d/llm-d-autoscaling#970: targets in `default` did nothing.
TEST_F(MountedTest, SpecSection3_1_ExplicitTargetsInDefaultCountForEveryModel) {
  folder.mount({{"default", "targetTTFT: 800\ntargetITL: 80\n"}, {"llama", kLlamaEntry}});
  const auto& settings = source->read();
  EXPECT_EQ(ttft(settings), 500);
  EXPECT_EQ(ttft(settings, kMistral), 800);
  EXPECT_TRUE(settings.config.settings_of(kMistral)->explicit_slo());
}

TEST_F(MountedTest, AFolderThatIsNotMountedByKubernetesWillDo) {
  folder.write("default", "sloMultiplier: 5\n");
  folder.write(".hidden", "{");
  const auto& settings = source->read();
  EXPECT_EQ(settings.config.settings_of(kLlama)->slo_multiplier, 5);
  EXPECT_THAT(settings.problems, IsEmpty());
}

TEST_F(MountedTest, AMapOfAnotherControllerChangesNothingAndIsNamed) {
  folder.mount({{"default", "kvCacheThreshold: 0.8\nqueueLengthThreshold: 5\n"}});
  EXPECT_THAT(source->read().condition, HasSubstr("saturation analyzer"));
  EXPECT_THAT(why_held(source->read()), HasSubstr("saturation analyzer"));
  folder.mount({{"default", "targetTTFT: 1\ntargetITL: 1\n"}});
  EXPECT_EQ(ttft(source->read()), 1);
  folder.mount({{"default", "kvCacheThreshold: 0.8\nqueueLengthThreshold: 5\n"}});
  EXPECT_EQ(ttft(source->read()), 1);
  EXPECT_THAT(source->read().condition, HasSubstr("stays in force"));
}

TEST(MountedFile, AManifestAndAPlainFileAreReadAndABrokenOneChangesNothing) {
  const TempFolder folder;
  const auto source = mounted_settings(folder.file("settings.yaml"));
  EXPECT_THAT(source->read().condition, HasSubstr("does not exist"));
  folder.write("settings.yaml", "default:\n  targetTTFT: 800\n  targetITL: 80\n");
  EXPECT_EQ(ttft(source->read()), 800);
  folder.write("settings.yaml", "default:\n  targetTTFT: [");
  EXPECT_EQ(ttft(source->read()), 800);
  EXPECT_THAT(source->read().condition, HasSubstr("stays in force"));
  EXPECT_FALSE(source->read().changed);
  folder.write("settings.yaml",
               "kind: ConfigMap\ndata:\n  default: |\n    targetTTFT: 900\n    targetITL: 90\n");
  EXPECT_EQ(ttft(source->read()), 900);
  EXPECT_THAT(source->read().condition, IsEmpty());
  folder.write("settings.yaml",
               "default:\n  targetTTFT: 900\n  targetITL: 90\nllama:\n  model_id: llama\n");
  const auto& settings = source->read();
  ASSERT_THAT(settings.problems, SizeIs(1));
  EXPECT_THAT(settings.problems[0].message, HasSubstr("settings.yaml:5"));
}

TEST(MountedFile, OneThatCannotBeReadChangesNothing) {
  const TempFolder folder;
  folder.write("settings.yaml", "default:\n  targetTTFT: 800\n  targetITL: 80\n");
  const auto source = mounted_settings(folder.file("settings.yaml"));
  (void)source->read();
  folder.write("settings.yaml", std::string(3U << 20, '#'));
  const auto& settings = source->read();
  EXPECT_EQ(ttft(settings), 800);
  EXPECT_THAT(settings.condition, HasSubstr("larger than the limit"));
}

TEST(MountedFile, TheWorkloadVariantAutoscalersMapsAreReadAsTheyAreOrNamed) {
  const char* shared = std::getenv("TAILRACE_SHARED");
  const fs::path folder = fs::path(shared != nullptr ? shared : TAILRACE_SOURCE_DIR "/../shared") /
                          "data/wire_fixtures/wva_configmaps";
  if (!fs::exists(folder)) GTEST_SKIP() << "no recorded ConfigMaps; set TAILRACE_SHARED";
  int seen = 0;
  for (const auto& file : fs::directory_iterator(folder)) {
    ++seen;
    const auto name = file.path().filename().string();
    const auto source = mounted_settings(file.path().string());
    const auto& settings = source->read();
    EXPECT_THAT(settings.problems, IsEmpty()) << name;
    if (name.find("queueing-model") != std::string::npos) {
      EXPECT_TRUE(settings.config.active()) << name;
      EXPECT_EQ(settings.condition, "") << name;
      EXPECT_EQ(settings.config.settings_of(kLlama)->slo_multiplier, 3) << name;
      continue;
    }
    EXPECT_FALSE(settings.config.active()) << name;
    EXPECT_THAT(settings.condition, HasSubstr("WVA")) << name;
    if (name.find("saturation") != std::string::npos) {
      EXPECT_THAT(settings.condition, HasSubstr("saturation analyzer")) << name;
    }
  }
  EXPECT_GE(seen, 1);
}

class WatchedTest : public ::testing::Test {
 protected:
  WatchedTest() : source(watched_settings(api, "wva", "config")) {}

  static std::string map(const std::string& data, const std::string& name = "config") {
    return fmt::format(R"j({{"metadata":{{"namespace":"wva","name":"{}","resourceVersion":"7"}},
                               "data":{{{}}}}})j",
                       name, data);
  }
  void list(const std::optional<std::string>& object) {
    api.watch_handlers.on_restart();
    if (object) api.watch_handlers.on_event("ADDED", *object);
    api.watch_handlers.on_synced();
  }

  kubernetes::testing::ObjectApi api;
  std::unique_ptr<SettingsSource> source;
};

constexpr const char* kData = R"j("default":"targetTTFT: 800\ntargetITL: 80\n")j";

TEST_F(WatchedTest, ItWatchesOneMapByNameAndIsInactiveUntilItHasCome) {
  EXPECT_THAT(api.asked, ElementsAre("/api/v1/namespaces/wva/configmaps?fieldSelector="
                                     "metadata.name%3Dconfig"));
  EXPECT_THAT(why_held(source->read()), HasSubstr("not been read yet"));
  list(map(kData));
  EXPECT_TRUE(source->read().changed);
  EXPECT_EQ(ttft(source->read()), 800);
  EXPECT_FALSE(source->read().changed);
}

TEST_F(WatchedTest, SpecSection1_EditsAndDeletionTakeEffectInTheNextReading) {
  list(map(kData));
  (void)source->read();
  api.watch_handlers.on_event("MODIFIED", map(R"j("default":"targetTTFT: 1\ntargetITL: 2")j"));
  EXPECT_EQ(ttft(source->read()), 1);
  api.watch_handlers.on_event("MODIFIED", map(R"j("other":"")j"));
  EXPECT_FALSE(source->read().config.active());
  api.watch_handlers.on_event("MODIFIED", map(kData));
  EXPECT_EQ(ttft(source->read()), 800);
  api.watch_handlers.on_event("DELETED", map(kData));
  const auto& settings = source->read();
  EXPECT_FALSE(settings.config.active());
  EXPECT_THAT(settings.condition, HasSubstr("ConfigMap wva/config does not exist"));
}

TEST_F(WatchedTest, AMapThatIsNotThereIsInactive) {
  list({});
  EXPECT_THAT(source->read().condition, HasSubstr("does not exist"));
  EXPECT_FALSE(source->read().config.active());
}

TEST_F(WatchedTest, AnInterruptedWatchChangesNothingAndSaysSo) {
  list(map(kData));
  (void)source->read();
  api.watch_handlers.on_interrupted({ErrorCode::kUnavailable, "connection refused"});
  const auto& settings = source->read();
  EXPECT_EQ(ttft(settings), 800);
  EXPECT_FALSE(settings.changed);
  EXPECT_THAT(settings.condition, HasSubstr("connection refused"));
  list(map(kData));
  EXPECT_THAT(source->read().condition, IsEmpty());
  EXPECT_FALSE(source->read().changed);
}

TEST_F(WatchedTest, WhileAListIsUnderWayTheOldMapHolds) {
  list(map(kData));
  (void)source->read();
  api.watch_handlers.on_restart();
  EXPECT_EQ(ttft(source->read()), 800);
  api.watch_handlers.on_event("ADDED", map(R"j("default":"targetTTFT: 1\ntargetITL: 2")j"));
  EXPECT_EQ(ttft(source->read()), 800);
  api.watch_handlers.on_synced();
  EXPECT_EQ(ttft(source->read()), 1);
}

TEST_F(WatchedTest, AnEditJustBeforeAnInterruptionIsAChange) {
  list(map(kData));
  api.watch_handlers.on_interrupted({ErrorCode::kUnavailable, "gone"});
  EXPECT_TRUE(source->read().changed);
  EXPECT_EQ(ttft(source->read()), 800);
}

TEST_F(WatchedTest, AMapThatCannotBeReadIsNotOneThatIsGone) {
  list(map(kData));
  (void)source->read();
  list("{");
  EXPECT_EQ(ttft(source->read()), 800);
  EXPECT_THAT(source->read().condition, HasSubstr("cannot be watched"));
  list(map(R"j("default":"targetTTFT: 1\ntargetITL: 2")j"));
  EXPECT_EQ(ttft(source->read()), 1);
  EXPECT_THAT(source->read().condition, IsEmpty());
}

TEST_F(WatchedTest, OtherMapsAreNotItsOwn) {
  list(map(kData));
  api.watch_handlers.on_event("DELETED", map("", "another"));
  EXPECT_EQ(ttft(source->read()), 800);
}

TEST(BuiltInSettings, HoldForEveryModel) {
  const auto source = built_in_settings();
  EXPECT_TRUE(source->read().changed);
  EXPECT_FALSE(source->read().changed);
  EXPECT_EQ(source->read().config.settings_of(kLlama)->slo_multiplier, 3);
}

}  // namespace
}  // namespace tailrace::autoscaler
