#include "engine/batch_core.h"

#include <fmt/format.h>

#include <algorithm>

#include "tailrace/core/check.h"

namespace tailrace::engine {

BatchEngine::Impl::Impl(const EngineConfig& c, std::unique_ptr<BatchScheduler> s)
    : config(c),
      scheduler(s ? std::move(s) : make_fcfs_scheduler()),
      kv(c.usable_blocks(), c.prefix_caching),
      decoding(c.block_tokens, c.prefix_caching) {}

Result<void> BatchEngine::Impl::check(const SequenceSpec& spec) const {
  const std::int64_t prompt = spec.prompt_tokens.count();
  const std::int64_t output = spec.output_tokens.count();
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("prompt_tokens {} and output_tokens {} {}", prompt, output, why));
  };
  if (prompt < 1 || output < 1) return refuse("must both be at least 1");
  const std::int64_t capacity = config.usable_blocks() * config.block_tokens;
  if (prompt > capacity || output > capacity - prompt) {
    return refuse(fmt::format(
        "exceed the KV capacity of {} tokens; shorten the request or raise kv_blocks", capacity));
  }
  if (prompt > config.max_model_len || output > config.max_model_len - prompt) {
    return refuse(
        fmt::format("exceed the model's length of {} tokens; shorten the request or raise "
                    "max_model_len",
                    config.max_model_len));
  }
  if (!config.chunked_prefill && chunk(prompt + output - 1) > config.max_batched_tokens) {
    return refuse(
        fmt::format("may need more than the {} tokens of an iteration at once; raise "
                    "max_batched_tokens or set chunked_prefill",
                    config.max_batched_tokens));
  }
  if (config.prefix_caching && !spec.prefix.ids.empty() &&
      (spec.prefix.tokens_per_id < 1 || spec.prefix.tokens_per_id % config.block_tokens != 0)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("tokens_per_id is {}; it must be a multiple of block_tokens, {}",
                            spec.prefix.tokens_per_id, config.block_tokens));
  }
  return {};
}

Result<void> BatchEngine::Impl::add(const SequenceSpec& spec, MonoTime at) {
  if (auto ok = check(spec); !ok) return ok;
  if (find(spec.id) != nullptr) {
    return fail(ErrorCode::kAlreadyExists,
                fmt::format("sequence {} exists already", spec.id.count()));
  }
  auto slot = static_cast<std::uint32_t>(sequences.size());
  if (unused.empty()) {
    sequences.emplace_back();
  } else {
    slot = unused.back();
    unused.pop_back();
  }
  by_id.insert(SlotIndex::mix(spec.id.count()), slot);
  Sequence& s = sequences[slot];
  s.id = spec.id;
  s.arrival = at;
  s.priority = spec.priority;
  s.prompt = spec.prompt_tokens.count();
  s.output = spec.output_tokens.count();
  s.generated = s.computed = s.scheduled = s.preemptions = 0;
  s.running = false;
  s.kv.ids.clear();
  if (config.prefix_caching && !spec.prefix.ids.empty()) {
    s.kv.ids.assign(spec.prefix.ids.begin(), spec.prefix.ids.end());
    s.kv.blocks_per_id = spec.prefix.tokens_per_id / config.block_tokens;
  }
  blocking += spec.blocking;
  scheduler->push(view(s), at);
  return {};
}

bool BatchEngine::Impl::abort(SequenceId id) {
  Sequence* const s = find(id);
  if (s == nullptr) return false;
  if (s->running) {
    leave_batch(*s);
    kv.release(s->kv);
    scheduler->ended(id);
  } else {
    scheduler->remove(id);
  }
  forget(*s);
  return true;
}

std::optional<Iteration> BatchEngine::Impl::begin(MonoTime at) {
  TAILRACE_CHECK(!under_way);
  scatter();
  now = at;
  Batch batch;
  review(batch);
  schedule_all(batch);
  if (batch.tokens == 0) return std::nullopt;
  under_way = true;
  return Iteration{now, open(batch), Tokens(batch.tokens), Tokens(batch.kv)};
}

void BatchEngine::Impl::schedule_all(Batch& batch) {
  // A victim may leave nothing scheduled behind: the engine then begins anew, at once.
  do {
    batch.preempted = false;
    schedule_running(batch);
    if (!batch.preempted) admit_waiting(batch);
  } while (batch.tokens == 0 && batch.preempted);
}

MonoTime BatchEngine::Impl::open(const Batch& batch) {
  computed += batch.tokens;
  return spend(BatchCost(config.cost, Tokens(batch.tokens), batch.sequences), batch.kv, now);
}

void BatchEngine::Impl::end() {
  TAILRACE_CHECK(under_way);
  under_way = false;
  ++iterations;
  events.clear();
  std::size_t kept = 0;
  for (Sequence* const s : running) {
    const bool samples = s->scheduled > 0 && s->computed == s->known();
    s->scheduled = 0;
    bool finished = false;
    if (samples) {
      ++s->generated;
      finished = s->generated == s->output;
      events.push_back({s->id, Tokens(s->generated), finished});
    }
    if (finished) {
      kv.release(s->kv);
      scheduler->ended(s->id);
      forget(*s);
    } else {
      running[kept++] = s;
    }
  }
  running.resize(kept);
}

std::vector<SequenceView>& BatchEngine::Impl::views() {
  views_buffer.clear();
  for (Sequence* const s : running) {
    if (s->decoding) decoding.refresh(*s);
    views_buffer.push_back(view(*s));
  }
  return views_buffer;
}

void BatchEngine::Impl::review(Batch& batch) {
  const std::int64_t every = scheduler->review_interval();
  if (every == 0 || iterations % static_cast<std::uint64_t>(every) != 0 || running.empty() ||
      scheduler->size() == 0) {
    return;
  }
  const Room room{kv.free(), kv.usable(), config.block_tokens,
                  static_cast<std::size_t>(config.max_num_seqs) - running.size()};
  reviewed.clear();
  scheduler->review(views(), room, now, reviewed);
  for (const SequenceId id : reviewed) {
    const auto found = std::find_if(running.begin(), running.end(),
                                    [id](const Sequence* s) { return s->id == id; });
    if (found != running.end()) preempt(**found, batch);
  }
}

void BatchEngine::Impl::schedule_running(Batch& batch) {
  for (std::size_t i = 0; i < running.size();) {
    Sequence* const s = running[i];
    const std::int64_t budget = config.max_batched_tokens - batch.tokens;
    if (budget == 0) return;
    const std::int64_t tokens = std::min(chunk(s->known() - s->computed), budget);
    while (blocks_for(s->computed + tokens) - s->kv.blocks > kv.free()) {
      batch.preempted = true;
      const std::size_t victim = scheduler->victim(views(), now);
      TAILRACE_CHECK(victim < running.size());
      const bool itself = victim == i;
      preempt(*running[victim], batch);
      if (itself) return;
      if (victim < i) --i;
    }
    schedule(*s, tokens, batch);
    ++i;
  }
}

void BatchEngine::Impl::admit_waiting(Batch& batch) {
  while (running.size() < static_cast<std::size_t>(config.max_num_seqs)) {
    const std::int64_t budget = config.max_batched_tokens - batch.tokens;
    const std::int64_t room = kv.free() - (running.empty() ? 0 : config.watermark_blocks);
    if (budget == 0 || room <= 0 || scheduler->size() == 0) return;
    const auto id = scheduler->head(now);
    if (!id) return;
    Sequence* const s = find(*id);
    TAILRACE_CHECK(s != nullptr && !s->running);
    // The last token is always computed, since its output is the next one.
    const KvPool::Hit hit = kv.look_up(s->kv, (s->known() - 1) / config.block_tokens);
    const std::int64_t cached = hit.blocks * config.block_tokens;
    std::int64_t tokens = chunk(s->known() - cached);
    if (!config.chunked_prefill && tokens > budget) return;
    tokens = std::min(tokens, budget);
    const std::int64_t asks = config.reserve_full_sequence ? s->known() : cached + tokens;
    if (blocks_for(asks) - hit.held > room) return;
    scheduler->pop_head();
    kv.take(s->kv, hit);
    prefix_asked += s->known();
    prefix_hit += cached;
    s->computed = cached;
    s->running = true;
    s->stamp = ++admissions;
    running.push_back(s);
    if (gathered) prefilling.push_back(s);
    if (sink != nullptr) sink->on_admitted(*id, now, Tokens(cached));
    schedule(*s, tokens, batch);
  }
}

void BatchEngine::Impl::schedule(Sequence& s, std::int64_t tokens, Batch& batch) {
  s.scheduled = tokens;
  s.computed += tokens;
  kv.allocate(s.kv, blocks_for(s.computed) - s.kv.blocks);
  kv.publish(s.kv, s.computed / config.block_tokens);
  batch.tokens += tokens;
  batch.kv += s.computed;
  ++batch.sequences;
}

void BatchEngine::Impl::preempt(Sequence& s, Batch& batch) {
  leave_batch(s);
  if (s.scheduled > 0) {
    batch.tokens -= s.scheduled;
    batch.kv -= s.computed;
    --batch.sequences;
    s.scheduled = 0;
    kv.withdraw(s.kv);
  }
  kv.release(s.kv);
  s.computed = 0;
  ++s.preemptions;
  ++preemptions;
  scheduler->push(view(s), now);
  if (sink != nullptr) sink->on_preempted(s.id, now, Tokens(s.generated));
}

void BatchEngine::Impl::leave_batch(Sequence& s) {
  if (s.decoding) {
    decoding.leave(s);
  } else if (gathered) {
    std::erase(prefilling, &s);
  }
  s.running = false;
  const auto earlier = [](const Sequence* a, std::uint64_t stamp) { return a->stamp < stamp; };
  running.erase(std::lower_bound(running.begin(), running.end(), s.stamp, earlier));
}

SequenceView BatchEngine::Impl::view(const Sequence& s) const {
  return {s.id,
          s.arrival,
          s.priority,
          Tokens(s.prompt),
          Tokens(s.generated),
          Tokens(s.computed),
          kv.exclusive(s.kv),
          s.preemptions};
}

Sequence* BatchEngine::Impl::find(SequenceId id) {
  const std::uint32_t slot = by_id.find(SlotIndex::mix(id.count()),
                                        [&](std::uint32_t at) { return sequences[at].id == id; });
  return slot == SlotIndex::kNone ? nullptr : &sequences[slot];
}

void BatchEngine::Impl::forget(Sequence& s) {
  const std::uint64_t hash = SlotIndex::mix(s.id.count());
  const std::uint32_t slot =
      by_id.find(hash, [&](std::uint32_t at) { return &sequences[at] == &s; });
  by_id.erase(hash, slot);
  unused.push_back(slot);
}

}  // namespace tailrace::engine
