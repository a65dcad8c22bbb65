#include "tailrace/engine/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "support/temp_folder.h"
#include "tailrace/core/text.h"
#include "tailrace/engine/presets.h"

namespace tailrace::engine {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view yaml) {
  const auto profile = parse_profile(yaml, "p.yaml");
  return profile ? "" : profile.error().message;
}

EngineConfig config_of(std::string_view yaml) {
  const auto profile = parse_profile(yaml, "p.yaml");
  EXPECT_TRUE(profile) << (profile ? "" : profile.error().message);
  return profile ? profile->config : EngineConfig{};
}

TEST(Profile, BeginsWithAPresetAndChangesWhatItNames) {
  const auto profile =
      parse_profile("preset: a100-8b\nname: ours\nalpha_ms: 9.5\nmax_num_seqs: 128\n", "p.yaml");
  ASSERT_TRUE(profile);
  EngineConfig expected = find_preset("a100-8b")->config;
  expected.cost.alpha_ms = 9.5;
  expected.max_num_seqs = 128;
  EXPECT_EQ(profile->name, "ours");
  EXPECT_EQ(profile->config, expected);
  EXPECT_FALSE(profile->fit);
}

TEST(Profile, OfNothingButAPresetIsThatPreset) {
  EXPECT_EQ(config_of("preset: h100-70b-tp8\n"), find_preset("h100-70b-tp8")->config);
  EXPECT_EQ(config_of("{}"), presets().front().config);
}

TEST(Profile, ReadsEveryField) {
  const EngineConfig c = config_of(R"(
alpha_ms: 1
beta_ms: 2
gamma_ms: 3e-5
knee_tokens: 4
per_request_ms: 0.5
cpu_ms: 6
cpu_per_request_ms: 0.7
async_scheduling: false
max_num_seqs: 8
max_batched_tokens: 9
max_model_len: 10
block_tokens: 11
kv_blocks: 12
long_prefill_tokens: 13
chunked_prefill: false
prefix_caching: true
reserve_full_sequence: false
watermark_blocks: 14
)");
  EngineConfig expected;
  expected.cost = {1, 2, 3e-5, 4, 0.5, 6, 0.7, false};
  expected.max_num_seqs = 8;
  expected.max_batched_tokens = 9;
  expected.max_model_len = 10;
  expected.block_tokens = 11;
  expected.kv_blocks = 12;
  expected.long_prefill_tokens = 13;
  expected.chunked_prefill = false;
  expected.prefix_caching = true;
  expected.reserve_full_sequence = false;
  expected.watermark_blocks = 14;
  EXPECT_EQ(c, expected);
}

TEST(Profile, TakesMemoryInTokensAndTheWatermarkAsAShareWhereverTheyStand) {
  const EngineConfig c = config_of("watermark: 0.01\nkv_tokens: 32000\nblock_tokens: 32\n");
  EXPECT_EQ(c.usable_blocks(), 1000);
  EXPECT_EQ(c.watermark_blocks, 10);
}

TEST(Profile, KeepsThePresetsMemoryWhenOnlyTheBlockChanges) {
  const EngineConfig c = config_of("preset: h100-8b\nblock_tokens: 32\n");
  EXPECT_EQ(c.usable_blocks() * c.block_tokens, 467'296) << "29,205 blocks of 16, rounded up";
}

TEST(Profile, FitsMeasuredIterationTimesAndSaysHowWell) {
  // 5 ms up to 100 tokens, then 0.05 ms a token.
  const auto profile = parse_profile(
      "measured_ms: {1: 5, 50: 5, 200: 10, 300: 15, 1000: 50, 2000: 100}\ngamma_ms: 0\n", "p.yaml");
  ASSERT_TRUE(profile) << profile.error().message;
  ASSERT_TRUE(profile->fit);
  EXPECT_NEAR(profile->config.cost.alpha_ms, 5, 1e-5);
  EXPECT_NEAR(profile->config.cost.beta_ms, 0.05, 1e-7);
  EXPECT_NEAR(profile->config.cost.knee_tokens, 100, 1e-3);
  EXPECT_LT(profile->fit->worst_error, 1e-6);
  EXPECT_EQ(profile->config.cost.gamma_ms, 0);
}

TEST(Profile, NamesFileLineKeyValueAndRemedyOfTheFirstFault) {
  EXPECT_EQ(error_of("alpha_ms: 1\nmax_num_seq: 3\n"),
            "p.yaml:2: unknown key \"max_num_seq\"; did you mean \"max_num_seqs\"?");
  EXPECT_THAT(error_of("colour: red\n"), HasSubstr("known keys: preset, name, kv_tokens"));
  EXPECT_EQ(error_of("\nmax_num_seqs: many\n"),
            "p.yaml:2: max_num_seqs: \"many\" is not a whole number; give one such as 1024");
  EXPECT_EQ(error_of("alpha_ms: nan\n"),
            "p.yaml:1: alpha_ms: \"nan\" is not a number; give one such as 6");
  EXPECT_EQ(error_of("alpha_ms: -1\n"),
            "p.yaml:1: alpha_ms: alpha is -1; it must be a number from 0 to 1e9");
  EXPECT_EQ(error_of("prefix_caching: maybe\n"),
            "p.yaml:1: prefix_caching: \"maybe\" is neither true nor false");
  EXPECT_THAT(error_of("max_num_seqs: [1, 2]\n"),
              HasSubstr("p.yaml:1: max_num_seqs: must be a whole number"));
  EXPECT_THAT(error_of("alpha_ms:\n"), HasSubstr("alpha_ms: must be a number; give one value"));
  EXPECT_THAT(error_of("preset: b200\n"), HasSubstr("p.yaml:1: preset: there is no engine preset"));
  EXPECT_THAT(error_of("kv_blocks: 5\nkv_tokens: 80\n"),
              HasSubstr("p.yaml:2: kv_tokens: stands beside kv_blocks"));
  EXPECT_THAT(error_of("watermark: 1\n"), HasSubstr("p.yaml:1: watermark: 1 must be a share"));
  EXPECT_THAT(error_of("kv_tokens: 0\n"), HasSubstr("p.yaml:1: kv_tokens: 0 must be from 1"));
  EXPECT_THAT(error_of("alpha_ms: 1\nmeasured_ms: {1: 2}\n"),
              HasSubstr("p.yaml:2: measured_ms: stands beside alpha_ms"));
  EXPECT_THAT(error_of("measured_ms: {1: 2, x: 3, 4: 5}\n"),
              HasSubstr("p.yaml:1: measured_ms: \"x\" is no number of tokens"));
  EXPECT_THAT(error_of("measured_ms: {1: 2, 3: 4}\n"), HasSubstr("give 3 to 1000"));
  EXPECT_THAT(error_of("- 1\n"), HasSubstr("p.yaml:1: an engine's profile must be a mapping"));
  EXPECT_THAT(error_of(""), HasSubstr("p.yaml:1: "));
  EXPECT_THAT(error_of("a: [\n"), HasSubstr("p.yaml:2: not valid YAML"));
}

TEST(Profile, IsFoundByThePresetsNameOrInAFile) {
  EXPECT_EQ(find_profile("a100-8b")->config, find_preset("a100-8b")->config);
  const TempFolder folder;
  const std::string path = folder.file("profile.yaml");
  ASSERT_TRUE(core::write_file_atomically(path, "preset: a100-8b\nmax_num_seqs: 7\n"));
  EXPECT_EQ(find_profile(path)->config.max_num_seqs, 7);
  ASSERT_TRUE(core::write_file_atomically(path, "max_num_seqs: x\n"));
  EXPECT_THAT(find_profile(path).error().message, HasSubstr(path + ":1: max_num_seqs"));
  std::remove(path.c_str());
  EXPECT_EQ(find_profile(path).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(find_profile("b200").error().message, HasSubstr("ends in .yaml"));
}

}  // namespace
}  // namespace tailrace::engine
