// The engine against an interpreter of the same rules that is too simple to be wrong in the same
// way: vectors searched from the front, every sum recomputed from scratch.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>

#include "engine/support/engines.h"
#include "tailrace/engine/batch_engine.h"

namespace tailrace::engine {
namespace {

struct Reference {
  struct Seq {
    std::uint64_t id;
    std::int64_t prompt, output, generated = 0, computed = 0, scheduled = 0;
  };
  EngineConfig config;
  std::vector<Seq> running;
  std::deque<Seq> waiting;

  std::int64_t used() const {
    return std::accumulate(running.begin(), running.end(), std::int64_t{0},
                           [](std::int64_t sum, const Seq& s) { return sum + s.computed; });
  }
  std::int64_t spent() const {
    return std::accumulate(running.begin(), running.end(), std::int64_t{0},
                           [](std::int64_t sum, const Seq& s) { return sum + s.scheduled; });
  }

  std::vector<TokenEvent> iterate(std::int64_t& batch, std::int64_t& kv) {
    bool preempted = false;
    for (std::size_t i = 0; i < running.size(); ++i) {
      const std::int64_t want =
          std::min(running[i].prompt + running[i].generated - running[i].computed,
                   config.max_batched_tokens - spent());
      if (want == 0) continue;
      while (i < running.size() && used() + want > config.usable_blocks()) {
        Seq victim = running.back();
        running.pop_back();
        victim.computed = victim.scheduled = 0;
        waiting.push_front(victim);
        preempted = true;
      }
      if (i >= running.size()) break;
      running[i].computed += want;
      running[i].scheduled = want;
    }
    while (!preempted && !waiting.empty() &&
           running.size() < static_cast<std::size_t>(config.max_num_seqs)) {
      Seq head = waiting.front();
      const std::int64_t known = head.prompt + head.generated;
      const std::int64_t budget = config.max_batched_tokens - spent();
      if (budget == 0 || used() + known > config.usable_blocks()) break;
      head.computed = head.scheduled = std::min(known, budget);
      waiting.pop_front();
      running.push_back(head);
    }
    batch = spent();
    kv = 0;
    std::vector<TokenEvent> events;
    std::vector<Seq> rest;
    for (Seq s : running) {
      if (s.scheduled > 0) kv += s.computed;
      const bool samples = s.scheduled > 0 && s.computed == s.prompt + s.generated;
      s.scheduled = 0;
      if (samples) {
        ++s.generated;
        events.push_back({SequenceId(s.id), Tokens(s.generated), s.generated == s.output});
      }
      if (s.generated < s.output) rest.push_back(s);
    }
    running = rest;
    return events;
  }

  void abort(std::uint64_t id) {
    std::erase_if(running, [&](const Seq& s) { return s.id == id; });
    std::erase_if(waiting, [&](const Seq& s) { return s.id == id; });
  }
};

bool same(const std::vector<TokenEvent>& a, const std::vector<TokenEvent>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.id == y.id && x.generated == y.generated && x.finished == y.finished;
  });
}

RC_GTEST_PROP(BatchEngine, SchedulesLikeTheReferenceAndLosesNoSequence, ()) {
  const auto kv = *rc::gen::inRange<std::int64_t>(20, 200);
  const EngineConfig config =
      token_engine(linear_cost(1, 0.01, 0.001, 0), *rc::gen::inRange<std::int64_t>(1, 6),
                   *rc::gen::inRange<std::int64_t>(1, 40), kv);
  BatchEngine engine(config);
  Reference reference{config, {}, {}};
  MonoTime now{};
  std::uint64_t next_id = 1;
  std::size_t added = 0;
  std::size_t finished = 0;
  std::size_t aborted = 0;
  const auto step = [&] {
    std::int64_t batch = 0;
    std::int64_t context = 0;
    const std::vector<TokenEvent> expected = reference.iterate(batch, context);
    const auto iteration = engine.begin_iteration(now);
    RC_ASSERT(iteration.has_value() == (batch > 0));
    if (!iteration) return false;
    RC_ASSERT(iteration->batch_tokens == Tokens(batch));
    RC_ASSERT(iteration->kv_tokens == Tokens(context));
    RC_ASSERT(iteration->ends > now);
    now = iteration->ends;
    const auto& events = engine.end_iteration();
    RC_ASSERT(same(events, expected));
    for (const TokenEvent& event : events) finished += event.finished ? 1 : 0;
    return true;
  };
  const auto actions = *rc::gen::inRange(1, 150);
  for (int i = 0; i < actions; ++i) {
    const int kind = *rc::gen::inRange(0, 10);
    if (kind < 3) {
      const auto prompt = *rc::gen::inRange<std::int64_t>(1, 19);
      const auto output = *rc::gen::inRange<std::int64_t>(1, kv - prompt + 1);
      RC_ASSERT(engine.add({SequenceId(next_id), Tokens(prompt), Tokens(output)}, now).has_value());
      reference.waiting.push_back({next_id++, prompt, output});
      ++added;
    } else if (kind == 3 && next_id > 1) {
      const auto id = *rc::gen::inRange<std::uint64_t>(1, next_id);
      if (engine.abort(SequenceId(id))) ++aborted;
      reference.abort(id);
    } else {
      step();
    }
    RC_ASSERT(engine.state().running == reference.running.size());
    RC_ASSERT(engine.state().waiting == reference.waiting.size());
    RC_ASSERT(engine.state().kv_used == Tokens(reference.used()));
    RC_ASSERT(engine.state().kv_used <= engine.state().kv_capacity);
  }
  while (step()) {
  }
  RC_ASSERT(added == finished + aborted);
  RC_ASSERT(engine.state().kv_used == Tokens(0));
}

}  // namespace
}  // namespace tailrace::engine
