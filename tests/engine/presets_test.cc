#include "tailrace/engine/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace tailrace::engine {
namespace {

using testing::HasSubstr;

double ms(std::string_view preset, std::int64_t tokens, std::int64_t context,
          std::int64_t sequences = 1) {
  return to_millis(find_preset(preset)->config.cost.of(Tokens(tokens), Tokens(context), sequences));
}

TEST(Presets, AreAllUsableAndFoundByName) {
  for (const Preset& preset : presets()) {
    EXPECT_TRUE(preset.config.check()) << preset.name;
    EXPECT_EQ(find_preset(preset.name)->name, preset.name);
  }
  EXPECT_THAT(find_preset("b200").error().message, HasSubstr("h100-8b"));
}

TEST(Presets, SayWhereTheirNumbersComeFromAndWhereTheyMislead) {
  for (const Preset& preset : presets()) {
    EXPECT_GT(preset.source.size(), 40u) << preset.name;
    EXPECT_GT(preset.caveat.size(), 40u) << preset.name;
  }
}

TEST(Presets, HaveTheLimitsThatVllmSetsForTheGpu) {
  for (const Preset& preset : presets()) {
    const bool h100 = preset.name.starts_with("h100");
    if (!h100 && !preset.name.starts_with("a100")) continue;
    EXPECT_EQ(preset.config.max_batched_tokens, h100 ? 8192 : 2048) << preset.name;
    EXPECT_EQ(preset.config.max_num_seqs, h100 ? 1024 : 256) << preset.name;
    EXPECT_EQ(preset.config.block_tokens, 16) << preset.name;
  }
}

// 80 GiB · 0.9 − 2 bytes · 8.03e9 parameters = 57.04 GiB; a block is 16 · 128 KiB = 2 MiB.
// Four of them: 288 − 131.42 − 5.5 − 4 · 0.6 = 148.68 GiB; a block is 16 · 320 KiB = 5 MiB.
TEST(Presets, HaveTheKvBlocksThatMemoryLeavesThem) {
  EXPECT_EQ(find_preset("h100-8b")->config.usable_blocks(), 29'205);
  EXPECT_EQ(find_preset("a100-8b")->config.usable_blocks(), 29'205);
  EXPECT_EQ(find_preset("h100-70b-tp4")->config.usable_blocks(), 30'450);
  EXPECT_EQ(find_preset("a100-70b-tp4")->config.usable_blocks(), 30'450);
  EXPECT_EQ(find_preset("h100-70b-tp8")->config.usable_blocks(), 88'941);
}

TEST(KvBlocks, AreNoneWhereTheWeightsFillTheMemory) {
  EXPECT_EQ(kv_blocks_that_fit({.weights_gib = 71}, 128, 16), 512);
  EXPECT_EQ(kv_blocks_that_fit({.weights_gib = 72.5}, 128, 16), 0);
  EXPECT_EQ(kv_blocks_that_fit({.gpus = 2, .weights_gib = 72, .other_gib_per_gpu = 1}, 128, 16),
            70 * 512);
}

// alpha + beta · max(0, tokens − knee) + gamma · context, with the numbers written out.
TEST(Presets, TakeTheTimeThatTheirNumbersSayOverTokensAndContext) {
  EXPECT_DOUBLE_EQ(ms("h100-8b", 1, 0), 6.0);
  EXPECT_DOUBLE_EQ(ms("h100-8b", 200, 100'000), 13.6);            // 6 + 7.6
  EXPECT_DOUBLE_EQ(ms("h100-8b", 256, 100'000, 256), 14.748);     // 6 + 0.0205 · 56 + 7.6
  EXPECT_DOUBLE_EQ(ms("h100-8b", 8192, 8192), 170.458592);        // 6 + 163.836 + 0.622592
  EXPECT_DOUBLE_EQ(ms("a100-8b", 128, 50'000), 14.6);             // 10 + 4.6
  EXPECT_DOUBLE_EQ(ms("a100-8b", 2048, 0), 141.52);               // 10 + 0.0685 · 1920
  EXPECT_DOUBLE_EQ(ms("h100-70b-tp4", 1024, 200'000), 69.912);    // 15 + 45.312 + 9.6
  EXPECT_DOUBLE_EQ(ms("a100-70b-tp4", 512, 10'000), 84.68);       // 26 + 58.08 + 0.6
  EXPECT_DOUBLE_EQ(ms("h100-70b-tp8", 4096, 1'000'000), 155.88);  // 9 + 122.88 + 24
  EXPECT_DOUBLE_EQ(ms("steady-25ms", 1'000'000, 1'000'000), 25.0);
}

// A published operator profile, the medians of its layers added up (attention and the output layer
// left out): milliseconds of an iteration by the tokens in it.
struct Measured {
  std::string_view preset;
  std::array<double, 9> ms;
};
constexpr std::array<std::int64_t, 9> kTokens{1, 32, 64, 128, 256, 512, 1024, 2048, 4096};
constexpr std::array<Measured, 5> kMeasured{
    {{"h100-8b", {5.7, 5.9, 6.0, 6.6, 9.4, 12.5, 22.0, 42.2, 87.3}},
     {"a100-8b", {9.8, 11.1, 11.4, 13.5, 20.0, 35.5, 77, 150, 281}},
     {"h100-70b-tp4", {14.5, 15.6, 15.8, 16.6, 20.4, 32.2, 66.3, 119, 239}},
     {"a100-70b-tp4", {25.1, 26.7, 27.6, 34.6, 53.0, 94.1, 196, 353, 690}},
     {"h100-70b-tp8", {8.5, 9.6, 9.4, 10.7, 12.7, 19.9, 36.9, 71.9, 138}}}};

TEST(Presets, AreAsNearToTheProfileAsTheirCaveatSays) {
  double worst_outside = 0;
  double worst_between = 0;
  for (const auto& [preset, measured] : kMeasured) {
    const double knee = find_preset(preset)->config.cost.knee_tokens;
    for (std::size_t i = 0; i < kTokens.size(); ++i) {
      const double error = ms(preset, kTokens[i], 0) / measured[i] - 1;
      const auto tokens = static_cast<double>(kTokens[i]);
      const bool outside = tokens <= knee / 2 || tokens >= 2 * knee;
      double& worst = outside ? worst_outside : worst_between;
      worst = std::max(worst, std::abs(error));
      EXPECT_LT(std::abs(error), outside ? 0.16 : 0.295) << preset << " at " << kTokens[i];
    }
  }
  // The caveat is no wider than it has to be.
  EXPECT_GT(worst_outside, 0.15);
  EXPECT_GT(worst_between, 0.28);
  EXPECT_THAT(std::string(find_preset("h100-8b")->caveat), HasSubstr("16 %"));
}

}  // namespace
}  // namespace tailrace::engine
