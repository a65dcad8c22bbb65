// What the gateway says of the pace of each backend's tokens, and of which streams decode there.
#include <gtest/gtest.h>

#include <cmath>

#include "gateway/backend_pace.h"
#include "gateway/support/world.h"
#include "tailrace/core/rng.h"

namespace tailrace::gateway {
namespace {

using namespace testing;

constexpr const char* kGap = "tailrace_backend_itl_seconds{backend=\"a\"}";
constexpr const char* kPerStream = "tailrace_backend_itl_per_stream_seconds{backend=\"a\"}";
constexpr const char* kError = "tailrace_backend_itl_per_stream_error_seconds{backend=\"a\"}";
constexpr const char* kStreams = "tailrace_backend_streams{backend=\"a\"}";

class Pace : public ::testing::Test {
 protected:
  /// The value of a series, as /metrics says it; nothing where there is no such series.
  std::optional<double> value(const std::string& series) {
    const auto metrics = world.admin("GET", "/metrics");
    world.run(milliseconds(5));
    EXPECT_EQ(metrics->body.find("backend_itl_seconds{backend=\"other\"}"), std::string::npos);
    EXPECT_EQ(metrics->body.find(" Nan"), std::string::npos) << metrics->body;
    const auto at = metrics->body.find("\n" + series + " ");
    if (at == std::string::npos) return std::nullopt;
    return std::stod(metrics->body.substr(at + series.size() + 2));
  }

  /// One engine whose streams begin with `events` and then wait for the test.
  Engine& engine_that_says(int events) {
    auto& engine = world.add_engine("a", 8);
    engine.script([events](EngineRequest& request) {
      request.begin_events();
      for (int i = 0; i < events; ++i) request.event("x");
    });
    world.start();
    return engine;
  }

  World world;
};

/// An engine that computes in iterations: each takes longer by `per_stream` for a stream in the
/// batch and by `per_prompt` for one that begins.
class IteratingEngine {
 public:
  Duration base = milliseconds(40), per_stream = milliseconds(4), per_prompt = milliseconds(20);

  IteratingEngine(World& world, std::uint64_t seed) : world_(world), rng_(seed) {
    auto& engine = world.add_engine("a", 64);
    engine.script([this](EngineRequest& request) {
      for (const auto& one : world_.engines.at("a")->requests) {
        if (one.get() == &request) waiting_.push_back({one, 1 + 60 * rng_.exponential()});
      }
    });
  }

  /// Requests come by chance, `per_s` of them.
  void run(Duration duration, double per_s) {
    const MonoTime until = world_.loop.now() + duration;
    while (world_.loop.now() < until) {
      const auto prompts = static_cast<std::int64_t>(waiting_.size());
      for (auto& one : waiting_) {
        one.request->begin_events();
        batch_.push_back(one);
      }
      waiting_.clear();
      const auto streams = static_cast<std::int64_t>(batch_.size());
      const Duration takes =
          streams == 0 ? milliseconds(10) : base + streams * per_stream + prompts * per_prompt;
      due_ += to_seconds(takes) * per_s;
      for (; due_ >= next_; next_ += rng_.exponential()) replies.push_back(world_.stream());
      world_.run(takes);
      std::erase_if(batch_, [](Decoding& one) {
        one.request->event("x");
        const bool ends = --one.left < 1;
        if (ends) one.request->done();
        return ends;
      });
    }
  }

  std::vector<std::shared_ptr<Reply>> replies;

 private:
  struct Decoding {
    std::shared_ptr<EngineRequest> request;
    double left;
  };
  World& world_;
  Rng rng_;
  std::vector<Decoding> waiting_, batch_;
  double due_ = 0, next_ = 1;
};

TEST_F(Pace, TellsByHowMuchOneMoreStreamSlowsTheBackend) {
  IteratingEngine engine(world, 7);
  world.start();
  EXPECT_FALSE(value(kGap));
  engine.run(seconds(150), 2.0);
  ASSERT_TRUE(value(kPerStream));
  const double slope = to_seconds(engine.per_stream);
  EXPECT_NEAR(*value(kPerStream), slope, 0.1 * slope);
  EXPECT_LT(*value(kError), 0.1 * slope);
  EXPECT_GT(*value(kGap), to_seconds(engine.base + 3 * engine.per_stream));
  EXPECT_LT(*value(kGap), to_seconds(engine.base + 20 * engine.per_stream));
}

TEST_F(Pace, IsForgottenTwoMinutesAfterTheLastToken) {
  IteratingEngine engine(world, 7);
  world.start();
  engine.run(seconds(130), 2.0);
  ASSERT_TRUE(value(kGap));
  engine.run(seconds(20), 0.0);
  EXPECT_TRUE(value(kGap));
  world.run(seconds(121));
  for (const char* series : {kGap, kPerStream, kError}) EXPECT_FALSE(value(series)) << series;
}

TEST_F(Pace, GoesWithItsBackendAndStaysWhereTheBackendIsPutAgain) {
  IteratingEngine engine(world, 7);
  world.start();
  engine.run(seconds(130), 2.0);
  const auto put = [&](const std::string& url) {
    const auto reply = world.admin("PUT", "/tailrace/v1/backends/a",
                                   "{\"url\":\"" + url + "\",\"models\":[\"m\"],\"slots\":70}");
    world.run(milliseconds(5));
    EXPECT_LT(reply->status(), 300) << reply->body;
  };
  const auto streams = value(kStreams);
  ASSERT_GT(streams.value_or(0), 0);
  put(world.engines.at("a")->url());
  EXPECT_TRUE(value(kGap));
  EXPECT_EQ(value(kStreams), streams);
  put("http://10.0.0.9:1");
  EXPECT_FALSE(value(kGap)) << "another address is another engine";
  EXPECT_EQ(value(kStreams), 0);
  put(world.engines.at("a")->url());
  const auto removed = world.admin("DELETE", "/tailrace/v1/backends/a");
  world.run(milliseconds(5));
  for (const char* series : {kGap, kPerStream, kError}) EXPECT_FALSE(value(series)) << series;
}

TEST_F(Pace, StreamsCountAgainWhereTheirBackendWasRemovedAndPutAgain) {
  auto& engine = engine_that_says(2);
  const auto reply = world.stream(), other = world.stream();
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 2);
  const auto removed = world.admin("DELETE", "/tailrace/v1/backends/a");
  world.run(milliseconds(5));
  EXPECT_EQ(removed->status(), 200);
  engine.requests.front()->done();
  const auto put = world.admin("PUT", "/tailrace/v1/backends/a",
                               "{\"url\":\"" + engine.url() + "\",\"models\":[\"m\"],\"slots\":8}");
  world.run(milliseconds(5));
  EXPECT_LT(put->status(), 300) << put->body;
  EXPECT_EQ(value(kStreams), 1) << "it is still in the engine's batch";
  engine.requests.back()->done();
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 0);
}

TEST_F(Pace, StreamsCountFromTheirFirstTokenUntilTheirLast) {
  auto& engine = engine_that_says(0);
  const auto reply = world.stream();
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 0);
  auto& request = *engine.requests.front();
  request.exchange->write(": keep-alive\n\n");
  request.exchange->write(
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n");
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 0) << "nothing was generated yet";
  request.event("x");
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 1);
  request.event("y");
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 1);
  request.exchange->write(
      "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 0) << "the engine has ended it";
  request.event("z");
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 0) << "what comes after the end counts no more";
  request.usage(3);
  request.done();
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 0);
  EXPECT_TRUE(world.idle());
}

TEST_F(Pace, AStreamCountsNoMoreHoweverItEnds) {
  world.config.timeouts.idle = seconds(2);
  auto& engine = engine_that_says(2);
  const auto begin = [&] {
    auto reply = world.stream();
    world.run(milliseconds(5));
    EXPECT_EQ(value(kStreams), 1);
    return reply;
  };
  begin()->leave();
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 0) << "the client left";

  const auto finished = begin();
  engine.requests.back()->done();
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 0) << "it is complete";

  const auto unsaid = begin();
  engine.requests.back()->exchange->finish();
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 0) << "its body ended without a word";

  const auto erred = begin();
  engine.requests.back()->exchange->write("data: {\"error\":{\"message\":\"out of memory\"}}\n\n");
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 0) << "the engine said an error";

  const auto broken = begin();
  engine.requests.back()->exchange->abort();
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 0) << "the connection broke";

  const auto silent = begin();
  world.run(seconds(3));
  EXPECT_EQ(value(kStreams), 0) << "the engine fell silent";

  const auto killed = begin();
  engine.kill();
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 0) << "the engine died";
  EXPECT_TRUE(world.idle());
}

TEST_F(Pace, AStreamCutByTheEndOfADrainCountsNoMore) {
  world.config.drain.limit = seconds(1);
  engine_that_says(2);
  const auto reply = world.stream();
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 1);
  bool over = false;
  world.gateway->begin_drain([&](bool) { over = true; });
  for (int i = 0; i < 400 && !over; ++i) world.run(milliseconds(50));
  ASSERT_TRUE(over);
  world.run(milliseconds(5));
  EXPECT_TRUE(reply->body.find("shutting down") != std::string::npos) << reply->body;
  EXPECT_EQ(value(kStreams), 0);
}

TEST_F(Pace, ARequestThatMovesOnCountsWhereItIsAnswered) {
  auto& dead = world.add_engine("a", 4);
  dead.script([&dead](EngineRequest& request) {
    request.begin_events();
    request.exchange->abort();
    dead.kill();
  });
  auto& other = world.add_engine("b", 4);
  other.script([](EngineRequest& request) {
    request.begin_events();
    request.event("x");
  });
  world.start();
  std::vector<std::shared_ptr<Reply>> replies;
  for (int i = 0; i < 4; ++i) replies.push_back(world.stream());
  world.run(milliseconds(50));
  ASSERT_FALSE(dead.requests.empty());
  EXPECT_EQ(value(kStreams), 0);
  EXPECT_EQ(value("tailrace_backend_streams{backend=\"b\"}"), 4);
}

TEST_F(Pace, SeveralChoicesAndWholeAnswersAreNoStreams) {
  auto& engine = engine_that_says(2);
  const auto two = world.stream(",\"n\":2");
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 0);
  const auto unasked = world.stream();
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 1);
  engine.requests.back()->exchange->write(
      "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}}]}\n\n");
  world.run(milliseconds(5));
  EXPECT_EQ(value(kStreams), 0) << "it turns out to write several";
  engine.script([](EngineRequest& request) { request.whole(5); });
  const auto whole = world.chat();
  world.run(milliseconds(5));
  EXPECT_EQ(whole->status(), 200);
  EXPECT_EQ(value(kStreams), 0);
}

TEST_F(Pace, AnEngineThatSaysThousandsOfTokensAtOnceTellsNothing) {
  auto& engine = engine_that_says(1);
  std::vector<std::shared_ptr<Reply>> replies;
  for (int i = 0; i < 3; ++i) replies.push_back(world.stream());
  for (int round = 0; round < 20; ++round) {
    world.run(seconds(7));
    for (const auto& request : engine.requests) {
      for (int i = 0; i < 500; ++i) request->event("x");
    }
    for (const char* series : {kGap, kPerStream, kError}) {
      const auto number = value(series);
      EXPECT_TRUE(!number || std::isfinite(*number)) << series;
      EXPECT_FALSE(series == kGap && number == 0);
    }
  }
  EXPECT_EQ(value(kStreams), 3);
}

TEST(PacedStream, CountsItselfOnlyFromItsFirstTokenAndOutlivesItsBackend) {
  auto pace = std::make_shared<BackendPace>();
  const std::weak_ptr<BackendPace> watch = pace;
  auto first = std::make_unique<PacedStream>(pace);
  auto second = std::make_unique<PacedStream>(pace);
  const MonoTime now{seconds(1)};
  first->first_token(now);
  EXPECT_EQ(pace->streams, 1);
  second.reset();
  EXPECT_EQ(pace->streams, 1) << "it never began";
  pace.reset();
  first->gap(now + seconds(1), seconds(1));
  EXPECT_EQ(watch.lock()->streams, 1);
  first.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(PacedStream, TimeThatStandsStillMakesNoNumberThatIsNone) {
  const auto pace = std::make_shared<BackendPace>();
  PacedStream stream(pace);
  stream.first_token(MonoTime{});
  for (int i = 0; i < 100'000; ++i) stream.gap(MonoTime{}, Duration{});
  EXPECT_FALSE(pace->meter.at(MonoTime{}));
}

}  // namespace
}  // namespace tailrace::gateway
