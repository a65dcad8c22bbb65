#include "tailrace/engine/batch_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "tailrace/core/check.h"

namespace tailrace::engine {
namespace {

struct Sequence {
  SequenceSpec spec;
  MonoTime arrival;
  std::int64_t generated = 0;
  std::int64_t computed = 0;   // context tokens in KV, those of the iteration under way included
  std::int64_t scheduled = 0;  // of them, tokens of the iteration under way
  std::int64_t blocks = 0;
  std::int64_t preemptions = 0;
  bool admitted = false;

  std::int64_t known() const { return spec.prompt_tokens.count() + generated; }
  SequenceView view() const {
    return {spec.id,           arrival,          spec.priority, spec.prompt_tokens,
            Tokens(generated), Tokens(computed), blocks,        preemptions};
  }
};

struct Batch {
  std::int64_t tokens = 0;
  std::int64_t kv = 0;
  std::int64_t sequences = 0;
  bool preempted = false;
};

}  // namespace

struct BatchEngine::Impl {
  Impl(const EngineConfig& c, std::unique_ptr<BatchScheduler> s)
      : config(c), scheduler(s ? std::move(s) : make_fcfs_scheduler()), free(c.usable_blocks()) {}

  std::int64_t blocks_needed(const Sequence& s, std::int64_t tokens) const {
    const std::int64_t total =
        (s.computed + tokens + config.block_tokens - 1) / config.block_tokens;
    return std::max<std::int64_t>(0, total - s.blocks);
  }

  void preempt(std::size_t index, Batch& batch) {
    Sequence* const s = running[index];
    unschedule(*s, batch);
    free += s->blocks;
    s->blocks = 0;
    s->computed = 0;
    s->admitted = false;
    ++s->preemptions;
    ++preemptions;
    running.erase(running.begin() + static_cast<std::ptrdiff_t>(index));
    scheduler->push(s->view(), now);
    if (sink != nullptr) sink->on_preempted(s->spec.id, now, Tokens(s->generated));
  }

  void schedule(Sequence& s, std::int64_t tokens, Batch& batch) {
    const std::int64_t blocks = blocks_needed(s, tokens);
    free -= blocks;
    s.blocks += blocks;
    s.scheduled = tokens;
    s.computed += tokens;
    batch.tokens += tokens;
    batch.kv += s.computed;
    ++batch.sequences;
  }
  void unschedule(Sequence& s, Batch& batch) {
    if (s.scheduled == 0) return;
    batch.tokens -= s.scheduled;
    batch.kv -= s.computed;
    --batch.sequences;
    s.scheduled = 0;
  }

  std::vector<SequenceView> views() const {
    std::vector<SequenceView> all;
    all.reserve(running.size());
    for (const Sequence* s : running) all.push_back(s->view());
    return all;
  }

  std::int64_t chunk(std::int64_t tokens, std::int64_t budget) const {
    if (config.long_prefill_tokens > 0) tokens = std::min(tokens, config.long_prefill_tokens);
    return std::min(tokens, budget);
  }

  void review(Batch& batch) {
    const std::int64_t every = scheduler->review_interval();
    if (every == 0 || iterations % static_cast<std::uint64_t>(every) != 0 || running.empty() ||
        scheduler->size() == 0) {
      return;
    }
    const Room room{free, config.usable_blocks(), config.block_tokens,
                    static_cast<std::size_t>(config.max_num_seqs) - running.size()};
    std::vector<SequenceId> out;
    scheduler->review(views(), room, now, out);
    for (const SequenceId id : out) {
      const auto found = std::find_if(running.begin(), running.end(),
                                      [id](const Sequence* s) { return s->spec.id == id; });
      if (found != running.end()) preempt(static_cast<std::size_t>(found - running.begin()), batch);
    }
  }

  void schedule_running(Batch& batch) {
    for (std::size_t i = 0; i < running.size();) {
      Sequence* const s = running[i];
      const std::int64_t budget = config.max_batched_tokens - batch.tokens;
      const std::int64_t tokens = chunk(s->known() - s->computed, budget);
      if (tokens == 0) {
        ++i;
        continue;
      }
      bool itself = false;
      while (!itself && blocks_needed(*s, tokens) > free) {
        const std::size_t victim = scheduler->victim(views(), now);
        itself = running[victim] == s;
        preempt(victim, batch);
        if (!itself && victim < i) --i;
        batch.preempted = true;
      }
      if (itself) break;
      schedule(*s, tokens, batch);
      ++i;
    }
  }

  void admit_waiting(Batch& batch) {
    while (running.size() < static_cast<std::size_t>(config.max_num_seqs)) {
      const std::int64_t budget = config.max_batched_tokens - batch.tokens;
      if (budget <= 0) return;
      const auto id = scheduler->head(now);
      if (!id) return;
      Sequence& s = *by_id.at(*id);
      std::int64_t tokens = s.known();
      if (config.long_prefill_tokens > 0) tokens = std::min(tokens, config.long_prefill_tokens);
      if (!config.chunked_prefill && tokens > budget) return;
      tokens = std::min(tokens, budget);
      const std::int64_t spare = running.empty() ? 0 : config.watermark_blocks;
      const std::int64_t asks = config.reserve_full_sequence ? s.known() : tokens;
      if (blocks_needed(s, asks) + spare > free) return;
      scheduler->pop_head();
      s.admitted = true;
      running.push_back(&s);
      schedule(s, tokens, batch);
      if (sink != nullptr) sink->on_admitted(*id, now, Tokens(0));
    }
  }

  EngineConfig config;
  std::unique_ptr<BatchScheduler> scheduler;
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> by_id;
  std::vector<Sequence*> running;
  std::int64_t free;
  std::uint64_t preemptions = 0;
  std::uint64_t iterations = 0;
  std::int64_t computed = 0;
  std::int64_t kv_during = 0;  // tokens
  double kv_token_seconds = 0;
  Duration blocking{0};
  MonoTime now;
  bool under_way = false;
  LifeSink* sink = nullptr;
  std::vector<TokenEvent> events;
};

BatchEngine::BatchEngine(const EngineConfig& config, std::unique_ptr<BatchScheduler> scheduler)
    : impl_(std::make_unique<Impl>(config, std::move(scheduler))) {
  TAILRACE_CHECK(config.check().has_value());
}
BatchEngine::~BatchEngine() = default;

Result<void> BatchEngine::add(const SequenceSpec& spec, MonoTime now) {
  const std::int64_t prompt = spec.prompt_tokens.count();
  const std::int64_t output = spec.output_tokens.count();
  if (prompt < 1 || output < 1) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("prompt_tokens {} and output_tokens {} must both be at least 1", prompt,
                            output));
  }
  const std::int64_t capacity = impl_->config.usable_blocks() * impl_->config.block_tokens;
  if (prompt > capacity || output > capacity - prompt) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("prompt_tokens {} and output_tokens {} exceed the KV capacity of {} "
                            "tokens; shorten the request or raise kv_blocks",
                            prompt, output, capacity));
  }
  if (impl_->by_id.contains(spec.id)) {
    return fail(ErrorCode::kAlreadyExists,
                fmt::format("sequence {} exists already", spec.id.count()));
  }
  auto sequence = std::make_unique<Sequence>();
  sequence->spec = spec;
  sequence->arrival = now;
  impl_->blocking += spec.blocking;
  impl_->scheduler->push(sequence->view(), now);
  impl_->by_id.emplace(spec.id, std::move(sequence));
  return {};
}

bool BatchEngine::abort(SequenceId id) {
  const auto found = impl_->by_id.find(id);
  if (found == impl_->by_id.end()) return false;
  Sequence* const s = found->second.get();
  if (s->admitted) {
    impl_->free += s->blocks;
    std::erase(impl_->running, s);
    impl_->scheduler->ended(id);
  } else {
    impl_->scheduler->remove(id);
  }
  impl_->by_id.erase(found);
  return true;
}

std::optional<Iteration> BatchEngine::begin_iteration(MonoTime now) {
  Impl& e = *impl_;
  TAILRACE_CHECK(!e.under_way);
  e.now = now;
  Batch batch;
  e.review(batch);
  e.schedule_running(batch);
  if (!batch.preempted) e.admit_waiting(batch);
  if (batch.tokens == 0) return std::nullopt;
  e.under_way = true;
  e.computed += batch.tokens;
  const Duration takes =
      e.config.cost.of(Tokens(batch.tokens), Tokens(batch.kv), batch.sequences) + e.blocking;
  e.blocking = Duration{0};
  e.kv_during = (e.config.usable_blocks() - e.free) * e.config.block_tokens;
  e.kv_token_seconds += static_cast<double>(e.kv_during) * to_seconds(takes);
  return Iteration{now, now + takes, Tokens(batch.tokens), Tokens(batch.kv)};
}

const std::vector<TokenEvent>& BatchEngine::end_iteration() {
  Impl& e = *impl_;
  TAILRACE_CHECK(e.under_way);
  e.under_way = false;
  ++e.iterations;
  e.events.clear();
  std::vector<Sequence*> left;
  left.reserve(e.running.size());
  for (Sequence* s : e.running) {
    const bool samples = s->scheduled > 0 && s->computed == s->known();
    s->scheduled = 0;
    if (samples) {
      ++s->generated;
      const bool finished = s->generated == s->spec.output_tokens.count();
      e.events.push_back({s->spec.id, Tokens(s->generated), finished});
      if (finished) {
        e.free += s->blocks;
        e.scheduler->ended(s->spec.id);
        e.by_id.erase(s->spec.id);
        continue;
      }
    }
    left.push_back(s);
  }
  e.running.swap(left);
  return e.events;
}

std::optional<MonoTime> BatchEngine::advance(MonoTime now, MonoTime until, bool stop_at_finish,
                                             LifeSink& sink) {
  impl_->sink = &sink;
  std::optional<MonoTime> next = now;
  bool stop = false;
  while (!stop && *next < until) {
    const auto iteration = begin_iteration(*next);
    if (!iteration) {
      next.reset();
      break;
    }
    next = iteration->ends;
    for (const TokenEvent& event : end_iteration()) {
      if (event.generated == Tokens(1)) sink.on_first_token(event.id, *next);
      if (!event.finished) continue;
      sink.on_finished(event.id, *next);
      stop = stop_at_finish;
    }
  }
  impl_->sink = nullptr;
  return next;
}

EngineState BatchEngine::state() const {
  const Impl& e = *impl_;
  const std::int64_t usable = e.config.usable_blocks();
  return {e.running.size(),
          e.scheduler->size(),
          Tokens((usable - e.free) * e.config.block_tokens),
          Tokens(usable * e.config.block_tokens),
          Tokens(e.kv_during),
          e.kv_token_seconds,
          e.preemptions,
          e.iterations,
          Tokens(e.computed),
          Tokens(0),
          Tokens(0)};
}

std::vector<SequenceView> BatchEngine::running() const {
  return impl_->views();
}

}  // namespace tailrace::engine
