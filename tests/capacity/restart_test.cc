// A restart between two cycles changes nothing that is decided after it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "capacity/support/reports.h"
#include "tailrace/capacity/cycle.h"
#include "tailrace/capacity/explain.h"

namespace tailrace::capacity {
namespace {

using ::testing::HasSubstr;
using testing::report;
using testing::true_model;

constexpr double kStart = 1.7e9;
constexpr double kCycle = 15;

/// Two variants that are one thing to the learner (same accelerator, same flags), and whose pods
/// come and go; then an hour without a request.
struct World {
  std::int64_t replicas[2] = {2, 1};

  CycleInput at(int cycle) const {
    const double time_s = kStart + kCycle * cycle;
    const bool lull = cycle % 120 >= 60;
    const double rate = lull ? 0 : 60 + 50 * std::sin(0.21 * cycle) + (cycle % 120) * 1.5;
    ModelState model{{"prod", "llama"}, 1, Backlog{}, {}};
    model.gateway->requests = lull ? 0 : double(cycle % 7);
    model.gateway->arrivals_per_s = rate;
    model.gateway->arrivals_window_s = kCycle;
    model.gateway->one_queue = true;
    if (cycle % 10 == 9) model.gateway.reset();
    const auto all = double(std::max<std::int64_t>(1, replicas[0] + replicas[1]));
    for (int v = 0; v < 2; ++v) {
      Variant variant;
      variant.name = v == 0 ? "a" : "b";
      variant.accelerator = "H100";
      variant.cost = 10 + v;
      variant.current = replicas[v];
      variant.max = 8;
      auto truth = true_model();
      truth.iteration.alpha_ms *= v == 0 ? 1 : 1.1;
      for (std::int64_t p = 0; p < replicas[v]; ++p) {
        const double swing = 1 + 0.3 * std::sin(0.9 * cycle + double(p));
        variant.pods.push_back(report(fmt::format("{}{}", variant.name, p), time_s,
                                      rate * swing / all, truth, kCycle));
        if (lull) variant.pods.back().running = 0;
      }
      model.variants.push_back(std::move(variant));
    }
    CycleInput input;
    input.models.push_back(std::move(model));
    return input;
  }
  void obey(const CycleResult& result) {
    for (int v = 0; v < 2; ++v) replicas[v] = result.decisions[std::size_t(v)].desired;
  }
};

CycleConfig config_of(bool explicit_targets) {
  CycleConfig config;
  config.models.change_all([&](ModelSettings& s) {
    if (explicit_targets) {
      s.targets.ttft_ms = 150;
      s.targets.itl_ms = 15;
    }
    s.scale_to_zero = true;
    s.retention_s = 300;
  });
  return config;
}

StabilisationConfig windows_of(double down_s, double up_s) {
  StabilisationConfig config;
  config.down_window_s = down_s;
  config.up_window_s = up_s;
  return config;
}

std::string text_of(const CycleResult& result) {
  return explain_json(result.models[0], result.decisions);
}

class Restart : public ::testing::TestWithParam<bool> {};

TEST_P(Restart, InEveryCycleChangesNoByteOfAnyDecision) {
  const CycleConfig config = config_of(GetParam());
  const StabilisationConfig windows = windows_of(120, 30);
  CycleState steady(windows);
  auto restarted = std::make_unique<CycleState>(windows);
  World world;
  int changes = 0;
  for (int cycle = 0; cycle < 240; ++cycle) {
    const double now_s = kStart + kCycle * cycle;
    const auto expected = run_cycle(now_s, world.at(cycle), config, steady);
    const auto result = run_cycle(now_s, world.at(cycle), config, *restarted);
    ASSERT_EQ(text_of(result), text_of(expected)) << "cycle " << cycle;
    for (const auto& d : expected.decisions) changes += d.action != Action::kHold ? 1 : 0;
    world.obey(expected);
    const std::string document = restarted->save(now_s);
    restarted = std::make_unique<CycleState>(windows);
    const auto read = restarted->restore(document);
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(restarted->save(now_s), document) << "cycle " << cycle;
  }
  EXPECT_GT(changes, 10);
}

INSTANTIATE_TEST_SUITE_P(Targets, Restart, ::testing::Bool(), [](const auto& instance) {
  return std::string(instance.param ? "Explicit" : "Inferred");
});

TEST(SavedCycle, LearntParametersAloneAreStillRead) {
  CycleState old(std::nullopt);
  World world;
  const auto config = config_of(true);
  for (int c = 0; c < 20; ++c) (void)run_cycle(kStart + kCycle * c, world.at(c), config, old);
  const std::string document = old.save(kStart + 300);
  const auto from = document.find("\"parameters\":") + 13;
  const std::string parameters =
      document.substr(from, document.find(",\"learners\":") - from);  // what version 1 was
  CycleState state(std::nullopt);
  const auto read = state.restore(parameters);
  ASSERT_TRUE(read) << read.error().message;
  const auto result = run_cycle(kStart + 315, world.at(21), config, state);
  EXPECT_TRUE(result.models[0].variants[0].parameters.values);
}

TEST(SavedCycle, WhatIsDamagedChangesNothingAndSaysWhy) {
  CycleState source{StabilisationConfig{}};
  World world;
  const auto config = config_of(false);
  for (int c = 0; c < 20; ++c) (void)run_cycle(kStart + kCycle * c, world.at(c), config, source);
  const std::string good = source.save(kStart + 300);
  const auto broken = [&](const std::string& old_text, const std::string& new_text) {
    std::string text = good;
    const auto at = text.find(old_text);
    EXPECT_NE(at, std::string::npos) << old_text;
    if (at != std::string::npos) text.replace(at, old_text.size(), new_text);
    return text;
  };
  CycleState state{StabilisationConfig{}};
  const std::string before = state.save(0);
  for (const auto& [document, says] : std::vector<std::pair<std::string, std::string>>{
           {"", "not JSON"},
           {good.substr(0, good.size() / 2), "not JSON"},
           {broken("\"version\":2", "\"version\":3"), "version 3"},
           {broken("\"observed\":", "\"observed\":-"), "`observed` is no whole number"},
           {broken("\"calm_cycles\":", "\"calm\":"), "`calm_cycles`"},
           {broken("\"histories\":[", "\"history\":["), "`histories` is no list"},
           {broken("\"seen_s\":", "\"seen\":"), "seen_s"},
           {broken("\"variant\":\"b\"", "\"variant\":\"a\""), "two entries have one name"}}) {
    const auto read = state.restore(document);
    ASSERT_FALSE(read) << says;
    EXPECT_THAT(read.error().message, HasSubstr(says));
    EXPECT_EQ(state.save(0), before);
  }
}

TEST(CycleState, OtherWindowsKeepWhatWasRecommended) {
  CycleState state{windows_of(600, 0)};
  World world;
  const auto config = config_of(true);
  for (int c = 0; c < 60; ++c) {
    world.obey(run_cycle(kStart + kCycle * c, world.at(c), config, state));
  }
  const auto peak = world.replicas[0] + world.replicas[1];
  ASSERT_GT(peak, 1);
  state.stabilise(windows_of(300, 0));
  world.obey(run_cycle(kStart + kCycle * 61, world.at(61), config, state));
  EXPECT_EQ(world.replicas[0] + world.replicas[1], peak);
}

}  // namespace
}  // namespace tailrace::capacity
