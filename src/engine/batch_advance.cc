// advance(): the same iterations without a look at those that only decode.
//
// While it runs, sequences that get one token an iteration live in a DecodeSet and the others in
// `prefilling`. An iteration that cannot be had so (memory is short, the budget does not reach
// everybody, or an eviction could change what joins the prefix cache) is done the long way.
#include <algorithm>

#include "engine/batch_core.h"
#include "tailrace/core/check.h"

namespace tailrace::engine {
namespace {

bool earlier(const Sequence* a, const Sequence* b) {
  return a->stamp < b->stamp;
}

}  // namespace

std::optional<MonoTime> BatchEngine::Impl::advance(MonoTime from, MonoTime until,
                                                   bool stop_at_finish) {
  TAILRACE_CHECK(!under_way);
  MonoTime next = from;
  while (next < until) {
    gather();
    if (stretch(next, until)) {
      end_gathered();
    } else {
      now = next;
      Batch batch;
      review(batch);
      if (!schedule_gathered(batch)) {
        scatter();
        schedule_all(batch);
      }
      if (batch.tokens == 0) return std::nullopt;
      next = open(batch);
      if (gathered) {
        ++iterations;
        decoding.step();
        end_gathered();
      } else {
        under_way = true;
        end();
      }
    }
    if (report(next) && stop_at_finish) break;
  }
  return next;
}

void BatchEngine::Impl::gather() {
  if (gathered) return;
  gathered = true;
  for (Sequence* const s : running) {
    // One whose prompt lacks a single token is like a decode, but for its first token's report.
    if (s->generated > 0 && s->computed + 1 == s->known()) {
      decoding.join(*s, kv.may_publish(s->kv));
    } else {
      prefilling.push_back(s);
    }
  }
}

void BatchEngine::Impl::scatter() {
  if (!gathered) return;
  gathered = false;
  prefilling.clear();
  for (Sequence* const s : running) {
    if (s->decoding) decoding.leave(*s);
  }
}

// Iterations in which nothing happens but decoding: all until the first sequence ends, a review is
// due or somebody may be admitted.
std::int64_t BatchEngine::Impl::quiet_steps() {
  const std::int64_t n = decoding.size();
  if (n == 0 || n > config.max_batched_tokens || !prefilling.empty()) return 0;
  std::int64_t steps = decoding.steps_to_end();
  if (scheduler->size() == 0) return steps;
  // Decoding only takes blocks, so who has no room now has none later.
  const bool closed = running.size() >= static_cast<std::size_t>(config.max_num_seqs) ||
                      n == config.max_batched_tokens || kv.free() <= config.watermark_blocks;
  if (!closed) return 0;
  if (const std::int64_t every = scheduler->review_interval(); every > 0) {
    const auto since = static_cast<std::int64_t>(iterations % static_cast<std::uint64_t>(every));
    steps = std::min(steps, since == 0 ? 0 : every - since);
  }
  return steps;
}

// Runs quiet iterations until one would need more than counting. False if there was none.
bool BatchEngine::Impl::stretch(MonoTime& next, MonoTime until) {
  const std::int64_t steps = quiet_steps();
  if (steps == 0) return false;
  const std::int64_t n = decoding.size();
  const BatchCost cost(config.cost, Tokens(n), n);
  std::int64_t context = decoding.next_kv();
  std::int64_t done = 0;
  for (; done < steps && next < until; ++done) {
    const std::int64_t blocks = decoding.next_blocks();
    if (blocks > kv.free() || !decoding.next_filling().empty()) break;
    kv.allocate(blocks);
    next = spend(cost, context, next);
    context += n;
    decoding.step();
  }
  iterations += static_cast<std::uint64_t>(done);
  computed += n * done;
  return done > 0;
}

// What schedule_running() would give to one that prefills when `tokens` are scheduled already.
std::int64_t BatchEngine::Impl::grant(const Sequence& s, std::int64_t tokens) const {
  return std::min(chunk(s.known() - s.computed), config.max_batched_tokens - tokens);
}

// One iteration's schedule, if all that run get what they ask for. Only the last of the batch may
// get less: nobody behind it could notice. Otherwise false, and nothing has been done.
bool BatchEngine::Impl::schedule_gathered(Batch& batch) {
  const std::int64_t n = decoding.size();
  std::int64_t tokens = n;
  std::int64_t blocks = decoding.next_blocks();
  if (tokens > config.max_batched_tokens) return false;
  for (const Sequence* s : prefilling) {
    const std::int64_t gets = grant(*s, tokens);
    if (gets < chunk(s->known() - s->computed) && s != running.back()) return false;
    tokens += gets;
    blocks += blocks_for(s->computed + gets) - s->kv.blocks;
  }
  if (blocks > kv.free()) return false;
  if (kv.evicts(blocks)) {
    std::int64_t before = n;
    for (const Sequence* s : prefilling) {
      const std::int64_t gets = grant(*s, before);
      before += gets;
      if (kv.contested(s->kv, (s->computed + gets) / config.block_tokens)) return false;
    }
    for (const Sequence* s : decoding.next_filling()) {
      if (kv.contested(s->kv, s->kv.shared + 1)) return false;
    }
  }
  batch.tokens += n;
  batch.kv += decoding.next_kv();
  batch.sequences += n;
  kv.allocate(decoding.next_blocks());
  // What joins the prefix cache does so in batch order.
  sampling = decoding.next_filling();
  auto filling = sampling.begin();
  const auto publish_until = [&](const Sequence* s) {
    for (; filling != sampling.end() && (s == nullptr || earlier(*filling, s)); ++filling) {
      kv.publish((*filling)->kv, (*filling)->kv.shared + 1);
      if (!kv.may_publish((*filling)->kv)) decoding.stop_filling(**filling);
    }
  };
  tokens = n;
  for (Sequence* const s : prefilling) {
    const std::int64_t gets = grant(*s, tokens);
    tokens += gets;
    publish_until(s);
    if (gets > 0) schedule(*s, gets, batch);
  }
  publish_until(nullptr);
  admit_waiting(batch);
  return true;
}

// The iteration is over: who began to decode in it, and who ended.
void BatchEngine::Impl::end_gathered() {
  events.clear();
  sampling.clear();
  std::size_t kept = 0;
  for (Sequence* const s : prefilling) {
    const bool samples = s->scheduled > 0 && s->computed == s->known();
    s->scheduled = 0;
    if (samples) {
      ++s->generated;
      sampling.push_back(s);
    } else {
      prefilling[kept++] = s;
    }
  }
  prefilling.resize(kept);
  decoding.take_ended(sampling);
  std::sort(sampling.begin(), sampling.end(), earlier);  // few; and stamps differ
  for (Sequence* const s : sampling) {
    const bool finished = s->generated == s->output;
    events.push_back({s->id, Tokens(s->generated), finished});
    if (finished) {
      leave_batch(*s);
      kv.release(s->kv);
      scheduler->ended(s->id);
      forget(*s);
    } else {
      decoding.join(*s, kv.may_publish(s->kv));
    }
  }
}

// Tells what the last iteration's tokens change. True if a sequence finished.
bool BatchEngine::Impl::report(MonoTime at) {
  bool finished = false;
  for (const TokenEvent& event : events) {
    if (event.generated == Tokens(1)) sink->on_first_token(event.id, at);
    if (!event.finished) continue;
    sink->on_finished(event.id, at);
    finished = true;
  }
  return finished;
}

}  // namespace tailrace::engine
