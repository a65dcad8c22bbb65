// Public reports about whom an engine admits and preempts, and about how latency is measured. Names
// carry the repository and the number.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "engine/support/engines.h"
#include "tailrace/core/rng.h"
#include "tailrace/engine/batch_engine.h"
#include "tailrace/loadgen/load_run.h"
#include "tailrace/net/http_server.h"
#include "tailrace/net/sim_network.h"

namespace tailrace::engine {
namespace {

struct Log final : LifeSink {
  void on_admitted(SequenceId, MonoTime, Tokens) override {}
  void on_first_token(SequenceId id, MonoTime at) override { first.emplace(id.count(), at); }
  void on_finished(SequenceId id, MonoTime at) override { finished.emplace(id.count(), at); }
  void on_preempted(SequenceId id, MonoTime, Tokens) override { preempted.push_back(id.count()); }
  std::map<std::uint64_t, MonoTime> first, finished;
  std::vector<std::uint64_t> preempted;
};

constexpr MonoTime kNever{Duration::max()};

/// Passes everything on to another scheduler.
class Wrapped : public BatchScheduler {
 public:
  explicit Wrapped(std::unique_ptr<BatchScheduler> inner) : inner_(std::move(inner)) {}
  void push(const SequenceView& s, MonoTime now) override { inner_->push(s, now); }
  std::optional<SequenceId> head(MonoTime now) override { return inner_->head(now); }
  void pop_head() override { inner_->pop_head(); }
  bool remove(SequenceId id) override { return inner_->remove(id); }
  std::size_t size() const override { return inner_->size(); }
  std::size_t victim(std::span<const SequenceView> running, MonoTime now) override {
    return inner_->victim(running, now);
  }
  void ended(SequenceId id) override { inner_->ended(id); }

 protected:
  std::unique_ptr<BatchScheduler> inner_;
};

class LeastComputedVictim final : public Wrapped {
 public:
  LeastComputedVictim() : Wrapped(make_fcfs_scheduler()) {}
  std::size_t victim(std::span<const SequenceView> running, MonoTime) override {
    const auto least = std::min_element(
        running.begin(), running.end(),
        [](const SequenceView& a, const SequenceView& b) { return a.computed < b.computed; });
    return static_cast<std::size_t>(least - running.begin());
  }
};

/// Tokens computed beyond those that an engine with enough memory would have computed, as a share.
double recompute_tax(std::unique_ptr<BatchScheduler> scheduler, std::uint64_t& preemptions) {
  EngineConfig config;
  config.cost = linear_cost(6, 0.02, 0, 200);
  config.max_num_seqs = 64;
  config.kv_blocks = 401;
  BatchEngine engine(config, std::move(scheduler));
  Rng rng(11);
  std::int64_t needed = 0;
  for (std::uint64_t id = 1; id <= 200; ++id) {
    const auto prompt = static_cast<std::int64_t>(40 + rng.below(900));
    const auto output = static_cast<std::int64_t>(20 + rng.below(400));
    SequenceSpec spec{SequenceId(id), Tokens(prompt), Tokens(output)};
    spec.priority = static_cast<int>(rng.below(4));
    EXPECT_TRUE(engine.add(spec, MonoTime{}));
    needed += prompt + output - 1;  // the last token is never computed
  }
  Log log;
  engine.advance(MonoTime{}, kNever, false, log);
  EXPECT_EQ(log.finished.size(), 200u);
  preemptions = engine.state().preemptions;
  return static_cast<double>(engine.state().computed.count()) / static_cast<double>(needed) - 1;
}

// Whom memory pressure throws out decides how much is computed twice; the report asks for other
// victims than the last admitted.
TEST(Vllm54644, TheVictimDecidesHowMuchIsComputedTwice) {
  std::uint64_t by_last = 0, by_priority = 0, by_least = 0;
  const double last = recompute_tax(make_fcfs_scheduler(), by_last);
  const double priority = recompute_tax(make_priority_scheduler(), by_priority);
  const double least = recompute_tax(std::make_unique<LeastComputedVictim>(), by_least);
  RecordProperty("last", std::to_string(last));
  RecordProperty("priority", std::to_string(priority));
  RecordProperty("least_computed", std::to_string(least));
  for (const std::uint64_t preemptions : {by_last, by_priority, by_least})
    EXPECT_GT(preemptions, 20u);
  EXPECT_GT(last, 0.05);
  EXPECT_GT(priority, last) << "the least urgent has often been computed far";
  EXPECT_LT(least, last);
}

class MakesRoomForUrgent final : public Wrapped {
 public:
  MakesRoomForUrgent() : Wrapped(make_priority_scheduler()) {}
  void push(const SequenceView& s, MonoTime now) override {
    waiting_[s.id] = s.priority;
    Wrapped::push(s, now);
  }
  void pop_head() override {
    waiting_.erase(*inner_->head(MonoTime{}));
    Wrapped::pop_head();
  }
  std::int64_t review_interval() const override { return 1; }
  void review(std::span<const SequenceView> running, const Room& room, MonoTime now,
              std::vector<SequenceId>& preempt) override {
    if (room.free_slots > 0 || running.empty()) return;
    const int most_urgent = waiting_.at(*inner_->head(now));
    const auto least = std::max_element(
        running.begin(), running.end(),
        [](const SequenceView& a, const SequenceView& b) { return a.priority < b.priority; });
    if (least->priority > most_urgent) preempt.push_back(least->id);
  }

 private:
  std::map<SequenceId, int> waiting_;
};

double urgent_ttft_ms(std::unique_ptr<BatchScheduler> scheduler) {
  EngineConfig config;
  config.cost = linear_cost(10, 0, 0, 0);
  config.max_num_seqs = 8;
  BatchEngine engine(config, std::move(scheduler));
  for (std::uint64_t id = 1; id <= 8; ++id) {
    SequenceSpec batch{SequenceId(id), Tokens(100), Tokens(400)};
    batch.priority = 10;
    EXPECT_TRUE(engine.add(batch, MonoTime{}));
  }
  Log log;
  const MonoTime arrival{std::chrono::milliseconds(995)};
  const auto next = engine.advance(MonoTime{}, arrival, false, log);
  EXPECT_TRUE(next);
  EXPECT_TRUE(engine.add({SequenceId(99), Tokens(100), Tokens(5), 0}, arrival));
  engine.advance(*next, kNever, false, log);
  EXPECT_EQ(log.finished.size(), 9u) << "who made room finishes too";
  return to_millis(log.first.at(99) - arrival);
}

// Only slots are scarce, so vLLM's priority scheduling displaces nobody: the most urgent request
// waits until one of the least urgent has finished.
TEST(Vllm45561, AnUrgentRequestMeetsAFullBatch) {
  EXPECT_NEAR(urgent_ttft_ms(make_priority_scheduler()), 3015, 1)
      << "as in vLLM: until 400 tokens of 10 ms are out, and one iteration more";
  EXPECT_LE(urgent_ttft_ms(std::make_unique<MakesRoomForUrgent>()), 2 * 10)
      << "the iteration under way and its own";
}

}  // namespace
}  // namespace tailrace::engine

namespace tailrace::loadgen {
namespace {

using std::chrono::milliseconds;

// A generator that waits for answers stops asking while the server stalls, and the stall leaves no
// trace in its latencies.
TEST(OpenmessagingBenchmark247, LatencyCountsFromTheIntendedSendTime) {
  net::SimLoop loop;
  net::SimNetwork network(loop, 1);
  const auto client = net::HttpClient::make(loop, network);
  std::vector<std::unique_ptr<net::Timer>> timers;
  MonoTime free_at{};
  // One answer each 100 ms, in turn: half of what is asked for.
  auto server = net::HttpServer::listen(
      loop, network, {"server", 80, false}, {}, [&](std::shared_ptr<net::Exchange> exchange) {
        net::Exchange& asked = *exchange;
        asked.read_body(1 << 20, [&, exchange](Result<std::string> body) {
          if (!body) return;
          free_at = std::max(free_at, loop.now()) + milliseconds(100);
          timers.push_back(loop.at(free_at, [exchange] {
            exchange->respond({200, "", {}},
                              R"({"choices":[{"index":0,"message":{"content":"x"},)"
                              R"("finish_reason":"stop"}],"usage":{"completion_tokens":1}})");
          }));
        });
      });
  ASSERT_TRUE(server);
  std::vector<LoadRequest> workload(1);
  workload[0].id = "a";
  workload[0].messages_json = R"([{"role":"user","content":"x"}])";
  std::vector<PlannedRequest> plan;
  for (int i = 0; i < 40; ++i) plan.push_back({0.05 * i, 0});
  LoadOptions options;
  options.target.endpoint = {"server", 80, false};
  options.model = "m";
  options.stream = false;
  options.in_flight_max = 1;
  const auto run = LoadRun::make(loop, *client, workload, plan, options);
  bool done = false;
  run->start([&] { done = true; });
  loop.run_for(std::chrono::seconds(60));
  ASSERT_TRUE(done);
  const RequestOutcome& last = run->outcomes().back();
  EXPECT_NEAR(last.e2e_s, 4.0 - 0.05 * 39, 0.05) << "40 answers take 4 s; it was due after 1.95 s";
  EXPECT_NEAR(last.intended_s + last.e2e_s - last.sent_s, 0.1, 0.01)
      << "from its sending it took what every request takes, which is what hides the overload";
}

}  // namespace
}  // namespace tailrace::loadgen
