// Does BatchEngine schedule step by step like the reference interpreter?
//
// TAILRACE_CONFORMANCE_RUNS random workloads (10,000), from seed TAILRACE_CONFORMANCE_SEED (1) on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/support/random_workload.h"
#include "engine/support/reference_engine.h"
#include "tailrace/engine/batch_engine.h"

namespace tailrace::engine {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

bool same(const SequenceView& a, const SequenceView& b) {
  return a.id == b.id && a.arrival == b.arrival && a.priority == b.priority &&
         a.prompt_tokens == b.prompt_tokens && a.generated == b.generated &&
         a.computed == b.computed && a.blocks == b.blocks && a.preemptions == b.preemptions;
}
bool same(const TokenEvent& a, const TokenEvent& b) {
  return a.id == b.id && a.generated == b.generated && a.finished == b.finished;
}
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const T& x, const T& y) { return same(x, y); });
}
bool same(const EngineState& a, const EngineState& b) {
  return a.running == b.running && a.waiting == b.waiting && a.kv_used == b.kv_used &&
         a.kv_capacity == b.kv_capacity && a.kv_during == b.kv_during &&
         std::abs(a.kv_token_seconds - b.kv_token_seconds) <= 1e-9 * b.kv_token_seconds &&
         a.preemptions == b.preemptions && a.iterations == b.iterations &&
         a.computed == b.computed && a.prefix_asked == b.prefix_asked &&
         a.prefix_hit == b.prefix_hit;
}
bool same(const std::optional<Iteration>& a, const std::optional<Iteration>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->begins == b->begins && a->ends == b->ends && a->batch_tokens == b->batch_tokens &&
         a->kv_tokens == b->kv_tokens;
}

/// The engine and the reference, side by side on one workload.
class Pair {
 public:
  explicit Pair(std::uint64_t seed)
      : workload_(seed),
        engine_(workload_.config(), workload_.scheduler(engine_log_)),
        reference_(workload_.config(), workload_.scheduler(reference_log_)) {}

  /// What went wrong; empty if nothing did.
  std::string run() {
    for (int i = 0; i < workload_.actions() && wrong_.empty(); ++i) act();
    for (int i = 0; i < 20'000 && wrong_.empty(); ++i) {
      const bool more = workload_.chance(0.3) ? step() : run_on(100);
      if (more) continue;
      if (engine_.state().running + engine_.state().waiting > 0) return "it stopped with work left";
      if (ended_ != added_) return fmt::format("{} came, but {} ended", added_, ended_);
      if (engine_.state().kv_used != Tokens(0)) return "blocks are held by nobody";
      return wrong_;
    }
    return wrong_.empty() ? "it does not end" : wrong_;
  }

  /// All that the engine asked and told, as one number.
  std::uint64_t digest() const { return digest_; }

 private:
  void act() {
    const std::int64_t kind = workload_.between(0, 9);
    if (kind < 4) {
      add();
    } else if (kind < 5) {
      abort();
    } else if (kind < 7) {
      step();
    } else {
      run_on(workload_.between(1, 30));
    }
  }

  void add() {
    const SequenceSpec spec = workload_.request(added_ + refused_ + 1);
    if (!engine_.add(spec, now_)) {
      ++refused_;
      return;
    }
    (void)reference_.add(spec, now_);
    ++added_;
    compare("add");
  }

  void abort() {
    const SequenceId id(static_cast<std::uint64_t>(
        workload_.between(1, static_cast<std::int64_t>(added_ + refused_ + 1))));
    const bool gone = engine_.abort(id);
    expect(gone == reference_.abort(id), "abort");
    ended_ += gone ? 1 : 0;
    compare("abort");
  }

  bool step() {
    const auto iteration = engine_.begin_iteration(now_);
    const auto expected = reference_.begin_iteration(now_);
    expect(same(iteration, expected), "iteration");
    compare("begin");
    if (!iteration || !expected) return false;
    if (workload_.chance(0.1)) abort();
    if (workload_.chance(0.1)) add();
    const std::vector<TokenEvent>& events = engine_.end_iteration();
    expect(same(events, reference_.end_iteration()), "events");
    for (const TokenEvent& event : events) ended_ += event.finished ? 1 : 0;
    now_ = iteration->ends;
    compare("end");
    return true;
  }

  bool run_on(std::int64_t iterations) {
    const MonoTime until = now_ + iterations * from_millis(workload_.config().cost.alpha_ms);
    const bool stop_at_finish = workload_.chance(0.3);
    LoggingSink sink(engine_log_);
    LoggingSink expected(reference_log_);
    const auto next = engine_.advance(now_, until, stop_at_finish, sink);
    expect(next == reference_.advance(now_, until, stop_at_finish, expected), "advance");
    ended_ += sink.finished;
    compare("advance");
    now_ = next.value_or(until);
    return next.has_value();
  }

  void compare(std::string_view where) {
    expect(engine_log_ == reference_log_, where, "log");
    expect(same(engine_.state(), reference_.state()), where, "state");
    expect(same(engine_.running(), reference_.running()), where, "running");
    const std::string books = reference_.audit();
    expect(books.empty(), where, books);
    for (const std::int64_t told : engine_log_) {
      digest_ = (digest_ ^ static_cast<std::uint64_t>(told)) * 0x9e3779b97f4a7c15ULL;
      digest_ ^= digest_ >> 29;
    }
    engine_log_.clear();
    reference_log_.clear();
  }

  void expect(bool holds, std::string_view where, std::string_view what = "result") {
    if (!holds && wrong_.empty()) {
      wrong_ = fmt::format("{} of {} differs after {} iterations", what, where,
                           reference_.state().iterations);
    }
  }

  RandomWorkload workload_;
  Log engine_log_, reference_log_;
  BatchEngine engine_;
  ReferenceEngine reference_;
  MonoTime now_;
  std::uint64_t digest_ = 0;
  std::size_t added_ = 0, refused_ = 0, ended_ = 0;
  std::string wrong_;
};

TEST(Conformance, RandomWorkloadsAreScheduledLikeTheReferenceStepByStep) {
  const std::uint64_t first = setting("TAILRACE_CONFORMANCE_SEED", 1);
  const std::uint64_t runs = setting("TAILRACE_CONFORMANCE_RUNS", 10'000);
  for (std::uint64_t seed = first; seed < first + runs; ++seed) {
    const std::string wrong = Pair(seed).run();
    ASSERT_EQ(wrong, "") << "TAILRACE_CONFORMANCE_SEED=" << seed
                         << " TAILRACE_CONFORMANCE_RUNS=1 repeats it";
  }
}

TEST(Conformance, EveryCompilerSchedulesTheSameNanoseconds) {
  std::uint64_t all = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Pair pair(seed);
    ASSERT_EQ(pair.run(), "");
    all = (all ^ pair.digest()) * 0x9e3779b97f4a7c15ULL;
  }
  EXPECT_EQ(all, 2626085605031683567u)
      << "if the rules or the random workloads have changed, this is the new value";
}

}  // namespace
}  // namespace tailrace::engine
