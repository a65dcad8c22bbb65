// What an autoscaler reads of the gateway: what came, what waits, how long prompts and answers are.
#include <gtest/gtest.h>

#include "gateway/support/world.h"

namespace tailrace::gateway {
namespace {

using namespace testing;

class Demand : public ::testing::Test {
 protected:
  /// The value of a series, as /metrics says it.
  double value(const std::string& series) {
    const auto metrics = world.admin("GET", "/metrics");
    world.run(milliseconds(5));
    const auto at = metrics->body.find("\n" + series + " ");
    if (at == std::string::npos) return -1;
    return std::stod(metrics->body.substr(at + series.size() + 2));
  }
  World world;
};

TEST_F(Demand, WhatTheQueueHasNoRoomForHasArrivedAllTheSame) {
  world.config.dispatch.queued_jobs_max = 1;
  world.add_engine("a", 1);
  world.start();
  std::vector<std::shared_ptr<Reply>> replies;
  for (int i = 0; i < 5; ++i) replies.push_back(world.chat());
  world.run(milliseconds(5));
  EXPECT_EQ(replies.back()->status(), 429);
  EXPECT_EQ(value("tailrace_arrivals_total{model=\"m\"}"), 5);
  EXPECT_EQ(value("tailrace_queue_entries_total{model=\"m\"}"), 2);
}

TEST_F(Demand, WhatIsNoDemandHasNotArrived) {
  world.add_engine("a", 1);
  world.start();
  const auto invalid = world.send("POST", "/v1/chat/completions", "{");
  const auto too_large = world.chat(",\"n\":9");
  world.run(milliseconds(5));
  EXPECT_EQ(value("tailrace_arrivals_total{model=\"m\"}"), 0);
}

TEST_F(Demand, WhatGeneratesNothingIsCountedApart) {
  auto& engine = world.add_engine("a", 1);
  engine.script([](EngineRequest& request) { request.whole(1); });
  world.start();
  EXPECT_EQ(value("tailrace_relayed_requests_total{model=\"m\"}"), 0) << "there from the start";
  const auto embedding = world.send("POST", "/v1/embeddings", "{\"model\":\"m\",\"input\":\"x\"}");
  const auto unknown = world.send("POST", "/v1/embeddings", "{\"model\":\"n\",\"input\":\"x\"}");
  const auto nameless = world.send("POST", "/tokenize", "{\"prompt\":\"x\"}");
  world.run(milliseconds(5));
  EXPECT_EQ(embedding->status(), 200);
  EXPECT_EQ(value("tailrace_relayed_requests_total{model=\"m\"}"), 1);
  EXPECT_EQ(value("tailrace_relayed_requests_total{model=\"other\"}"), 0) << "of no known model";
  EXPECT_EQ(value("tailrace_arrivals_total{model=\"m\"}"), 0) << "no work to size for";
}

// At 0 replicas nobody can take a request, and it is the reason to start one.
TEST_F(Demand, ARequestForAModelWhoseEnginesAreGoneHasArrived) {
  auto& engine = world.add_engine("a", 1);
  engine.script([](EngineRequest& request) { request.whole(1); });
  world.start();
  const auto removed = world.admin("DELETE", "/tailrace/v1/backends/a");
  world.run(milliseconds(5));
  const auto reply = world.chat();
  world.run(milliseconds(5));
  EXPECT_EQ(reply->status(), 404);
  EXPECT_EQ(value("tailrace_arrivals_total{model=\"m\"}"), 1);
}

TEST_F(Demand, AWideRequestWaitsForTheEngineThatAnAwaitedModelMayGet) {
  world.config.models["m"].awaited = true;
  world.config.models["m"].slots = 8;
  auto& small = world.add_engine("small", 2);
  auto& large = world.add_engine("large", 8);
  large.script([](EngineRequest& request) { request.whole(1); });
  world.config.backends.clear();
  world.start();
  const auto wide = world.chat(",\"n\":8");
  const auto too_wide = world.chat(",\"n\":9");
  world.run(milliseconds(5));
  EXPECT_EQ(too_wide->status(), 400) << too_wide->body;
  const auto put = [&](const std::string& name, const std::string& url, int slots) {
    return world.admin(
        "PUT", "/tailrace/v1/backends/" + name,
        "{\"url\":\"" + url + "\",\"models\":[\"m\"],\"slots\":" + std::to_string(slots) + "}");
  };
  const auto first = put("small", small.url(), 2);
  world.run(milliseconds(5));
  EXPECT_EQ(first->status(), 200) << first->body;
  EXPECT_EQ(wide->status(), 0) << wide->body;
  const auto second = put("large", large.url(), 8);
  world.run(milliseconds(50));
  EXPECT_EQ(wide->status(), 200) << wide->body;
}

TEST_F(Demand, RequestsForAnAwaitedModelWaitAreSeenAndGoToItsFirstEngine) {
  world.config.models["m"].awaited = true;
  auto& engine = world.add_engine("a", 4);
  engine.script([](EngineRequest& request) { request.whole(1); });
  world.config.backends.clear();
  world.start();
  EXPECT_EQ(value("tailrace_queue_jobs{model=\"m\"}"), 0) << "there before anything has come";
  const auto reply = world.chat();
  const auto other = world.chat(",\"model\":\"n\"");
  const auto unqueued = world.send("POST", "/v1/embeddings", "{\"model\":\"m\",\"input\":\"x\"}");
  const auto models = world.send("GET", "/v1/models");
  const auto ready = world.send("GET", "/readyz");
  world.run(milliseconds(5));
  EXPECT_EQ(reply->status(), 0) << reply->body;
  EXPECT_EQ(unqueued->status(), 503) << unqueued->body;
  EXPECT_EQ(unqueued->header("retry-after"), "1");
  EXPECT_NE(models->body.find("\"id\":\"m\""), std::string::npos) << models->body;
  EXPECT_EQ(ready->status(), 200);
  EXPECT_EQ(value("tailrace_queue_jobs{model=\"m\"}"), 1);
  EXPECT_EQ(value("tailrace_arrivals_total{model=\"m\"}"), 1);
  EXPECT_EQ(value("tailrace_relayed_requests_total{model=\"m\"}"), 1)
      << "what cannot wait wakes an engine too";
  const auto put = world.admin("PUT", "/tailrace/v1/backends/a",
                               "{\"url\":\"" + engine.url() + "\",\"models\":[\"m\"],\"slots\":4}");
  world.run(seconds(3));
  EXPECT_LT(put->status(), 300) << put->body;
  EXPECT_EQ(reply->status(), 200) << reply->body;
  const auto removed = world.admin("DELETE", "/tailrace/v1/backends/a");
  const auto again = world.chat();
  world.run(milliseconds(5));
  EXPECT_EQ(removed->status(), 200);
  EXPECT_EQ(again->status(), 0) << "an engine may come back";
  EXPECT_EQ(value("tailrace_queue_jobs{model=\"m\"}"), 1);
}

TEST_F(Demand, EveryAwaitedModelHasSeriesAndModelsWithoutAreAddedUp) {
  for (int i = 0; i < 1000; ++i) world.config.models["m" + std::to_string(i)].awaited = true;
  world.add_engine("a", 1, {"x", "y"});
  world.start();
  const auto runs = world.chat(",\"model\":\"x\"");
  world.run(milliseconds(5));
  const auto waits = world.chat(",\"model\":\"x\"");
  const auto waits_too = world.chat(",\"model\":\"y\"");
  const auto last = world.chat(",\"model\":\"m999\"");
  world.run(milliseconds(5));
  EXPECT_EQ(value("tailrace_queue_jobs{model=\"m999\"}"), 1);
  EXPECT_EQ(value("tailrace_queue_jobs{model=\"other\"}"), 2);
  EXPECT_EQ(value("tailrace_running_jobs{model=\"other\"}"), 1);
  EXPECT_EQ(value("tailrace_queue_jobs{model=\"other\"}"), 2) << "and not more by asking again";
}

TEST_F(Demand, WhatHasGoneHasNoGaugesLeft) {
  world.add_engine("a", 4);
  world.start();
  EXPECT_EQ(value("tailrace_slots{model=\"m\"}"), 4);
  const auto removed = world.admin("DELETE", "/tailrace/v1/backends/a");
  world.run(milliseconds(5));
  EXPECT_EQ(value("tailrace_slots{model=\"m\"}"), 0);
  EXPECT_EQ(value("tailrace_backend_healthy{backend=\"a\"}"), 0);
}

TEST_F(Demand, TheBacklogIsSaidInTokensThatItIsPredictedToGenerate) {
  world.config.predict.accept_given_laws = true;
  world.add_engine("a", 1);
  world.start();
  const net::Headers law{{"x-tailrace-length-law", "log-t;mu=4;sigma=0.3;nu=3.5"}};
  const double mean = length::LengthLaw::log_t(4, 0.3)->capped_mean(100'000);
  const auto running = world.chat(",\"max_tokens\":100000", law);
  const auto waits = world.chat(",\"max_tokens\":100000", law);
  world.run(milliseconds(5));
  EXPECT_NEAR(value("tailrace_queue_output_tokens{model=\"m\"}"), mean, 0.01);
  const auto two = world.chat(",\"max_tokens\":100000", law);
  const auto unpredicted = world.chat();
  world.run(milliseconds(5));
  EXPECT_NEAR(value("tailrace_queue_output_tokens{model=\"m\"}"), 3 * mean, 0.03) << "3 wait";
}

TEST_F(Demand, ACapCutsWhatWaitingRequestsArePredictedToGenerate) {
  world.config.predict.accept_given_laws = true;
  world.add_engine("a", 1);
  world.start();
  const net::Headers law{{"x-tailrace-length-law", "log-t;mu=4;sigma=0.3;nu=3.5"}};
  const auto running = world.chat("", law);
  const auto waits = world.chat(",\"max_tokens\":10", law);
  world.run(milliseconds(5));
  const double tokens = value("tailrace_queue_output_tokens{model=\"m\"}");
  EXPECT_NEAR(tokens, length::LengthLaw::log_t(4, 0.3)->capped_mean(10), 0.01);
}

TEST_F(Demand, SecondMomentsOfLengthsAreSumsOfSquares) {
  auto& engine = world.add_engine("a");
  int length = 0;
  engine.script([&](EngineRequest& request) { request.whole(length += 3); });
  world.start();
  for (int i = 0; i < 3; ++i) {
    const auto reply = world.chat();
    world.run(milliseconds(5));
  }
  EXPECT_EQ(value("tailrace_answer_tokens_count{model=\"m\"}"), 3);
  EXPECT_EQ(value("tailrace_answer_tokens_sum{model=\"m\"}"), 3 + 6 + 9);
  EXPECT_EQ(value("tailrace_answer_tokens_squared_total{model=\"m\"}"), 9 + 36 + 81);
  const double prompt = value("tailrace_prompt_tokens_total{model=\"m\"}") / 3;
  EXPECT_GT(prompt, 0);
  EXPECT_DOUBLE_EQ(value("tailrace_prompt_tokens_squared_total{model=\"m\"}"), 3 * prompt * prompt);
}

}  // namespace
}  // namespace tailrace::gateway
