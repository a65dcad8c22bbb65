// What an operator sees and changes, and how the gateway ends.
#include <gtest/gtest.h>

#include <cmath>

#include <boost/json.hpp>

#include "gateway/support/world.h"

namespace tailrace::gateway {
namespace {

using namespace testing;
namespace json = boost::json;

class Admin : public ::testing::Test {
 protected:
  json::value ask(std::string method, std::string target, std::string body = {}, int status = 200) {
    const auto reply = world.admin(std::move(method), std::move(target), std::move(body));
    world.run(milliseconds(5));
    EXPECT_EQ(reply->status(), status) << reply->body;
    boost::system::error_code error;
    auto value = json::parse(reply->body, error);
    EXPECT_FALSE(error) << reply->body;
    return value;
  }
  World world;
};

TEST_F(Admin, TheQueueShowsPoolsAndWaitingJobs) {
  world.add_engine("a", 1);
  world.start();
  const auto running = world.chat();
  world.run(milliseconds(5));
  const auto waiting = world.chat(",\"max_tokens\":77", {{"x-tailrace-tenant", "acme"}});
  world.run(milliseconds(5));
  const auto document = ask("GET", "/tailrace/v1/queue");
  const auto& pool = document.at("pools").at(0);
  EXPECT_EQ(pool.at("model"), "m");
  EXPECT_EQ(pool.at("waiting").to_number<int>(), 1);
  EXPECT_EQ(pool.at("running").to_number<int>(), 1);
  EXPECT_EQ(pool.at("jobs").at(0).at("cap").to_number<int>(), 77);
  EXPECT_EQ(pool.at("jobs").at(0).at("tenant"), "acme");
}

TEST_F(Admin, WhatAClientNamesNeverMakesBadJson) {
  world.add_engine("a", 1);
  world.start();
  const auto running = world.chat();
  world.run(milliseconds(5));
  const auto strange = world.chat("", {{"x-tailrace-tenant", "\xff\xfe|\xc3"}});
  std::string long_name = "a";
  for (int i = 0; i < 100; ++i) long_name += "é";  // the limit falls inside a character
  const auto cut = world.chat("", {{"x-tailrace-tenant", long_name}, {"x-request-id", "cut"}});
  const auto model = world.send("POST", "/v1/chat/completions", "{\"model\":\"" + long_name + "\"}",
                                {{"x-request-id", "model"}});
  world.run(milliseconds(5));
  EXPECT_EQ(world.pool().waiting, 2U);
  const auto queue = ask("GET", "/tailrace/v1/queue");
  EXPECT_EQ(queue.at("pools").at(0).at("jobs").at(0).at("tenant"), "??|?");
  EXPECT_EQ(ask("GET", "/tailrace/v1/explain/cut").at("tenant").as_string().size(), 127U);
  EXPECT_EQ(ask("GET", "/tailrace/v1/explain/model").at("model").as_string().size(), 127U);
}

TEST_F(Admin, WithoutATokenNoSiteMaySpeakForTheOperator) {
  world.add_engine("a");
  world.start();
  for (const auto& [host, status] : {std::pair{"evil.example", 403},
                                     {"127.evil.example:90", 403},
                                     {"localhost:9090", 200},
                                     {"127.0.0.1", 200},
                                     {"[::1]:1", 200}}) {
    const auto reply = world.admin("GET", "/tailrace/v1/queue", "", {{"host", host}});
    world.run(milliseconds(5));
    EXPECT_EQ(reply->status(), status) << host << reply->body;
  }
}

TEST_F(Admin, NobodyWaitsForABackendThatIsGone) {
  auto& engine = world.add_engine("a", 4);
  world.start();
  const auto running = world.chat();
  world.run(milliseconds(5));
  const auto wide = world.chat(",\"n\":4");
  const auto narrow = world.chat(",\"n\":4", {{"x-tailrace-priority", "-1"}});
  world.run(milliseconds(5));
  EXPECT_EQ(world.pool().waiting, 2U);
  const std::string entry = "{\"url\":\"" + engine.url() + "\",\"models\":[\"m\"],\"slots\":";
  ask("PUT", "/tailrace/v1/backends/a", entry + "4}");
  EXPECT_EQ(wide->status(), 0) << "nothing has changed for it";
  ask("PUT", "/tailrace/v1/backends/a", entry + "2}");
  world.run(milliseconds(5));
  EXPECT_EQ(wide->status(), 400) << wide->body;
  EXPECT_NE(wide->body.find("4 slots"), std::string::npos) << wide->body;
  EXPECT_EQ(narrow->status(), 400);
  const auto other = world.chat(",\"n\":2");
  world.run(milliseconds(5));
  EXPECT_EQ(world.pool().waiting, 1U);
  ask("DELETE", "/tailrace/v1/backends/a");
  world.run(milliseconds(5));
  EXPECT_EQ(other->status(), 503) << other->body;
  EXPECT_NE(other->header("retry-after"), "");
  EXPECT_EQ(running->status(), 0) << "what runs goes on";
  // What a leaving engine gives back has nowhere to go either.
  engine.requests.front()->status(429);
  world.run(milliseconds(5));
  EXPECT_EQ(running->status(), 503) << running->body;
  EXPECT_TRUE(world.idle());
}

TEST_F(Admin, WithoutATokenNobodyHasKeysSentToAnEngineOfTheirChoice) {
  world.add_engine("a", 1);
  world.start();
  for (const char* key : {"\"api_key_file\":\"/etc/hostname\"", "\"api_key_env\":\"HOME\""}) {
    const auto refused = ask(
        "PUT", "/tailrace/v1/backends/b",
        std::string("{\"url\":\"http://x:1\",\"models\":[\"m\"],\"slots\":1,") + key + "}", 400);
    EXPECT_NE(json::serialize(refused).find("admin.token"), std::string::npos);
  }
  EXPECT_EQ(ask("GET", "/tailrace/v1/backends").at("backends").as_array().size(), 1U);
}

TEST_F(Admin, ABackendCanBeAddedChangedAndRemovedWhileStreamsRun) {
  auto& first = world.add_engine("a", 1);
  auto& second = world.add_engine("b", 1);
  world.config.backends.pop_back();
  first.script([](EngineRequest& request) {
    request.begin_events();
    request.event("x");
  });
  second.script([](EngineRequest& request) { request.whole(1); });
  world.start();
  const auto running = world.stream();
  world.run(milliseconds(5));
  const auto waiting = world.chat();
  world.run(milliseconds(5));
  EXPECT_EQ(world.pool().waiting, 1U);
  const auto put = ask("PUT", "/tailrace/v1/backends/b",
                       "{\"url\":\"" + second.url() + "\",\"models\":[\"m\"],\"slots\":2}");
  EXPECT_EQ(put.at("slots").to_number<int>(), 2);
  EXPECT_EQ(waiting->status(), 200) << "the new backend takes what waited";

  EXPECT_EQ(ask("DELETE", "/tailrace/v1/backends/a").at("removed"), true);
  const auto next = world.chat();
  world.run(milliseconds(5));
  EXPECT_EQ(next->header("x-tailrace-backend"), "b");
  first.requests.back()->event("y");
  first.requests.back()->done();
  world.run(milliseconds(5));
  EXPECT_TRUE(running->body.ends_with("data: [DONE]\n\n"))
      << "a removed backend finishes its streams";
  EXPECT_EQ(ask("GET", "/tailrace/v1/backends").at("backends").as_array().size(), 1U);
  ask("DELETE", "/tailrace/v1/backends/a", "", 404);
  ask("PUT", "/tailrace/v1/backends/c", "{\"url\":5}", 400);
}

TEST_F(Admin, ThePolicyCanBeSwitched) {
  world.config.predict.accept_given_laws = true;
  world.add_engine("a", 1);
  world.start();
  EXPECT_EQ(ask("GET", "/tailrace/v1/policy").at("effective"), "tie");
  EXPECT_EQ(ask("PUT", "/tailrace/v1/policy", "{\"policy\":\"fcfs\"}").at("effective"), "fcfs");
  EXPECT_EQ(world.pool().policy, "fcfs");
  ask("PUT", "/tailrace/v1/policy", "{\"policy\":\"nonsense\"}", 400);
  ask("PUT", "/tailrace/v1/policy", "nonsense", 400);
  EXPECT_EQ(world.pool().policy, "fcfs");
}

TEST_F(Admin, OrderFallsBackToArrivalWhileNothingIsCalibrated) {
  auto& engine = world.add_engine("a", 1);
  engine.script([](EngineRequest& request) { request.whole(1); });
  bool calibrated = false;
  world.oracle.says = [&](const predict::RequestFeatures&) {
    return predict::Prediction{length::LengthLaw::log_t(4, 1).value(), calibrated};
  };
  world.start();
  auto policy = ask("GET", "/tailrace/v1/policy");
  EXPECT_EQ(policy.at("policy"), "tie");
  EXPECT_EQ(policy.at("effective"), "fcfs");
  EXPECT_TRUE(policy.at("reason").is_string());
  calibrated = true;
  (void)world.chat(), world.run(milliseconds(5));
  EXPECT_EQ(ask("GET", "/tailrace/v1/policy").at("effective"), "tie");
  calibrated = false;
  for (int i = 0; i < 300; ++i) {
    const auto reply = world.chat();
    world.run(milliseconds(5));
  }
  EXPECT_EQ(ask("GET", "/tailrace/v1/policy").at("effective"), "fcfs");
}

TEST_F(Admin, ExplainTellsPlaceReasonAndEnd) {
  auto& engine = world.add_engine("a", 1);
  world.oracle.says = [](const predict::RequestFeatures&) {
    return predict::Prediction{length::LengthLaw::log_t(4, 1).value(), true};
  };
  world.start();
  const auto running = world.chat();
  world.run(milliseconds(5));
  const auto ahead = world.chat();
  const auto waiting = world.chat("", {{"x-request-id", "look-here"}});
  world.run(milliseconds(5));
  auto place = ask("GET", "/tailrace/v1/explain/look-here");
  EXPECT_EQ(place.at("state"), "waiting");
  EXPECT_EQ(place.at("place").at("position").to_number<int>(), 1);
  EXPECT_FALSE(place.at("place").at("rule").as_string().empty());
  EXPECT_EQ(place.at("place").at("backends").as_int64(), 1);
  EXPECT_EQ(place.at("law").at("decides_order"), true);
  engine.script([](EngineRequest& request) { request.whole(7); });
  engine.requests.back()->whole(1);
  world.run(milliseconds(20));
  place = ask("GET", "/tailrace/v1/explain/look-here");
  EXPECT_EQ(place.at("state"), "ended");
  EXPECT_EQ(place.at("outcome"), "completed");
  EXPECT_EQ(place.at("output_tokens").to_number<int>(), 7);
  ask("GET", "/tailrace/v1/explain/unheard-of", "", 404);
}

TEST_F(Admin, ExplainTellsThatNoEngineServesTheModelYet) {
  world.config.models["m"].awaited = true;
  world.add_engine("a", 1, {"n"});
  world.start();
  const auto waits = world.chat("", {{"x-request-id", "early"}});
  world.run(milliseconds(5));
  EXPECT_EQ(ask("GET", "/tailrace/v1/explain/early").at("place").at("backends").as_int64(), 0);
}

TEST_F(Admin, ExplainTellsWhyARequestWasRefused) {
  world.add_engine("a");
  world.start();
  const auto reply = world.send("POST", "/v1/chat/completions", "{\"model\":\"nope\"}",
                                {{"x-request-id", "unknown-model"}});
  world.run(milliseconds(5));
  const auto told = ask("GET", "/tailrace/v1/explain/unknown-model");
  EXPECT_EQ(told.at("outcome"), "invalid");
  EXPECT_EQ(told.at("error"), "no backend serves the model \"nope\"");
}

TEST_F(Admin, PredictAnswersWithTheLaw) {
  world.oracle.says = [](const predict::RequestFeatures&) {
    return predict::Prediction{length::LengthLaw::log_t(4, 1).value(), true};
  };
  world.oracle.because = {{"word 'essay'", std::log(2.0)}};
  world.add_engine("a");
  world.start();
  const auto answer =
      ask("POST", "/tailrace/v1/predict",
          R"({"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":60})");
  EXPECT_DOUBLE_EQ(answer.at("law").at("mu").to_number<double>(), 4);
  EXPECT_DOUBLE_EQ(answer.at("p90").to_number<double>(), 60) << "cut at the request's limit";
  EXPECT_EQ(answer.at("calibrated"), true);
  const auto& influence = answer.at("influences").at(0);
  EXPECT_EQ(influence.at("what"), "word 'essay'");
  EXPECT_NEAR(influence.at("factor").to_number<double>(), 2, 1e-12);
  ask("POST", "/tailrace/v1/predict", "nonsense", 400);
  const auto misspelt = ask("POST", "/tailrace/v1/predict", R"({"model":"m","mesages":[]})", 400);
  EXPECT_EQ(misspelt.at("error").at("message"),
            "the request holds no messages, prompt or input; give one of them");
}

TEST_F(Admin, ATokenGuardsEverythingButHealth) {
  world.config.admin.token = Secret("let-me-in");
  world.add_engine("a");
  world.start();
  const auto open = world.admin("GET", "/healthz");
  const auto none = world.admin("GET", "/metrics");
  const auto wrong = world.admin("GET", "/metrics", "", {{"authorization", "Bearer let-me-iN"}});
  const auto right = world.admin("GET", "/metrics", "", {{"authorization", "Bearer let-me-in"}});
  world.run(milliseconds(5));
  EXPECT_EQ(open->status(), 200);
  EXPECT_EQ(none->status(), 401);
  EXPECT_EQ(wrong->status(), 401);
  EXPECT_EQ(right->status(), 200);
  EXPECT_NE(right->body.find("tailrace_ready 1"), std::string::npos);
}

TEST_F(Admin, MetricsCountWhatHappened) {
  auto& engine = world.add_engine("a");
  engine.script([](EngineRequest& request) { request.whole(9); });
  world.start();
  const auto reply = world.chat();
  const auto bad = world.send("POST", "/v1/chat/completions", "{");
  world.run(milliseconds(5));
  const auto metrics = world.admin("GET", "/metrics");
  world.run(milliseconds(5));
  for (const char* line :
       {"tailrace_requests_total{model=\"m\",outcome=\"completed\",status_class=\"2xx\"} 1",
        "tailrace_output_tokens_total{model=\"m\"} 9",
        "tailrace_backend_requests_total{backend=\"a\"} 1"}) {
    EXPECT_NE(metrics->body.find(line), std::string::npos) << line;
  }
}

class Drain : public ::testing::Test {
 protected:
  World world;
  std::optional<bool> clean;
  void begin() {
    world.gateway->begin_drain([this](bool was_clean) { clean = was_clean; });
  }
};

TEST_F(Drain, StreamsAndWaitingRequestsFinishWhileNewOnesAreRefused) {
  auto& engine = world.add_engine("a", 1);
  engine.script([](EngineRequest& request) {
    request.begin_events();
    request.event("x");
  });
  world.start();
  const auto running = world.stream();
  world.run(milliseconds(5));
  const auto waiting = world.stream();
  world.run(milliseconds(5));
  begin();
  const auto late = world.stream();
  const auto ready = world.send("GET", "/readyz");
  world.run(milliseconds(20));
  EXPECT_EQ(late->status(), 503);
  EXPECT_FALSE(late->header("retry-after").empty());
  EXPECT_EQ(ready->status(), 503);
  EXPECT_FALSE(clean.has_value());
  engine.requests[0]->done();
  world.run(milliseconds(20));
  ASSERT_EQ(engine.requests.size(), 2U) << "what had been accepted still goes";
  engine.requests[1]->done();
  world.run(milliseconds(100));
  EXPECT_TRUE(running->body.ends_with("[DONE]\n\n"));
  EXPECT_TRUE(waiting->body.ends_with("[DONE]\n\n"));
  EXPECT_EQ(clean, true);
}

TEST_F(Drain, WhatRunsLongerThanTheLimitIsCut) {
  world.config.drain.limit = seconds(5);
  auto& engine = world.add_engine("a", 1);
  engine.script([](EngineRequest& request) {
    request.begin_events();
    request.event("x");
  });
  world.start();
  const auto running = world.stream();
  world.run(milliseconds(5));
  const auto waiting = world.chat();
  world.run(milliseconds(5));
  begin();
  world.run(milliseconds(4900));
  EXPECT_FALSE(clean.has_value());
  world.run(seconds(1));
  EXPECT_EQ(clean, false);
  EXPECT_NE(running->body.find("\"error\""), std::string::npos);
  EXPECT_EQ(waiting->status(), 503);
  EXPECT_TRUE(world.idle());
}

TEST_F(Drain, DuringTheNoticeRequestsAreStillServed) {
  world.config.drain.notice = seconds(5);
  auto& engine = world.add_engine("a", 1);
  engine.script([](EngineRequest& request) { request.whole(1); });
  world.start();
  begin();
  world.run(seconds(1));
  const auto ready = world.send("GET", "/readyz");
  const auto served = world.chat();
  world.run(milliseconds(20));
  EXPECT_EQ(ready->status(), 503);
  EXPECT_EQ(served->status(), 200);
  world.run(seconds(5));
  EXPECT_EQ(clean, true);
}

TEST_F(Drain, AnIdleGatewayEndsAtOnce) {
  world.add_engine("a", 1);
  world.start();
  begin();
  world.run(milliseconds(20));
  EXPECT_EQ(clean, true);
}

}  // namespace
}  // namespace tailrace::gateway
