// What passes through the gateway, byte for byte, and what it adds.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "gateway/support/world.h"
#include "gateway/usage_filter.h"
#include "tailrace/core/text.h"

namespace tailrace::gateway {
namespace {

using namespace testing;
namespace fs = std::filesystem;

constexpr const char* kUsageAsked = ",\"stream_options\":{\"include_usage\":true}";

struct Stream {
  std::string name;
  std::string bytes;
};

std::vector<Stream> chat_streams() {
  std::vector<Stream> streams;
  for (const auto& entry :
       fs::directory_iterator(fs::path(TAILRACE_SOURCE_DIR) / "tests/gateway/streams")) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("chat") || !name.ends_with(".sse")) continue;
    streams.push_back({name, core::read_file(entry.path().string(), 1 << 20).value()});
  }
  std::sort(streams.begin(), streams.end(), [](auto& a, auto& b) { return a.name < b.name; });
  return streams;
}

class Relay : public ::testing::Test {
 protected:
  /// One request whose answer is `first`, a pause, `second`.
  std::string relayed(Engine& engine, std::string_view extra, std::string first,
                      std::string second) {
    engine.script([&](EngineRequest& request) {
      request.begin_events();
      if (!first.empty()) request.exchange->write(first);
      timer = world.loop.after(std::chrono::microseconds(500), [&, exchange = request.exchange] {
        if (!second.empty()) exchange->write(second);
        exchange->finish();
      });
    });
    const auto reply = world.stream(std::string(extra));
    world.run(milliseconds(2));
    EXPECT_TRUE(reply->ended);
    return reply->body;
  }

  World world;
  std::unique_ptr<net::Timer> timer;
};

TEST_F(Relay, StreamsAreIdenticalForEverySplitWhereTheClientAskedForUsage) {
  auto& engine = world.add_engine("a");
  world.start();
  for (const auto& [name, bytes] : chat_streams()) {
    for (std::size_t at = 0; at <= bytes.size(); ++at) {
      ASSERT_EQ(relayed(engine, kUsageAsked, bytes.substr(0, at), bytes.substr(at)), bytes)
          << name << " split at " << at;
    }
    engine.requests.clear();
  }
}

TEST_F(Relay, OnlyTheUsageEventThatWeCausedIsMissingForEverySplit) {
  auto& engine = world.add_engine("a");
  world.start();
  for (const auto& [name, bytes] : chat_streams()) {
    std::string expected;
    UsageFilter filter(Route::kChat, true);
    filter.feed(bytes, expected);
    filter.finish(expected);
    for (std::size_t at = 0; at <= bytes.size(); ++at) {
      ASSERT_EQ(relayed(engine, "", bytes.substr(0, at), bytes.substr(at)), expected)
          << name << " split at " << at;
    }
    engine.requests.clear();
  }
}

TEST_F(Relay, StreamsAreIdenticalByteByByte) {
  net::SimLink link;
  link.read_bytes = {1};
  world.network.set_link(link);
  auto& engine = world.add_engine("a");
  world.start();
  for (const auto& [name, bytes] : chat_streams()) {
    EXPECT_EQ(relayed(engine, kUsageAsked, bytes, ""), bytes) << name;
  }
}

TEST_F(Relay, UsageIsAskedForAndItsEventIsOurs) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) {
    request.begin_events();
    request.event("x");
    request.usage(17);
    request.done();
  });
  world.start();
  const auto silent = world.stream();
  const auto asking = world.stream(kUsageAsked);
  world.run(milliseconds(5));
  EXPECT_NE(engine.requests[0]->body.find("\"include_usage\":true"), std::string::npos);
  EXPECT_EQ(silent->body.find("usage"), std::string::npos);
  EXPECT_NE(asking->body.find("\"completion_tokens\":17"), std::string::npos);
  EXPECT_TRUE(silent->body.ends_with("data: [DONE]\n\n"));
  ASSERT_EQ(world.oracle.heard.size(), 2U);
  for (const auto& heard : world.oracle.heard) EXPECT_EQ(heard.observation.length, Tokens(17));
}

TEST_F(Relay, EachEventLeavesAtOnce) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) { request.begin_events(); });
  world.start();
  const auto reply = world.stream();
  world.run(milliseconds(5));
  for (int i = 0; i < 10; ++i) {
    const auto before = reply->body.size();
    engine.requests.back()->event("token");
    world.run(std::chrono::microseconds(200));  // two hops of 50 microseconds each
    EXPECT_GT(reply->body.size(), before) << i;
    world.run(milliseconds(250));
  }
}

TEST_F(Relay, HeadersPassExceptThoseOfOneConnection) {
  auto& engine = world.add_engine("a");
  world.config.backends[0].api_key = Secret("sk-engine");
  engine.script([](EngineRequest& request) {
    net::ResponseHead head;
    head.status = 201;
    head.headers = {{"content-type", "application/json"},
                    {"x-engine", "1"},
                    {"keep-alive", "5"},
                    {"set-cookie", "a=1"},
                    {"set-cookie", "b=2"}};
    request.exchange->respond(std::move(head), "{}");
  });
  world.start();
  const auto reply = world.chat("", {{"authorization", "Bearer sk-client"},
                                     {"accept-encoding", "gzip"},
                                     {"x-custom", "kept"},
                                     {"x-tailrace-tenant", "t"},
                                     {"x-tailrace-length-law", "log-t;mu=4;sigma=1"},
                                     {"x-request-id", "mine-1"}});
  world.run(milliseconds(5));
  const auto& sent = engine.requests.back()->head.headers;
  EXPECT_EQ(sent.find("authorization"), "Bearer sk-engine");
  EXPECT_EQ(sent.find("accept-encoding"), "identity");
  EXPECT_EQ(sent.find("x-custom"), "kept");
  EXPECT_EQ(sent.find("x-request-id"), "mine-1");
  EXPECT_FALSE(sent.find("x-tailrace-tenant"));
  EXPECT_FALSE(sent.find("x-tailrace-length-law"));
  EXPECT_EQ(sent.find("host"), "10.0.0.1:8000");
  EXPECT_EQ(reply->status(), 201);
  EXPECT_EQ(reply->header("x-engine"), "1");
  EXPECT_EQ(reply->head.headers.count("set-cookie"), 2U);
  EXPECT_FALSE(reply->head.headers.find("keep-alive"));
  EXPECT_EQ(reply->header("x-tailrace-request-id"), "mine-1");
  EXPECT_EQ(reply->header("x-tailrace-backend"), "a");
  EXPECT_EQ(reply->header("x-tailrace-queue-ms"), "0");
}

TEST_F(Relay, AStreamSaysThatNobodyMayHoldItBack) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) {
    request.begin_events();
    request.done();
  });
  world.start();
  const auto reply = world.stream();
  world.run(milliseconds(5));
  EXPECT_EQ(reply->header("cache-control"), "no-cache");
  EXPECT_EQ(reply->header("x-accel-buffering"), "no");
}

TEST_F(Relay, AHostileRequestIdIsReplaced) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) { request.whole(1); });
  world.start();
  const auto reply = world.chat("", {{"x-request-id", "a b\"<script>"}});
  world.run(milliseconds(5));
  EXPECT_TRUE(reply->header("x-tailrace-request-id").starts_with("tr-"));
}

TEST_F(Relay, PredictionsAreShownAndOrderOnlyWhereCalibrated) {
  auto& engine = world.add_engine("a", 1);
  world.oracle.says = [](const predict::RequestFeatures& features) {
    const double mu = features.tenant == "short" ? 2 : 8;
    return predict::Prediction{length::LengthLaw::log_t(mu, 0.3).value(), true};
  };
  world.start();
  const auto running = world.chat();
  world.run(milliseconds(5));
  const auto longer = world.chat(",\"user\":\"long\"");
  world.run(milliseconds(5));
  const auto shorter = world.chat(",\"user\":\"short\"", {{"x-tailrace-tenant", "short"}});
  world.run(milliseconds(5));
  engine.script([](EngineRequest& request) { request.whole(1); });
  engine.requests.back()->whole(1);
  world.run(milliseconds(20));
  ASSERT_EQ(engine.requests.size(), 3U);
  EXPECT_NE(engine.requests[1]->body.find("short"), std::string::npos) << "the short one overtakes";
  EXPECT_EQ(shorter->header("x-tailrace-predicted-p50"), "7");
  EXPECT_FALSE(longer->header("x-tailrace-predicted-p90").empty());
}

TEST_F(Relay, ShadowModePredictsAndLearnsButKeepsTheOrderOfArrival) {
  world.config.predict.mode = PredictMode::kShadow;
  auto& engine = world.add_engine("a", 1);
  world.oracle.says = [](const predict::RequestFeatures& features) {
    const double mu = features.tenant == "short" ? 2 : 8;
    return predict::Prediction{length::LengthLaw::log_t(mu, 0.3).value(), true};
  };
  world.start();
  const auto running = world.chat();
  world.run(milliseconds(5));
  const auto longer = world.chat(",\"user\":\"long\",\"max_tokens\":4000");
  world.run(milliseconds(5));
  const auto shorter =
      world.chat(",\"user\":\"short\",\"max_tokens\":10", {{"x-tailrace-tenant", "short"}});
  world.run(milliseconds(5));
  engine.script([](EngineRequest& request) { request.whole(1); });
  engine.requests.back()->whole(1);
  world.run(milliseconds(20));
  ASSERT_EQ(engine.requests.size(), 3U);
  EXPECT_NE(engine.requests[1]->body.find("long"), std::string::npos);
  EXPECT_EQ(world.oracle.heard.size(), 3U);
}

TEST_F(Relay, GivenLawsOrderWhereTheConfigurationAllowsThem) {
  world.config.predict.mode = PredictMode::kOff;
  world.config.predict.accept_given_laws = true;
  auto& engine = world.add_engine("a", 1);
  world.start();
  const auto running = world.chat();
  world.run(milliseconds(5));
  const auto longer =
      world.chat(",\"user\":\"long\"", {{"x-tailrace-length-law", "log-t;mu=8;sigma=0.5"}});
  world.run(milliseconds(5));
  const auto shorter =
      world.chat(",\"user\":\"short\"", {{"x-tailrace-length-law", "log-t;mu=2;sigma=0.5"}});
  const auto wrong = world.chat("", {{"x-tailrace-length-law", "log-t;mu=x"}});
  world.run(milliseconds(5));
  engine.script([](EngineRequest& request) { request.whole(1); });
  engine.requests.back()->whole(1);
  world.run(milliseconds(20));
  ASSERT_EQ(engine.requests.size(), 3U);
  EXPECT_NE(engine.requests[1]->body.find("short"), std::string::npos);
  EXPECT_EQ(wrong->status(), 400);
}

TEST_F(Relay, ASlowReaderHoldsTheEngineBackAndMemoryStaysBounded) {
  net::SimLink link;
  link.window_bytes = 16 * 1024;
  world.network.set_link(link);
  world.config.server.write_buffer_bytes_max = 32 * 1024;
  world.config.server.write_timeout = seconds(600);
  auto& engine = world.add_engine("a", 1);
  std::size_t produced = 0;
  const std::string event = "data: " + std::string(1000, 'x') + "\n\n";
  constexpr std::size_t kTotal = 4 << 20;
  std::function<void(std::shared_ptr<net::Exchange>)> produce =
      [&](const std::shared_ptr<net::Exchange>& exchange) {
        while (produced < kTotal && exchange->writable()) {
          exchange->write(event);
          produced += event.size();
        }
        if (produced >= kTotal) return exchange->finish();
        exchange->on_writable([&produce, exchange] { produce(exchange); });
      };
  engine.script([&](EngineRequest& request) {
    request.begin_events();
    produce(request.exchange);
  });
  world.start();
  const auto reply = world.stream();
  world.run(milliseconds(5));
  reply->call->pause();
  world.run(seconds(30));
  // Two windows, the gateway's write buffer and the engine's own (256 KiB) are all that lies
  // between.
  EXPECT_LT(produced - reply->body.size(), 400U * 1024);
  EXPECT_FALSE(reply->ended);
  reply->call->resume();
  world.run(seconds(30));
  EXPECT_TRUE(reply->ended);
  EXPECT_EQ(reply->body.size(), produced);
  EXPECT_TRUE(world.idle());
}

TEST_F(Relay, LargeBodiesPassUnchanged) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) { request.whole(1); });
  world.start();
  const std::string body =
      "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
      "\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64," +
      std::string(2 << 20, 'A') + "\"}}]}]}";
  const auto reply = world.send("POST", "/v1/chat/completions", body);
  world.run(seconds(2));
  EXPECT_EQ(reply->status(), 200) << reply->body;
  EXPECT_EQ(engine.requests.back()->body, body);
}

}  // namespace
}  // namespace tailrace::gateway
