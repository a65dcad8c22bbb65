// The gateway's table: what arrives, and what happens.
#include <gtest/gtest.h>

#include "gateway/support/world.h"

namespace tailrace::gateway {
namespace {

using namespace testing;

std::string error_message(const Reply& reply) {
  const auto at = reply.body.find("\"message\":\"");
  return at == std::string::npos
             ? ""
             : reply.body.substr(at + 11, reply.body.find('"', at + 11) - at - 11);
}

class Contract : public ::testing::Test {
 protected:
  World world;
};

TEST_F(Contract, MalformedBodiesAre400AndSayWhy) {
  world.add_engine("a");
  world.start();
  for (const char* body : {"{", "[]", "{\"model\":5}", "{\"model\":\"m\",\"stream\":\"yes\"}",
                           "{\"model\":\"m\",\"n\":\"two\"}"}) {
    const auto reply = world.send("POST", "/v1/chat/completions", body);
    world.run(milliseconds(5));
    EXPECT_EQ(reply->status(), 400) << body;
    EXPECT_FALSE(error_message(*reply).empty()) << reply->body;
  }
  EXPECT_TRUE(world.idle());
}

TEST_F(Contract, LimitsReachTheEngineUnchanged) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) { request.whole(1); });
  world.start();
  for (const char* limit : {"null", "0", "-5", "9223372036854775808", "1.5"}) {
    const std::string body =
        std::string("{\"model\":\"m\",\"messages\":[],\"max_tokens\": ") + limit + " }";
    const auto reply = world.send("POST", "/v1/chat/completions", body);
    world.run(milliseconds(5));
    EXPECT_EQ(reply->status(), 200) << limit << " " << reply->body;
    EXPECT_EQ(engine.requests.back()->body, body);
  }
}

TEST_F(Contract, UnknownModelIs404) {
  world.add_engine("a");
  world.start();
  const auto reply =
      world.send("POST", "/v1/chat/completions", "{\"model\":\"nope\",\"messages\":[]}");
  const auto relayed = world.send("POST", "/v1/embeddings", "{\"model\":\"nope\",\"input\":\"x\"}");
  world.run(milliseconds(5));
  EXPECT_EQ(reply->status(), 404);
  EXPECT_NE(reply->body.find("nope"), std::string::npos) << reply->body;
  EXPECT_EQ(relayed->status(), 404);
}

TEST_F(Contract, AWrongMethodIs405AndNamesTheRightOnes) {
  world.add_engine("a");
  world.start();
  const auto chat = world.send("GET", "/v1/chat/completions");
  const auto models = world.send("POST", "/v1/models", "{}");
  world.run(milliseconds(5));
  EXPECT_EQ(chat->status(), 405);
  EXPECT_EQ(chat->header("allow"), "POST");
  EXPECT_EQ(models->status(), 405);
  EXPECT_EQ(models->header("allow"), "GET, HEAD");
}

TEST_F(Contract, HealthIsWhatReadinessIs) {
  auto& engine = world.add_engine("a");
  world.start();
  for (const int wanted : {200, 503}) {
    const auto ready = world.send("GET", "/readyz");
    const auto health = world.send("GET", "/health");
    const auto alive = world.send("GET", "/healthz");
    world.run(milliseconds(5));
    EXPECT_EQ(ready->status(), wanted);
    EXPECT_EQ(health->status(), wanted);
    EXPECT_EQ(alive->status(), 200);
    engine.health_status = 500;
    world.run(seconds(30));
  }
}

TEST_F(Contract, AnOnlyModelNeedsNoName) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) { request.whole(1); });
  world.start();
  const auto reply = world.send("POST", "/v1/chat/completions", "{\"messages\":[]}");
  world.run(milliseconds(5));
  EXPECT_EQ(reply->status(), 200) << reply->body;
}

TEST_F(Contract, ABodyOverTheLimitIs413) {
  world.config.body_bytes_max = 1000;
  world.add_engine("a");
  world.start();
  const auto reply = world.send("POST", "/v1/chat/completions", std::string(1001, ' '));
  world.run(milliseconds(50));
  EXPECT_EQ(reply->status(), 413);
}

TEST_F(Contract, QueuedBytesOverTheirLimitAre413) {
  world.config.dispatch.queued_bytes_max = 300;
  world.add_engine("a", 1);
  world.start();
  const auto running = world.chat();
  const auto waiting = world.chat();
  world.run(milliseconds(5));
  const auto large = world.chat(",\"x\":\"" + std::string(290, 'y') + "\"");
  world.run(milliseconds(5));
  // Where the announced length alone is too much for the pool, it is refused before it is received.
  EXPECT_TRUE(large->status() == 413 || large->status() == 503) << large->status();
  EXPECT_EQ(world.pool().waiting, 1U);
}

TEST_F(Contract, NoSpellingOfAPathSlipsPastTheQueue) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) { request.whole(1); });
  world.start();
  for (const char* path :
       {"/v1/chat/completions/", "/v1//chat/completions", "/v1/chat%2fcompletions",
        "/v1/chat/completion%73", "/v1/chat/completion%2573", "/v1/./chat/completions",
        "/v1/x/../chat/completions", "/v1/%2e%2e/v1/completions", "/v1/chat/completions#x",
        "/v1\\completions", "/v1/../tokenize", "/v1/%2e%2e/metrics"}) {
    const auto reply = world.send("POST", path, "{\"model\":\"m\",\"messages\":[]}");
    world.run(milliseconds(5));
    EXPECT_TRUE(reply->status() == 400 || reply->status() == 404) << path << reply->status();
  }
  EXPECT_TRUE(engine.requests.empty()) << engine.requests.front()->head.target;
  // What is no generation in any spelling passes as it is.
  const auto file = world.send("GET", "/v1/files/a%2Fb%20c");
  world.run(milliseconds(5));
  ASSERT_EQ(engine.requests.size(), 1U);
  EXPECT_EQ(engine.requests.front()->head.target, "/v1/files/a%2Fb%20c");
}

TEST_F(Contract, RelayedBodiesAreBoundedTogether) {
  world.config.dispatch.queued_bytes_max = 1000;
  auto& engine = world.add_engine("a");
  world.start();
  const std::string body = "{\"model\":\"m\",\"input\":\"" + std::string(600, 'x') + "\"}";
  const auto first = world.send("POST", "/v1/embeddings", body);
  world.run(milliseconds(5));
  const auto second = world.send("POST", "/v1/embeddings", body);
  world.run(milliseconds(5));
  EXPECT_EQ(second->status(), 503) << second->body;
  EXPECT_NE(second->header("retry-after"), "");
  first->leave();
  world.run(milliseconds(5));
  engine.script([](EngineRequest& request) { request.whole(1); });
  const auto third = world.send("POST", "/v1/embeddings", body);
  world.run(milliseconds(5));
  EXPECT_EQ(third->status(), 200) << third->body;
  EXPECT_TRUE(world.idle());
}

TEST_F(Contract, AnnouncedBytesThatDoNotComeRefuseNobody) {
  world.config.body_bytes_max = 1000;
  world.config.dispatch.queued_bytes_max = 1000;
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) { request.whole(1); });
  world.start();
  const auto silent = world.send("POST", "/v1/chat/completions", "", {{"content-length", "1000"}});
  world.run(milliseconds(5));
  const auto reply = world.chat();
  world.run(milliseconds(5));
  EXPECT_EQ(reply->status(), 200) << reply->body;
}

TEST_F(Contract, AFullQueueIs429WithRetryAfter) {
  world.config.dispatch.queued_jobs_max = 1;
  world.add_engine("a", 1);
  world.start();
  const auto running = world.chat();
  world.run(milliseconds(5));
  const auto waiting = world.chat();
  world.run(milliseconds(5));
  const auto third = world.chat();
  world.run(milliseconds(5));
  EXPECT_EQ(third->status(), 429);
  EXPECT_GE(std::stoi(third->header("retry-after")), 1);
  EXPECT_NE(third->body.find("\"type\":\"rate_limit_error\""), std::string::npos) << third->body;
  EXPECT_EQ(world.pool().waiting, 1U);
}

TEST_F(Contract, ADeadlineThatPassesInTheQueueIs429) {
  world.add_engine("a", 1);
  world.start();
  const auto running = world.chat();
  world.run(milliseconds(5));
  const auto late = world.chat("", {{"x-tailrace-deadline-ms", "200"}});
  world.run(milliseconds(100));
  EXPECT_EQ(late->status(), 0);
  world.run(milliseconds(200));
  EXPECT_EQ(late->status(), 429);
  EXPECT_FALSE(late->header("retry-after").empty());
  EXPECT_EQ(world.pool().waiting, 0U);
}

TEST_F(Contract, TheWaitingLimitIs503AndFreesThePlace) {
  world.config.timeouts.queue = seconds(1);
  world.add_engine("a", 1);
  world.start();
  const auto running = world.chat();
  world.run(milliseconds(5));
  const auto waiting = world.chat();
  world.run(milliseconds(900));
  EXPECT_EQ(waiting->status(), 0);
  world.run(milliseconds(200));
  EXPECT_EQ(waiting->status(), 503);
  EXPECT_FALSE(waiting->header("retry-after").empty());
  EXPECT_EQ(world.pool().waiting, 0U);
}

class BusyEngine : public ::testing::TestWithParam<int> {
 protected:
  World world;
};

TEST_P(BusyEngine, TheJobKeepsItsPlaceAndGoesAgainAfterRetryAfter) {
  auto& engine = world.add_engine("a", 1);
  int answers = 0;
  engine.script([&](EngineRequest& request) {
    if (++answers <= 2) return request.status(GetParam(), {{"retry-after", "2"}});
    request.whole(1);
  });
  world.start();
  const auto first = world.chat(",\"user\":\"first\"");
  world.run(milliseconds(5));
  const auto second = world.chat(",\"user\":\"second\"");
  world.run(milliseconds(1900));
  EXPECT_EQ(engine.requests.size(), 1U) << "the engine asked for two seconds";
  world.run(seconds(5));
  EXPECT_EQ(first->status(), 200);
  EXPECT_EQ(second->status(), 200);
  ASSERT_EQ(engine.requests.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NE(engine.requests[i]->body.find("first"), std::string::npos) << i;
  }
  EXPECT_TRUE(world.idle());
}

TEST_P(BusyEngine, AfterTheWaitingLimitItsOwnAnswerIsRelayedWithRetryAfter) {
  world.config.timeouts.queue = seconds(3);
  auto& engine = world.add_engine("a", 1);
  engine.script([&](EngineRequest& request) { request.status(GetParam()); });
  world.start();
  const auto reply = world.chat();
  world.run(milliseconds(2500));
  EXPECT_EQ(reply->status(), 0);
  world.run(seconds(1));
  EXPECT_EQ(reply->status(), GetParam());
  EXPECT_EQ(reply->body, "{\"busy\":true}");
  EXPECT_FALSE(reply->header("retry-after").empty());
  EXPECT_TRUE(world.idle());
}

TEST_P(BusyEngine, AnotherBackendTakesTheJobAtOnce) {
  auto& busy = world.add_engine("a");
  auto& free = world.add_engine("b");
  busy.script([&](EngineRequest& request) { request.status(GetParam(), {{"retry-after", "30"}}); });
  free.script([](EngineRequest& request) { request.whole(1); });
  world.start();
  for (int i = 0; i < 4; ++i) {
    const auto reply = world.chat();
    world.run(milliseconds(10));
    EXPECT_EQ(reply->status(), 200);
    EXPECT_EQ(reply->header("x-tailrace-backend"), "b");
  }
  EXPECT_LE(busy.requests.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Statuses, BusyEngine, ::testing::Values(429, 503));

TEST_F(Contract, SamplesTakeAsManySlots) {
  auto& engine = world.add_engine("a", 3);
  world.start();
  const auto four = world.chat(",\"n\":4");
  const auto two = world.chat(",\"n\":2");
  world.run(milliseconds(5));
  const auto another = world.chat(",\"n\":2");
  world.run(milliseconds(5));
  EXPECT_EQ(four->status(), 400);
  EXPECT_EQ(engine.requests.size(), 1U);
  EXPECT_EQ(world.pool().waiting, 1U);
  two->leave();
  world.run(milliseconds(5));
  EXPECT_EQ(engine.requests.size(), 2U);
}

TEST_F(Contract, OtherEndpointsPassUnqueued) {
  auto& engine = world.add_engine("a", 1);
  world.start();
  const auto running = world.chat();
  world.run(milliseconds(5));
  engine.script([](EngineRequest& request) { request.status(200, {}, "{\"tokens\":[1]}"); });
  const auto other = world.send("POST", "/v1/embeddings?x=1", "{\"model\":\"m\",\"input\":\"x\"}");
  world.run(milliseconds(5));
  EXPECT_EQ(other->status(), 200) << "it waited behind a generation";
  EXPECT_EQ(other->body, "{\"tokens\":[1]}");
  EXPECT_EQ(engine.requests.back()->head.target, "/v1/embeddings?x=1");
}

TEST_F(Contract, OtherEndpointsWithoutABodyOrModelGoToAnyHealthyBackend) {
  auto& sick = world.add_engine("a");
  auto& well = world.add_engine("b");
  sick.health_status = 500;
  well.script([](EngineRequest& request) { request.status(200, {}, "[]"); });
  world.start();
  const auto files = world.send("GET", "/v1/files?limit=2");
  world.run(milliseconds(5));
  const auto form = world.send("POST", "/v1/audio/transcriptions", std::string("\0\x01{", 3),
                               {{"content-type", "multipart/form-data; boundary=x"}});
  world.run(milliseconds(5));
  EXPECT_EQ(files->body, "[]");
  EXPECT_EQ(form->body, "[]");
  EXPECT_TRUE(sick.requests.empty());
  ASSERT_EQ(well.requests.size(), 2U);
  EXPECT_EQ(well.requests[1]->body, std::string("\0\x01{", 3));
}

TEST_F(Contract, ARelayedStreamOfAnotherApiPassesWhole) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) {
    request.begin_events();
    request.exchange->write("event: message_start\ndata: {\"type\":\"message_start\"}\n\n");
    request.usage(3);
    request.exchange->finish();
  });
  world.start();
  const auto reply = world.send("POST", "/v1/messages", "{\"model\":\"m\",\"stream\":true}");
  world.run(milliseconds(5));
  EXPECT_NE(reply->body.find("message_start"), std::string::npos);
  EXPECT_NE(reply->body.find("\"completion_tokens\":3"), std::string::npos)
      << "nobody asked here, so nothing is dropped";
  EXPECT_EQ(reply->header("x-accel-buffering"), "no");
}

TEST_F(Contract, ModelsAreMerged) {
  world.add_engine("a", 1, {"m"});
  auto& second = world.add_engine("b", 1, {"m", "other"});
  second.models =
      R"({"object":"list","data":[{"id":"m"},{"id":"other","owned_by":"b"},{"id":"hidden"}]})";
  world.start();
  const auto list = world.send("GET", "/v1/models");
  const auto one = world.send("GET", "/v1/models/other");
  const auto none = world.send("GET", "/v1/models/hidden");
  world.run(milliseconds(5));
  EXPECT_EQ(
      list->body,
      R"({"object":"list","data":[{"id":"m","object":"model","owned_by":"engine"},{"id":"other","owned_by":"b"}]})");
  EXPECT_EQ(one->body, R"({"id":"other","owned_by":"b"})");
  EXPECT_EQ(none->status(), 404);
}

TEST_F(Contract, AJobOfOneModelNeverBlocksAnother) {
  auto& slow = world.add_engine("a", 1, {"m"});
  auto& quick = world.add_engine("b", 1, {"other"});
  quick.script([](EngineRequest& request) { request.whole(1); });
  world.start();
  const auto running = world.chat();
  const auto waiting = world.chat();
  world.run(milliseconds(5));
  const auto other =
      world.send("POST", "/v1/completions", "{\"model\":\"other\",\"prompt\":\"x\"}");
  world.run(milliseconds(5));
  EXPECT_EQ(other->status(), 200);
  EXPECT_EQ(slow.requests.size(), 1U);
}

TEST_F(Contract, ReadyOnlyWithABackendThatAnswers) {
  auto& engine = world.add_engine("a");
  engine.health_status = 500;
  world.start();
  const auto before = world.send("GET", "/readyz");
  const auto alive = world.send("GET", "/healthz");
  world.run(milliseconds(5));
  EXPECT_EQ(before->status(), 503);
  EXPECT_EQ(alive->status(), 200);
  engine.health_status = 200;
  world.run(seconds(3));
  const auto after = world.send("GET", "/readyz");
  world.run(milliseconds(5));
  EXPECT_EQ(after->status(), 200);
}

}  // namespace
}  // namespace tailrace::gateway
