// Is what the gateway measures what the emulated engine computes by?
#include <gtest/gtest.h>

#include <string>

#include "engine/support/engines.h"
#include "gateway/support/world.h"
#include "tailrace/core/rng.h"
#include "tailrace/emulator/emulator.h"

namespace tailrace::gateway {
namespace {

using namespace testing;

TEST(PaceOfAnEngine, IsItsTimePerTokenAndForTheContextOfOneMoreSequence) {
  constexpr double kAlpha = 30, kBeta = 0.05, kGamma = 0.01;  // ms
  constexpr int kPrompt = 200, kAnswer = 100;
  World world;
  emulator::EmulatorConfig config;
  config.listen = {"10.0.0.7", 8000, false};
  config.model = "m";
  config.engine =
      engine::token_engine(engine::linear_cost(kAlpha, kBeta, kGamma, 0), 64, 4096, 1'000'000);
  const auto engine = emulator::Emulator::start(world.loop, world.network, config);
  ASSERT_TRUE(engine) << engine.error().message;
  BackendConfig backend;
  backend.name = "a";
  backend.url = net::parse_url("http://10.0.0.7:8000").value();
  backend.models = {"m"};
  backend.slots = 64;
  world.config.backends.push_back(backend);
  world.start();

  Rng rng(3);
  std::vector<std::shared_ptr<Reply>> replies;
  const MonoTime until = world.loop.now() + seconds(150);
  while (world.loop.now() < until) {
    world.run(from_seconds(rng.exponential() / 1.5));
    const auto tokens = 1 + static_cast<int>(kAnswer * rng.exponential());
    replies.push_back(world.stream(",\"emulator_prompt_tokens\":" + std::to_string(kPrompt) +
                                   ",\"emulator_output_tokens\":" + std::to_string(tokens)));
  }
  const auto metrics = world.admin("GET", "/metrics");
  world.run(milliseconds(5));
  const auto value = [&](const std::string& name) {
    const auto at = metrics->body.find("\n" + name + "{backend=\"a\"} ");
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? 0
                                   : 1e3 * std::stod(metrics->body.substr(at + name.size() + 15));
  };
  // Of exponential lengths, a sequence in the batch has had as many tokens as it will have.
  const double per_stream = kBeta + kGamma * (kPrompt + kAnswer);
  const double error = value("tailrace_backend_itl_per_stream_error_seconds");
  EXPECT_NEAR(value("tailrace_backend_itl_per_stream_seconds"), per_stream, 0.25 * per_stream);
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 0.25 * per_stream);
  EXPECT_NEAR(value("tailrace_backend_itl_seconds"), kAlpha + 8 * per_stream, 15);
}

}  // namespace
}  // namespace tailrace::gateway
