// The emulated engine over an in-memory network in virtual time.
#include "tailrace/emulator/emulator.h"
#include "engine/support/engines.h"

#include <gtest/gtest.h>

#include "emulator/engine_driver.h"
#include "tailrace/core/rng.h"
#include "tailrace/net/http_client.h"
#include "tailrace/net/sim_network.h"

namespace tailrace::emulator {
namespace {

using std::chrono::milliseconds;

struct Reply {
  std::unique_ptr<net::Call> call;
  int status = 0;
  std::string body;
  bool ended = false;
  std::optional<net::CallError> error;
  std::vector<MonoTime> reads;
  net::Headers headers;
};

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

class EmulatorTest : public testing::Test {
 protected:
  EmulatorTest() {
    config.listen = {"engine", 8000, false};
    config.engine = engine::token_engine(engine::linear_cost(10.0, 0, 0, 0), 2, 1000, 10'000);
  }

  void start() {
    auto started = Emulator::start(loop, network, config);
    ASSERT_TRUE(started) << started.error().message;
    emulator = std::move(*started);
  }

  std::unique_ptr<Reply> send(std::string target, std::string body, std::string method = "POST") {
    auto reply = std::make_unique<Reply>();
    Reply* at = reply.get();
    net::CallHandlers handlers;
    handlers.on_head = [at](net::ResponseHead head) {
      at->status = head.status;
      at->headers = std::move(head.headers);
    };
    handlers.on_body = [this, at](std::string_view bytes) {
      at->body += bytes;
      at->reads.push_back(loop.now());
    };
    handlers.on_end = [at] { at->ended = true; };
    handlers.on_error = [at](net::CallError error) { at->error = std::move(error); };
    net::RequestHead head;
    head.method = std::move(method);
    head.target = std::move(target);
    reply->call = client->start(config.listen, std::move(head),
                                std::make_shared<const std::string>(std::move(body)), {},
                                std::move(handlers));
    return reply;
  }
  std::unique_ptr<Reply> chat(int tokens, std::string more = R"(,"stream":true)") {
    return send("/v1/chat/completions",
                R"({"messages":[{"role":"user","content":"x"}],"emulator_output_tokens":)" +
                    std::to_string(tokens) + more + "}");
  }
  std::unique_ptr<Reply> get(std::string target) { return send(std::move(target), "", "GET"); }

  net::SimLoop loop;
  net::SimNetwork network{loop, 1};
  std::unique_ptr<net::HttpClient> client = net::HttpClient::make(loop, network);
  EmulatorConfig config;
  std::unique_ptr<Emulator> emulator;
};

TEST_F(EmulatorTest, StreamsOneTokenAnIterationAndOneWriteForIt) {
  start();
  const auto reply = chat(5);
  loop.run_for(milliseconds(100));
  EXPECT_EQ(reply->status, 200);
  EXPECT_TRUE(reply->ended);
  EXPECT_EQ(count_of(reply->body, "\"content\":\" "), 4u);
  EXPECT_TRUE(reply->body.ends_with("data: [DONE]\n\n"));
  ASSERT_EQ(reply->reads.size(), 5u)
      << "the opening chunk shares a write with the first token, and "
         "the end of the stream with the last";
  for (std::size_t i = 1; i < 5; ++i) {
    EXPECT_NEAR(to_millis(reply->reads[i] - reply->reads[i - 1]), 10, 0.2);
  }
}

TEST_F(EmulatorTest, ScalesTime) {
  config.time_scale = 10;
  start();
  const auto reply = chat(5, "");
  loop.run_for(milliseconds(10));
  EXPECT_TRUE(reply->ended);
  EXPECT_NE(reply->body.find("\"completion_tokens\":5"), std::string::npos) << reply->body;
  EXPECT_NE(emulator->metrics().find("vllm:e2e_request_latency_seconds_sum{engine=\"0\",model_name="
                                     "\"emulated\"} 0.05"),
            std::string::npos)
      << "times in metrics are emulated";
}

TEST_F(EmulatorTest, SendsUsageWhereAsked) {
  start();
  const auto with = chat(3, R"(,"stream":true,"stream_options":{"include_usage":true})");
  const auto without = chat(3);
  loop.run_for(milliseconds(100));
  EXPECT_EQ(count_of(with->body, "\"completion_tokens\":3"), 1u);
  EXPECT_EQ(count_of(without->body, "usage"), 0u);
}

TEST_F(EmulatorTest, AClientThatLeavesFreesItsSlotInEveryState) {
  start();
  auto running = chat(1000);
  auto whole = chat(1000, "");
  auto waiting = chat(1000);
  loop.run_for(milliseconds(50));
  EXPECT_EQ(emulator->state().running, 2u);
  EXPECT_EQ(emulator->state().waiting, 1u);
  waiting->call.reset();
  loop.run_for(milliseconds(1));
  EXPECT_EQ(emulator->state().waiting, 0u);
  running->call.reset();
  whole->call.reset();
  loop.run_for(milliseconds(1));
  EXPECT_EQ(emulator->state().running, 0u);
  EXPECT_EQ(emulator->state().kv_used, Tokens(0));
  EXPECT_NE(emulator->metrics().find("finished_reason=\"abort\",model_name=\"emulated\"} 3"),
            std::string::npos);
  loop.run_for(milliseconds(50));
  const auto later = chat(1);
  loop.run_for(milliseconds(50));
  EXPECT_TRUE(later->ended);
}

TEST_F(EmulatorTest, AnswersSeveralChoices) {
  start();
  const auto whole = chat(3, R"(,"n":2)");
  loop.run_for(milliseconds(100));
  EXPECT_EQ(count_of(whole->body, "\"finish_reason\":\"stop\""), 2u);
  EXPECT_NE(whole->body.find("\"completion_tokens\":6"), std::string::npos);
  const auto stream = chat(3, R"(,"n":2,"stream":true)");
  loop.run_for(milliseconds(100));
  EXPECT_EQ(count_of(stream->body, "\"index\":1"), 4u);
  EXPECT_EQ(count_of(stream->body, "[DONE]"), 1u);
}

TEST_F(EmulatorTest, RefusesAsVllmDoes) {
  config.queued_max = 2;
  config.engine.max_model_len = 100;
  start();
  const auto big = chat(5, R"(,"max_tokens":100)");
  const auto broken = send("/v1/chat/completions", "{");
  const auto unknown = chat(5, R"(,"model":"other")");
  const auto wrong_method = get("/v1/chat/completions");
  const auto nowhere = get("/v2");
  const auto first = chat(50, R"(,"max_tokens":50)");
  const auto second = chat(50, R"(,"max_tokens":50)");
  loop.run_for(milliseconds(20));
  const auto full = chat(1, R"(,"max_tokens":5)");
  loop.run_for(milliseconds(20));
  EXPECT_EQ(big->status, 400);
  EXPECT_NE(big->body.find("maximum context length"), std::string::npos);
  EXPECT_EQ(broken->status, 400);
  EXPECT_EQ(unknown->status, 404);
  EXPECT_EQ(wrong_method->status, 405);
  EXPECT_EQ(nowhere->status, 404);
  EXPECT_EQ(full->status, 503);
  EXPECT_TRUE(full->headers.find("retry-after"));
  for (const Reply* reply : {big.get(), broken.get(), full.get()}) {
    EXPECT_EQ(reply->body.find("{\"error\":{\"message\":"), 0u) << reply->body;
  }
}

TEST_F(EmulatorTest, FailsAsAsked) {
  start();
  const auto fault = [&](std::string name, std::string more = R"(,"stream":true)") {
    return chat(10, R"(,"emulator_fault":")" + name + "\"" + more);
  };
  const auto early = fault("die_before_first_byte");
  loop.run_for(milliseconds(200));
  EXPECT_TRUE(early->error);
  EXPECT_EQ(early->status, 0);
  const auto middle = fault("die_mid_stream");
  loop.run_for(milliseconds(200));
  ASSERT_TRUE(middle->error);
  EXPECT_EQ(middle->status, 200);
  EXPECT_EQ(count_of(middle->body, "\"content\":\" "), 5u);
  const auto event = fault("error_in_stream");
  const auto whole = fault("error_in_stream", "");
  loop.run_for(milliseconds(200));
  EXPECT_EQ(count_of(event->body, "data: {\"error\":"), 1u);
  EXPECT_TRUE(event->ended);
  EXPECT_EQ(whole->status, 500);
  const auto refused = fault("status_429");
  loop.run_for(milliseconds(200));
  EXPECT_EQ(refused->status, 429);
  auto never = fault("never_answer");
  loop.run_for(std::chrono::seconds(30));
  EXPECT_FALSE(never->error || never->status != 0);
  never.reset();
  loop.run_for(milliseconds(10));
  EXPECT_EQ(emulator->state().running, 0u);
  EXPECT_EQ(emulator->state().waiting, 0u);
}

TEST_F(EmulatorTest, AClientThatDoesNotReadGetsEverythingWhenItDoes) {
  config.server_limits = net::ServerLimits{};
  config.server_limits->write_buffer_bytes_max = 1000;
  net::SimLink narrow;
  narrow.window_bytes = 2000;
  network.set_link(narrow);
  start();
  const auto reply = chat(200);
  loop.run_for(milliseconds(50));
  reply->call->pause();
  loop.run_for(std::chrono::seconds(3));
  EXPECT_EQ(emulator->state().running, 0u) << "the engine does not wait for a slow reader";
  reply->call->resume();
  loop.run_for(std::chrono::seconds(3));
  EXPECT_TRUE(reply->ended);
  EXPECT_EQ(count_of(reply->body, "\"content\":\" "), 199u);
}

TEST_F(EmulatorTest, DrainsBeforeItStops) {
  start();
  const auto running = chat(20);
  loop.run_for(milliseconds(15));
  bool drained = false;
  emulator->drain(std::chrono::seconds(5), [&] { drained = true; });
  const auto late = chat(1);
  loop.run_for(milliseconds(50));
  EXPECT_FALSE(drained);
  EXPECT_TRUE(late->status == 503 || late->error);
  loop.run_for(milliseconds(500));
  EXPECT_TRUE(running->ended);
  EXPECT_TRUE(drained);
}

TEST_F(EmulatorTest, CutsWhatOutlastsTheDrain) {
  start();
  const auto running = chat(2000);
  loop.run_for(milliseconds(15));
  bool drained = false;
  emulator->drain(milliseconds(100), [&] { drained = true; });
  loop.run_for(milliseconds(200));
  EXPECT_TRUE(drained);
  EXPECT_TRUE(running->error);
  EXPECT_EQ(emulator->state().running, 0u);
}

TEST_F(EmulatorTest, SaysHowItIs) {
  start();
  const auto models = get("/v1/models");
  const auto health = get("/health");
  const auto version = get("/version");
  const auto metrics = get("/metrics");
  loop.run_for(milliseconds(20));
  EXPECT_NE(models->body.find("\"id\":\"emulated\""), std::string::npos);
  EXPECT_EQ(health->status, 200);
  EXPECT_EQ(version->status, 200);
  for (const char* name : {"vllm:num_requests_running", "vllm:num_requests_waiting",
                           "vllm:kv_cache_usage_perc", "vllm:num_preemptions_total",
                           "vllm:request_success_total", "tailrace_emulator_lag_seconds"}) {
    EXPECT_NE(metrics->body.find(std::string(name) + "{"), std::string::npos) << name;
  }
}

/// The value of a series without labels of its own.
double series(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n" + name + "{");
  if (at == std::string::npos) return -1;
  return std::stod(text.substr(text.find("} ", at) + 2));
}

TEST_F(EmulatorTest, ScrapedLatenciesAreTheClientsOwn) {
  net::SimLink instant;
  instant.delay = Duration{0};
  network.set_link(instant);
  config.engine = engine::token_engine(engine::linear_cost(9.7, 0.13, 0.001, 3), 3, 64, 900);
  config.engine.long_prefill_tokens = 20;
  start();
  Rng rng(52);
  std::vector<std::unique_ptr<Reply>> replies;
  std::vector<MonoTime> sent;
  for (int i = 0; i < 60; ++i) {
    loop.run_for(from_seconds(0.05 * rng.exponential()));
    sent.push_back(loop.now());
    replies.push_back(
        chat(static_cast<int>(1 + rng.below(20)),
             R"(,"stream":true,"emulator_prompt_tokens":)" + std::to_string(1 + rng.below(150))));
  }
  loop.run_for(std::chrono::minutes(5));
  double ttft_s = 0, end_to_end_s = 0;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    ASSERT_TRUE(replies[i]->ended);
    ttft_s += to_seconds(replies[i]->reads.front() - sent[i]);
    end_to_end_s += to_seconds(replies[i]->reads.back() - sent[i]);
  }
  const std::string text = emulator->metrics();
  const auto sum = [&text](const std::string& name) { return series(text, name + "_sum"); };
  EXPECT_EQ(series(text, "vllm:time_to_first_token_seconds_count"), 60);
  EXPECT_NEAR(sum("vllm:time_to_first_token_seconds"), ttft_s, 1e-9);
  EXPECT_NEAR(sum("vllm:e2e_request_latency_seconds"), end_to_end_s, 1e-9);
  EXPECT_GT(sum("vllm:request_queue_time_seconds"), 1) << "three slots are too few";
  EXPECT_NEAR(sum("vllm:request_queue_time_seconds") + sum("vllm:request_prefill_time_seconds"),
              ttft_s, 1e-9)
      << "time to first token begins with the arrival and includes the queue";
  EXPECT_NEAR(sum("vllm:request_queue_time_seconds") + sum("vllm:request_inference_time_seconds"),
              end_to_end_s, 1e-9);
  EXPECT_NEAR(sum("vllm:request_prefill_time_seconds") + sum("vllm:request_decode_time_seconds"),
              sum("vllm:request_inference_time_seconds"), 1e-9);
}

TEST_F(EmulatorTest, SharesThePromptsThatBeginAlike) {
  config.engine.cost.beta_ms = 1;
  config.engine.block_tokens = 16;
  config.engine.kv_blocks = 101;
  config.engine.prefix_caching = true;
  start();
  const std::string document(16 * 4 * 10, 'd');
  const auto ask = [&](const std::string& question) {
    return send("/v1/completions",
                R"({"emulator_output_tokens":2,"prompt":")" + document + question + "\"}");
  };
  const auto first = ask("what is it about?");
  loop.run_for(std::chrono::seconds(2));
  const auto second = ask("who wrote it?");
  loop.run_for(std::chrono::seconds(2));
  ASSERT_TRUE(first->ended && second->ended);
  const std::string text = emulator->metrics();
  EXPECT_EQ(series(text, "vllm:prefix_cache_hits_total"), 160);
  EXPECT_EQ(series(text, "vllm:prefix_cache_queries_total"), 165 + 164);
  EXPECT_NE(text.find("vllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"True\","
                      "engine=\"0\",num_gpu_blocks=\"101\"} 1"),
            std::string::npos)
      << text;
}

TEST_F(EmulatorTest, ServesByPriorityWhereItIsSetUpToAndRefusesItElsewhere) {
  const auto with = [this](int priority) {
    return chat(30, R"(,"stream":true,"priority":)" + std::to_string(priority));
  };
  start();
  const auto refused = with(-1);
  const auto zero = with(0);
  loop.run_for(std::chrono::seconds(1));
  EXPECT_EQ(refused->status, 400);
  EXPECT_NE(refused->body.find("scheduling-policy"), std::string::npos) << refused->body;
  EXPECT_TRUE(zero->ended);

  config.listen = {"other", 8000, false};
  config.engine.max_num_seqs = 1;
  config.scheduling = EmulatorConfig::Scheduling::kPriority;
  start();
  const auto running = with(0);
  loop.run_for(milliseconds(15));
  const auto idle = with(5);
  const auto urgent = with(-3);
  loop.run_for(std::chrono::seconds(2));
  ASSERT_TRUE(running->ended && idle->ended && urgent->ended);
  EXPECT_LT(urgent->reads.back(), idle->reads.front());
  EXPECT_LT(running->reads.back(), urgent->reads.front()) << "nobody in the batch makes room";
  const auto bad = chat(1, R"(,"priority":0.5)");
  loop.run_for(milliseconds(20));
  EXPECT_EQ(bad->status, 400);
}

TEST_F(EmulatorTest, RefusesAConfigurationByName) {
  config.time_scale = 0;
  EXPECT_NE(Emulator::start(loop, network, config).error().message.find("time scale"),
            std::string::npos);
}

/// A loop whose timers all come late, as on a machine that cannot keep up.
class LateLoop final : public net::EventLoop {
 public:
  LateLoop(net::SimLoop& loop, Duration late) : loop_(loop), late_(late) {}
  MonoTime now() const override { return loop_.now(); }
  void post(Task task) override { loop_.post(std::move(task)); }
  std::unique_ptr<net::Timer> at(MonoTime at, Task task) override {
    return loop_.at(at + late_, std::move(task));
  }
  void run() override { loop_.run(); }
  void stop() override { loop_.stop(); }
  void on_terminate(UniqueFunction<void(int)> handler) override {
    loop_.on_terminate(std::move(handler));
  }

 private:
  net::SimLoop& loop_;
  Duration late_;
};

struct Recorder final : TokenSink {
  void on_iteration(const engine::Iteration& iteration) override { ends.push_back(iteration.ends); }
  void on_token(const engine::TokenEvent&) override { ++tokens; }
  void on_turn_end() override { ++turns; }
  std::vector<MonoTime> ends;
  int tokens = 0;
  int turns = 0;
};

TEST(EngineDriver, NobodyJoinsAnIterationThatBeganBeforeHeCame) {
  net::SimLoop sim;
  LateLoop loop(sim, milliseconds(8));
  engine::BatchEngine core(engine::token_engine(engine::linear_cost(10.0, 0, 0, 0), 4, 100, 1000));
  Recorder sink;
  EngineDriver driver(loop, core, 1.0, sink);
  ASSERT_TRUE(driver.add({engine::SequenceId(1), Tokens(1), Tokens(3)}));
  sim.run_for(milliseconds(15));  // an iteration has ended at 10 ms, and the timer is late
  ASSERT_TRUE(driver.add({engine::SequenceId(2), Tokens(1), Tokens(1)}));
  EXPECT_EQ(sink.tokens, 1) << "what is due is completed first";
  EXPECT_EQ(core.state().running, 1u);
  EXPECT_EQ(core.state().waiting, 1u);
  sim.run_for(std::chrono::seconds(1));
  EXPECT_EQ(sink.tokens, 4);
}

TEST(EngineDriver, MakesUpForLateTurnsWithTheTimesThatShouldHaveBeen) {
  net::SimLoop sim;
  LateLoop loop(sim, milliseconds(35));
  engine::BatchEngine core(engine::token_engine(engine::linear_cost(10.0, 0, 0, 0), 4, 100, 1000));
  Recorder sink;
  EngineDriver driver(loop, core, 1.0, sink);
  ASSERT_TRUE(driver.add({engine::SequenceId(1), Tokens(1), Tokens(12)}));
  sim.run_for(std::chrono::seconds(1));
  EXPECT_EQ(sink.tokens, 12);
  ASSERT_EQ(sink.ends.size(), 12u);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(to_millis(sink.ends[i].time_since_epoch()), 10.0 * static_cast<double>(i + 1),
                1e-6);
  }
  EXPECT_LT(sink.turns, 5) << "iterations that are due share a turn";
  EXPECT_EQ(driver.lag().max, milliseconds(35));
  EXPECT_EQ(driver.lag().caught_up, static_cast<std::uint64_t>(12 - sink.turns));
}

}  // namespace
}  // namespace tailrace::emulator
