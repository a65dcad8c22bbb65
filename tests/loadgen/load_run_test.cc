// Load against a server over an in-memory network in virtual time.
#include "tailrace/loadgen/load_run.h"

#include <gtest/gtest.h>

#include "tailrace/net/http_server.h"
#include "tailrace/net/sim_network.h"

namespace tailrace::loadgen {
namespace {

using std::chrono::milliseconds;

/// Answers every request after a fixed time; the answer says how it is to be.
class LoadRunTest : public testing::Test {
 protected:
  using Answer = UniqueFunction<void(std::shared_ptr<net::Exchange>, const std::string& body)>;

  void serve(Answer answer) {
    answer_ = std::move(answer);
    auto listening = net::HttpServer::listen(
        loop, network, {"server", 80, false}, {}, [this](std::shared_ptr<net::Exchange> exchange) {
          net::Exchange& asked = *exchange;
          asked.read_body(1 << 20, [this, exchange](Result<std::string> body) {
            if (body) answer_(exchange, *body);
          });
        });
    ASSERT_TRUE(listening) << listening.error().message;
    server_ = std::move(*listening);
  }

  void later(Duration delay, Task task) { timers_.push_back(loop.after(delay, std::move(task))); }

  std::unique_ptr<LoadRun> make_run(std::vector<double> intended, LoadOptions options) {
    std::vector<LoadRequest> workload(1);
    workload[0].id = "a";
    workload[0].messages_json = R"([{"role":"user","content":"x"}])";
    workload[0].max_tokens = 100;
    workload[0].output_tokens = 7;
    workload[0].law = GivenLaw{4.5, 0.5, 3.5};
    workload[0].fields_json = R"({"temperature":0})";
    std::vector<PlannedRequest> plan;
    for (const double at : intended) plan.push_back({at, 0});
    options.target.endpoint = {"server", 80, false};
    options.model = "m";
    return LoadRun::make(loop, *client, std::move(workload), std::move(plan), std::move(options));
  }

  bool complete(LoadRun& run, Duration within = std::chrono::seconds(60)) {
    bool done = false;
    run.start([&] { done = true; });
    loop.run_for(within);
    return done;
  }

  net::SimLoop loop;
  net::SimNetwork network{loop, 1};
  std::unique_ptr<net::HttpClient> client = net::HttpClient::make(loop, network);

 private:
  Answer answer_;
  std::unique_ptr<net::HttpServer> server_;
  std::vector<std::unique_ptr<net::Timer>> timers_;
};

constexpr const char* kWhole =
    R"({"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}],)"
    R"("usage":{"completion_tokens":4}})";

LoadOptions whole_answers() {
  LoadOptions options;
  options.stream = false;
  return options;
}

TEST_F(LoadRunTest, LatencyCountsFromTheIntendedTimeWhenTheGeneratorMustWait) {
  serve([this](auto exchange, const std::string&) {
    later(milliseconds(1000), [exchange] { exchange->respond({200, "", {}}, kWhole); });
  });
  LoadOptions options = whole_answers();
  options.in_flight_max = 1;
  const auto run = make_run({0.0, 0.1, 0.2}, options);
  ASSERT_TRUE(complete(*run));
  EXPECT_NEAR(run->outcomes()[0].e2e_s, 1.0, 0.01);
  EXPECT_NEAR(run->outcomes()[1].e2e_s, 1.9, 0.01);
  EXPECT_NEAR(run->outcomes()[2].e2e_s, 2.8, 0.01);
  EXPECT_NEAR(run->outcomes()[2].sent_s, 2.0, 0.01);
  EXPECT_EQ(run->outcomes()[2].output_tokens, 4);
  EXPECT_NEAR(run->outcomes()[2].per_token_s(), 0.7, 0.01);
}

TEST_F(LoadRunTest, ReportsEmulatedSeconds) {
  serve([this](auto exchange, const std::string&) {
    later(milliseconds(100), [exchange] { exchange->respond({200, "", {}}, kWhole); });
  });
  LoadOptions options = whole_answers();
  options.time_scale = 10;
  const auto run = make_run({5.0}, options);
  ASSERT_TRUE(complete(*run, milliseconds(700))) << "sent after half a real second";
  EXPECT_NEAR(run->outcomes()[0].sent_s, 5.0, 0.01);
  EXPECT_NEAR(run->outcomes()[0].e2e_s, 1.0, 0.01);
}

TEST_F(LoadRunTest, MeasuresStreamsTokenByToken) {
  serve([this](auto exchange, const std::string&) {
    later(milliseconds(500), [exchange] {
      exchange->begin({200, "", {{"content-type", "text/event-stream"}}});
      exchange->write(
          "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n");
    });
    later(milliseconds(700), [exchange] {
      exchange->write(
          "data: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n"
          "data: {\"choices\":[],\"usage\":{\"completion_tokens\":2}}\n\ndata: [DONE]\n\n");
      exchange->finish();
    });
  });
  const auto run = make_run({0.0}, {});
  ASSERT_TRUE(complete(*run));
  const RequestOutcome& outcome = run->outcomes()[0];
  EXPECT_TRUE(outcome.ok()) << outcome.error;
  EXPECT_NEAR(outcome.ttft_s.value(), 0.5, 0.01);
  EXPECT_NEAR(outcome.itl_mean_s.value(), 0.2, 0.01);
  EXPECT_NEAR(run->token_gaps().summary()->mean, 0.2, 0.01);
  EXPECT_TRUE(outcome.tokens_from_usage);
}

TEST_F(LoadRunTest, SendsWhatItIsToldAndNoMore) {
  std::vector<std::string> bodies;
  std::vector<std::string> laws;
  serve([&](auto exchange, const std::string& body) {
    bodies.push_back(body);
    laws.emplace_back(exchange->head().headers.find("x-tailrace-length-law").value_or("none"));
    exchange->respond({200, "", {{"x-tailrace-queue-ms", "12.5"}, {"x-tailrace-request-id", "r1"}}},
                      kWhole);
  });
  const auto plain = make_run({0.0}, whole_answers());
  ASSERT_TRUE(complete(*plain));
  LoadOptions options = whole_answers();
  options.send_laws = options.send_lengths = true;
  const auto full = make_run({0.0}, options);
  ASSERT_TRUE(complete(*full));
  ASSERT_EQ(bodies.size(), 2u);
  EXPECT_EQ(bodies[0], R"({"model":"m","messages":[{"role":"user","content":"x"}],"stream":false,)"
                       R"("max_tokens":100,"temperature":0})");
  EXPECT_NE(bodies[1].find(R"("emulator_output_tokens":7)"), std::string::npos);
  EXPECT_EQ(laws, (std::vector<std::string>{"none", "log-t;mu=4.5;sigma=0.5;nu=3.5"}));
  EXPECT_EQ(full->outcomes()[0].queue_ms, 12.5);
  EXPECT_EQ(full->outcomes()[0].request_id, "r1");
}

TEST_F(LoadRunTest, SortsFailuresByKind) {
  int number = 0;
  std::vector<std::shared_ptr<net::Exchange>> unanswered;
  serve([&](auto exchange, const std::string&) {
    switch (number++) {
      case 0:
        return exchange->respond({429, "", {}}, R"({"error":{"message":"too many"}})");
      case 1:
      case 2:
        return exchange->abort();  // the client tries once more after a kept-alive connection
      case 3:
        return unanswered.push_back(exchange);
      default:
        return exchange->respond({200, "", {}}, "oops");
    }
  });
  LoadOptions options = whole_answers();
  options.timeout_s = 2;
  const auto run = make_run({0.0, 0.1, 0.2, 0.3}, options);
  ASSERT_TRUE(complete(*run));
  EXPECT_EQ(run->outcomes()[0].error, "http_429");
  EXPECT_EQ(run->outcomes()[1].error, "first_byte_unavailable");
  EXPECT_EQ(run->outcomes()[2].error, "timeout");
  EXPECT_NEAR(run->outcomes()[2].e2e_s, 2, 0.01);
  EXPECT_EQ(run->outcomes()[3].error, "bad_body");
  EXPECT_EQ(run->progress().failed, 4u);
  EXPECT_EQ(run->first_errors().at("http_429"), "too many");
  EXPECT_EQ(run->first_errors().count("bad_body"), 0u) << "it said nothing";
}

TEST_F(LoadRunTest, AServerThatIsNotThereIsAFailureOfEachRequest) {
  const auto run = make_run({0.0, 0.1}, whole_answers());
  ASSERT_TRUE(complete(*run));
  EXPECT_EQ(run->outcomes()[1].error, "connect_unavailable");
  EXPECT_NE(run->first_errors().at("connect_unavailable").find("server"), std::string::npos);
}

TEST_F(LoadRunTest, CancelGivesEveryRequestAnOutcome) {
  std::vector<std::shared_ptr<net::Exchange>> unanswered;
  serve([&](auto exchange, const std::string&) { unanswered.push_back(exchange); });
  const auto run = make_run({0.0, 100.0}, whole_answers());
  bool done = false;
  run->start([&] { done = true; });
  loop.run_for(std::chrono::seconds(1));
  run->cancel();
  loop.run_for(std::chrono::seconds(1));
  EXPECT_TRUE(done);
  for (const RequestOutcome& outcome : run->outcomes()) EXPECT_EQ(outcome.error, "cancelled");
}

}  // namespace
}  // namespace tailrace::loadgen
