// What the predictor hears of each way an answer can end.
#include <gtest/gtest.h>

#include "gateway/support/world.h"

namespace tailrace::gateway {
namespace {

using namespace testing;

class Learning : public ::testing::Test {
 protected:
  const predict::Observation* only() const {
    return world.oracle.heard.size() == 1 ? &world.oracle.heard[0].observation : nullptr;
  }
  World world;
};

TEST_F(Learning, UsageOfAWholeAnswerIsTheTruth) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) { request.whole(42); });
  world.start();
  const auto reply = world.chat("", {{"x-tailrace-tenant", "acme"}});
  world.run(milliseconds(5));
  ASSERT_TRUE(only());
  EXPECT_EQ(only()->length, Tokens(42));
  EXPECT_FALSE(only()->censored);
  EXPECT_EQ(world.oracle.heard[0].features.tenant, "acme");
}

TEST_F(Learning, AnAnswerCutAtItsLimitIsCensored) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) { request.whole(42, "length"); });
  world.start();
  const auto reply = world.chat(",\"max_tokens\":42");
  world.run(milliseconds(5));
  ASSERT_TRUE(only());
  EXPECT_TRUE(only()->censored);
}

TEST_F(Learning, AClientThatLeavesMidStreamLeavesACensoredLength) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) {
    request.begin_events();
    for (int i = 0; i < 5; ++i) request.event("x");
  });
  world.start();
  const auto reply = world.stream();
  world.run(milliseconds(5));
  reply->leave();
  world.run(milliseconds(5));
  ASSERT_TRUE(only());
  EXPECT_EQ(only()->length, Tokens(5));
  EXPECT_TRUE(only()->censored);
}

TEST_F(Learning, CountedEventsAreLearnedOnlyWhereAllowed) {
  for (const bool allowed : {false, true}) {
    World own;
    own.config.predict.learn_from_estimates = allowed;
    auto& engine = own.add_engine("a");
    engine.script([](EngineRequest& request) {
      request.begin_events();
      for (int i = 0; i < 5; ++i) request.event("x");
      request.exchange->write(
          "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
      request.done();
    });
    own.start();
    const auto reply = own.stream();
    own.run(milliseconds(5));
    EXPECT_EQ(own.oracle.heard.size(), allowed ? 1U : 0U);
  }
}

TEST_F(Learning, ALongAnswerIsReportedInPassingEachTimeItsLengthDoubles) {
  auto& engine = world.add_engine("a");
  std::shared_ptr<net::Exchange> open;
  engine.script([&](EngineRequest& request) {
    request.begin_events();
    for (int i = 0; i < 1500; ++i) request.event("x");
    open = request.exchange;
  });
  world.start();
  const auto reply = world.stream();
  world.run(milliseconds(50));
  auto& heard = world.oracle.heard;
  ASSERT_GE(heard.size(), 1u);
  ASSERT_LE(heard.size(), 2u) << "at 512 and at 1024, or at once for what came at once";
  EXPECT_GE(heard[0].observation.length, Tokens(512));
  EXPECT_EQ(heard[0].observation.reported, Tokens(0));
  for (const auto& report : heard) {
    EXPECT_TRUE(report.observation.running);
    EXPECT_TRUE(report.observation.censored);
  }
  const Tokens reported = heard.back().observation.length;
  reply->leave();
  world.run(milliseconds(5));
  EXPECT_FALSE(heard.back().observation.running);
  EXPECT_EQ(heard.back().observation.length, Tokens(1500));
  EXPECT_EQ(heard.back().observation.reported, reported) << "so that it is not counted twice";
}

TEST_F(Learning, ShortAnswersAreNotReportedInPassing) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) {
    request.begin_events();
    for (int i = 0; i < 400; ++i) request.event("x");
  });
  world.start();
  const auto reply = world.stream();
  world.run(milliseconds(50));
  EXPECT_TRUE(world.oracle.heard.empty());
}

TEST_F(Learning, AnAtomWhereEveryAnswerEndsIsNotFoundWrong) {
  // All the mass on exactly 80 tokens, and every answer has 80: half of them lie below the median.
  const std::vector<double> edges{79, 80};
  const std::vector<double> masses{0, 1, 0};
  world.oracle.says = [&](const predict::RequestFeatures&) {
    return predict::Prediction{length::LengthLaw::binned(edges, masses).value(), true};
  };
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) { request.whole(80); });
  world.start();
  for (int i = 0; i < 10; ++i) {
    const auto reply = world.chat();
    world.run(milliseconds(20));
  }
  const auto metrics = world.admin("GET", "/metrics");
  world.run(milliseconds(5));
  const auto& text = metrics->body;
  const auto value = [&](const std::string& series) {
    const auto at = text.find(series + " ");
    return at == std::string::npos ? -1.0 : std::stod(text.substr(at + series.size() + 1));
  };
  const double scored = value("tailrace_predictions_scored_total{model=\"m\"}");
  ASSERT_GT(scored, 0);
  const std::string covered = "tailrace_predictions_covered_total{model=\"m\",quantile=";
  EXPECT_NEAR(value(covered + "\"0.5\"}") / scored, 0.5, 1e-6);
  EXPECT_NEAR(value(covered + "\"0.9\"}") / scored, 0.9, 1e-6);
}

TEST_F(Learning, AnEngineThatClaimsMoreThanTheLimitIsNotBelieved) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) { request.whole(1'000'000'000); });
  world.start();
  const auto reply = world.chat(",\"max_tokens\":50");
  world.run(milliseconds(5));
  ASSERT_TRUE(only());
  EXPECT_EQ(only()->length, Tokens(50));
}

TEST_F(Learning, FailuresTeachNothing) {
  auto& engine = world.add_engine("a");
  world.start();
  engine.script([](EngineRequest& request) {
    request.begin_events();
    request.event("x");
    request.exchange->write("data: {\"error\":{\"message\":\"out of memory\"}}\n\n");
    request.usage(1);
    request.done();
  });
  const auto broken = world.stream();
  world.run(milliseconds(5));
  EXPECT_NE(broken->body.find("out of memory"), std::string::npos) << "the client still sees it";
  engine.script([](EngineRequest& request) { request.status(400); });
  const auto refused = world.chat();
  world.run(milliseconds(5));
  EXPECT_EQ(refused->status(), 400);
  engine.script([](EngineRequest& request) { request.exchange->abort(); });
  const auto dead = world.chat();
  world.run(milliseconds(5));
  EXPECT_EQ(dead->status(), 502);
  EXPECT_TRUE(world.oracle.heard.empty());
  EXPECT_TRUE(world.idle());
}

TEST_F(Learning, NothingIsPredictedOrLearnedWhereItIsOff) {
  world.config.predict.mode = PredictMode::kOff;
  int asked = 0;
  world.oracle.says = [&](const predict::RequestFeatures&) {
    ++asked;
    return std::optional<predict::Prediction>();
  };
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) { request.whole(42); });
  world.start();
  const auto reply = world.chat();
  world.run(milliseconds(5));
  EXPECT_EQ(reply->status(), 200);
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(world.oracle.heard.empty());
}

}  // namespace
}  // namespace tailrace::gateway
