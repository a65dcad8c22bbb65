// Engines that die, hang or cut their answers; clients that leave.
#include <gtest/gtest.h>

#include "gateway/support/world.h"

namespace tailrace::gateway {
namespace {

using namespace testing;

class Failure : public ::testing::Test {
 protected:
  World world;
};

TEST_F(Failure, DeathBeforeTheFirstByteIs502AndFreesTheSlot) {
  auto& engine = world.add_engine("a", 1);
  engine.script([](EngineRequest& request) { request.exchange->abort(); });
  world.start();
  const auto reply = world.chat();
  world.run(milliseconds(20));
  EXPECT_EQ(reply->status(), 502);
  EXPECT_NE(reply->body.find("\"error\""), std::string::npos);
  // Once more at most: the first try may have met a kept-alive connection that was closing anyway.
  EXPECT_LE(engine.requests.size(), 2U);
  EXPECT_TRUE(world.idle());
  engine.script([](EngineRequest& request) { request.whole(1); });
  const auto next = world.chat();
  world.run(milliseconds(20));
  EXPECT_EQ(next->status(), 200) << "later requests succeed";
}

TEST_F(Failure, DeathBeforeTheFirstByteMovesToAnotherBackend) {
  auto& dying = world.add_engine("a");
  auto& healthy = world.add_engine("b");
  dying.script([](EngineRequest& request) { request.exchange->abort(); });
  healthy.script([](EngineRequest& request) { request.whole(1); });
  world.start();
  for (int i = 0; i < 6; ++i) {
    const auto reply = world.chat();
    world.run(milliseconds(20));
    EXPECT_EQ(reply->status(), 200);
    EXPECT_EQ(reply->header("x-tailrace-backend"), "b");
  }
  EXPECT_TRUE(world.idle());
}

TEST_F(Failure, DeathAfterTheHeadButBeforeTheBodyMovesToAnotherBackend) {
  auto& dying = world.add_engine("a");
  auto& healthy = world.add_engine("b");
  dying.script([](EngineRequest& request) {
    request.begin_events();
    request.exchange->abort();
  });
  healthy.script([](EngineRequest& request) {
    request.begin_events();
    request.event("x");
    request.done();
  });
  world.start();
  for (int i = 0; i < 4; ++i) {
    const auto reply = world.stream();
    world.run(milliseconds(20));
    EXPECT_EQ(reply->status(), 200);
    EXPECT_TRUE(reply->body.ends_with("data: [DONE]\n\n")) << reply->body;
  }
}

TEST_F(Failure, DeathMidStreamIsAnErrorEventWithoutDoneAndWithoutRepeats) {
  auto& dying = world.add_engine("a", 2);
  auto& other = world.add_engine("b", 1, {"m2"});
  dying.script([](EngineRequest& request) {
    request.begin_events();
    request.event("first");
  });
  world.start();
  const auto reply = world.stream();
  world.run(milliseconds(20));
  ASSERT_NE(reply->body.find("first"), std::string::npos);
  dying.requests.back()->exchange->abort();
  world.run(milliseconds(20));
  EXPECT_TRUE(reply->ended) << "an event stream ends in order";
  EXPECT_EQ(reply->body.find("[DONE]"), std::string::npos);
  EXPECT_EQ(reply->body.find("first"), reply->body.rfind("first"));
  EXPECT_NE(reply->body.find("\n\ndata: {\"error\":{\"message\":"), std::string::npos)
      << reply->body;
  EXPECT_TRUE(reply->body.ends_with("}}\n\n"));
  EXPECT_EQ(dying.requests.size() + other.requests.size(), 1U);
  EXPECT_TRUE(world.idle());
}

TEST_F(Failure, DeathInsideAnEventStillGivesAnErrorEventOfItsOwn) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) {
    request.begin_events();
    request.event("first");
    request.exchange->write("data: {\"choices\":[{\"del");
  });
  world.start();
  for (const char* usage : {"", ",\"stream_options\":{\"include_usage\":true}"}) {
    const auto reply = world.stream(usage);
    world.run(milliseconds(20));
    engine.requests.back()->exchange->abort();
    world.run(milliseconds(20));
    EXPECT_NE(reply->body.find("\n\ndata: {\"error\":"), std::string::npos) << reply->body;
  }
}

TEST_F(Failure, DeathInsideAWholeAnswerBreaksTheConnection) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) {
    net::ResponseHead head;
    head.headers.add("content-type", "application/json");
    request.exchange->begin(std::move(head), 1000);
    request.exchange->write("{\"choices\":");
  });
  world.start();
  const auto reply = world.chat();
  world.run(milliseconds(20));
  EXPECT_EQ(reply->body, "{\"choices\":");
  engine.requests.back()->exchange->abort();
  world.run(milliseconds(20));
  EXPECT_FALSE(reply->ended) << "a cut answer must not pass for a whole one";
  EXPECT_TRUE(reply->error.has_value());
  EXPECT_TRUE(world.idle());
}

TEST_F(Failure, ARefusedConnectionIs502OrAnotherBackend) {
  auto& first = world.add_engine("a");
  world.start();
  first.kill();
  const auto refused = world.chat();
  world.run(milliseconds(20));
  EXPECT_EQ(refused->status(), 502);
  EXPECT_TRUE(world.idle());
}

TEST_F(Failure, ARequestThatReachesNoEngineOfAnAwaitedModelWaitsForOne) {
  world.config.models["m"].awaited = true;
  auto& engine = world.add_engine("a", 4);
  engine.script([](EngineRequest& request) { request.whole(1); });
  world.start();
  engine.kill();
  std::vector<std::shared_ptr<Reply>> replies;
  for (int i = 0; i < 6; ++i) replies.push_back(world.chat());
  world.run(seconds(5));
  for (const auto& reply : replies) EXPECT_EQ(reply->status(), 0) << reply->body;
  EXPECT_EQ(world.pool().waiting, 6U);
  engine.start();
  world.run(seconds(10));
  for (const auto& reply : replies) EXPECT_EQ(reply->status(), 200) << reply->body;
  EXPECT_TRUE(world.idle());
}

TEST_F(Failure, AnUnreachableEngineIsNotAskedAgainAndAgainWhereNoProbeFindsOut) {
  world.config.models["m"].awaited = true;
  world.config.health.enabled = false;
  world.config.timeouts.queue = seconds(10);
  auto& engine = world.add_engine("a", 1);
  world.start();
  engine.kill();
  const auto reply = world.chat();
  world.run(seconds(11));
  EXPECT_EQ(reply->status(), 503) << "timeouts.queue holds";
  const auto metrics = world.admin("GET", "/metrics");
  world.run(milliseconds(5));
  const std::string series = "\ntailrace_backend_requests_total{backend=\"a\"} ";
  const auto at = metrics->body.find(series);
  ASSERT_NE(at, std::string::npos);
  const double attempts = std::stod(metrics->body.substr(at + series.size()));
  EXPECT_GT(attempts, 1);
  EXPECT_LT(attempts, 25) << "about two a second";
  EXPECT_TRUE(world.idle());
}

TEST_F(Failure, AnEngineThatNeverAnswersIs504AndFreesItsSlot) {
  world.config.timeouts.first_byte = seconds(2);
  auto& engine = world.add_engine("a", 1);
  world.start();
  const auto reply = world.chat();
  world.run(milliseconds(1900));
  EXPECT_EQ(reply->status(), 0);
  world.run(milliseconds(300));
  EXPECT_EQ(reply->status(), 504);
  EXPECT_TRUE(engine.requests.back()->gone) << "the engine must see that nobody waits";
  EXPECT_TRUE(world.idle());
}

TEST_F(Failure, AHeadWithoutABodyStillCountsAsNoAnswer) {
  world.config.timeouts.first_byte = seconds(2);
  auto& engine = world.add_engine("a", 1);
  engine.script([](EngineRequest& request) { request.begin_events(); });
  world.start();
  const auto reply = world.stream();
  world.run(milliseconds(2200));
  EXPECT_EQ(reply->status(), 504);
  EXPECT_TRUE(world.idle());
}

TEST_F(Failure, AStreamThatStallsIsCutAfterTheIdleTimeout) {
  world.config.timeouts.idle = seconds(2);
  auto& engine = world.add_engine("a", 1);
  engine.script([](EngineRequest& request) {
    request.begin_events();
    request.event("x");
  });
  world.start();
  const auto reply = world.stream();
  world.run(milliseconds(2200));
  EXPECT_NE(reply->body.find("\"error\""), std::string::npos);
  EXPECT_TRUE(reply->ended);
  EXPECT_TRUE(engine.requests.back()->gone);
  EXPECT_TRUE(world.idle());
}

TEST_F(Failure, AnEngineThatDiesUnderLoadFailsItsJobsAndServesAgainWhenItIsBack) {
  world.config.timeouts.queue = seconds(20);
  auto& engine = world.add_engine("a", 4);
  world.start();
  std::vector<std::shared_ptr<Reply>> replies;
  for (int i = 0; i < 12; ++i) replies.push_back(world.chat());
  world.run(milliseconds(20));
  EXPECT_EQ(engine.requests.size(), 4U);
  engine.kill();
  world.run(seconds(10));
  engine.script([](EngineRequest& request) { request.whole(1); });
  engine.start();
  world.run(seconds(15));
  int failed = 0;
  int served = 0;
  for (const auto& reply : replies) {
    ASSERT_TRUE(reply->ended);
    (reply->status() == 200 ? served : failed) += 1;
  }
  EXPECT_GE(failed, 4);
  EXPECT_EQ(served + failed, 12);
  EXPECT_TRUE(world.idle());
}

TEST_F(Failure, AnUnhealthyBackendGetsNothingUntilItsProbesSucceed) {
  auto& engine = world.add_engine("a");
  auto& other = world.add_engine("b");
  for (Engine* e : {&engine, &other}) e->script([](EngineRequest& request) { request.whole(1); });
  world.start();
  engine.health_status = 503;
  world.run(seconds(10));
  const auto before = engine.requests.size();
  for (int i = 0; i < 8; ++i) (void)world.chat(), world.run(milliseconds(5));
  EXPECT_EQ(engine.requests.size(), before);
  engine.health_status = 200;
  world.run(seconds(5));
  std::vector<std::shared_ptr<Reply>> replies;
  for (int i = 0; i < 8; ++i) replies.push_back(world.chat());
  world.run(milliseconds(20));
  EXPECT_GT(engine.requests.size(), before);
}

// A client may leave in every state; the engine and the queue must know at once.

TEST_F(Failure, LeavingWhileQueuedFreesThePlace) {
  auto& engine = world.add_engine("a", 1);
  world.start();
  const auto running = world.chat();
  world.run(milliseconds(5));
  const auto waiting = world.chat();
  world.run(milliseconds(5));
  ASSERT_EQ(world.pool().waiting, 1U);
  waiting->leave();
  world.run(milliseconds(1));
  EXPECT_EQ(world.pool().waiting, 0U);
  EXPECT_EQ(engine.requests.size(), 1U);
}

TEST_F(Failure, LeavingWhileConnectingFreesTheSlot) {
  world.config.health.enabled = false;
  auto& engine = world.add_engine("a", 1);
  world.start();
  world.network.set_reach(engine.endpoint(), net::SimNetwork::Reach::kSilent);
  const auto reply = world.chat();
  world.run(milliseconds(5));
  ASSERT_EQ(world.pool().running, 1U);
  reply->leave();
  world.run(milliseconds(1));
  EXPECT_TRUE(world.idle());
}

TEST_F(Failure, LeavingBeforeTheFirstByteClosesTheEnginesConnection) {
  auto& engine = world.add_engine("a", 1);
  world.start();
  for (const bool streams : {false, true}) {
    const auto reply = streams ? world.stream() : world.chat();
    world.run(milliseconds(5));
    const MonoTime left = world.loop.now();
    reply->leave();
    world.run(milliseconds(5));
    ASSERT_TRUE(engine.requests.back()->gone);
    EXPECT_LE(engine.requests.back()->gone_at - left, milliseconds(1));
    EXPECT_TRUE(world.idle());
  }
}

TEST_F(Failure, LeavingMidStreamClosesTheEnginesConnection) {
  auto& engine = world.add_engine("a", 1);
  engine.script([](EngineRequest& request) {
    request.begin_events();
    request.event("x");
  });
  world.start();
  const auto reply = world.stream();
  world.run(milliseconds(5));
  ASSERT_FALSE(reply->body.empty());
  reply->leave();
  world.run(milliseconds(1));
  EXPECT_TRUE(engine.requests.back()->gone);
  EXPECT_TRUE(world.idle());
}

TEST_F(Failure, LeavingWhileTheBodyIsSentEndsTheRequest) {
  auto& engine = world.add_engine("a", 1);
  world.start();
  std::unique_ptr<net::Stream> stream;
  const auto connecting = world.network.connect(
      world.config.listen, seconds(1), [&](Result<std::unique_ptr<net::Stream>> connected) {
        stream = std::move(connected.value());
      });
  world.run(milliseconds(5));
  stream->write(
      {"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{\"mod"},
      [](Result<void>) {});
  world.run(milliseconds(5));
  EXPECT_EQ(world.gateway->active_requests(), 1U);
  stream->close();
  world.run(milliseconds(5));
  EXPECT_EQ(world.gateway->active_requests(), 0U);
  EXPECT_TRUE(engine.requests.empty());
}

TEST_F(Failure, LeavingWhileAnEngineIsBusyEndsTheWait) {
  auto& engine = world.add_engine("a", 1);
  engine.script([](EngineRequest& request) { request.status(503, {{"retry-after", "1"}}); });
  world.start();
  const auto reply = world.chat();
  world.run(milliseconds(100));
  reply->leave();
  world.run(seconds(5));
  EXPECT_EQ(engine.requests.size(), 1U);
  EXPECT_TRUE(world.idle());
}

}  // namespace
}  // namespace tailrace::gateway
