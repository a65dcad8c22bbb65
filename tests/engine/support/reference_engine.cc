#include "engine/support/reference_engine.h"

#include <algorithm>
#include <numeric>

#include "tailrace/core/check.h"

namespace tailrace::engine {

ReferenceEngine::ReferenceEngine(const EngineConfig& config,
                                 std::unique_ptr<BatchScheduler> scheduler)
    : config_(config),
      scheduler_(std::move(scheduler)),
      blocks_(static_cast<std::size_t>(config.kv_blocks - 1)),
      free_(blocks_.size()) {
  std::iota(free_.begin(), free_.end(), std::size_t{0});
}

Result<void> ReferenceEngine::add(const SequenceSpec& spec, MonoTime now) {
  Seq s;
  s.spec = spec;
  s.arrival = now;
  scheduler_->push(view(s), now);
  waiting_.emplace(spec.id, s);
  blocking_ += spec.blocking;
  ++added_;
  return {};
}

bool ReferenceEngine::abort(SequenceId id) {
  if (waiting_.erase(id) == 1) {
    scheduler_->remove(id);
    ++ended_;
    return true;
  }
  for (std::size_t i = 0; i < running_.size(); ++i) {
    if (running_[i].spec.id != id) continue;
    release(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    scheduler_->ended(id);
    ++ended_;
    return true;
  }
  return false;
}

std::optional<Iteration> ReferenceEngine::begin_iteration(MonoTime now) {
  now_ = now;
  review();
  while (schedule_running()) {  // somebody was preempted: nobody is admitted
    if (budget() < config_.max_batched_tokens) break;
  }
  Iteration iteration{now, now, Tokens(0), Tokens(0)};
  std::int64_t sequences = 0;
  for (const Seq& s : running_) {
    if (s.scheduled == 0) continue;
    iteration.batch_tokens += Tokens(s.scheduled);
    iteration.kv_tokens += Tokens(s.computed);
    ++sequences;
  }
  if (sequences == 0) return std::nullopt;
  totals_.computed += iteration.batch_tokens;
  iteration.ends +=
      config_.cost.of(iteration.batch_tokens, iteration.kv_tokens, sequences) + blocking_;
  blocking_ = Duration{0};
  totals_.kv_during = state().kv_used;
  token_nanoseconds_ += totals_.kv_during.count() * (iteration.ends - now).count();
  under_way_ = true;
  return iteration;
}

const std::vector<TokenEvent>& ReferenceEngine::end_iteration() {
  events_.clear();
  std::vector<Seq> rest;
  for (Seq& s : running_) {
    if (s.scheduled > 0 && s.computed == s.known()) {
      ++s.generated;
      events_.push_back(
          {s.spec.id, Tokens(s.generated), s.generated == s.spec.output_tokens.count()});
    }
    s.scheduled = 0;
    if (s.generated < s.spec.output_tokens.count()) {
      rest.push_back(s);
    } else {
      release(s);
      scheduler_->ended(s.spec.id);
      ++ended_;
    }
  }
  running_ = rest;
  ++totals_.iterations;
  under_way_ = false;
  return events_;
}

std::optional<MonoTime> ReferenceEngine::advance(MonoTime now, MonoTime until, bool stop_at_finish,
                                                 LifeSink& sink) {
  sink_ = &sink;
  bool finished = false;
  std::optional<MonoTime> next = now;
  while (next && *next < until && !(finished && stop_at_finish)) {
    const auto iteration = begin_iteration(*next);
    next = iteration ? std::optional(iteration->ends) : std::nullopt;
    if (!iteration) break;
    for (const TokenEvent& event : end_iteration()) {
      if (event.generated == Tokens(1)) sink.on_first_token(event.id, *next);
      if (event.finished) sink.on_finished(event.id, *next);
      finished = finished || event.finished;
    }
  }
  sink_ = nullptr;
  return next;
}

EngineState ReferenceEngine::state() const {
  EngineState state = totals_;
  state.kv_token_seconds = static_cast<double>(token_nanoseconds_) * 1e-9;
  state.running = running_.size();
  state.waiting = scheduler_->size();
  const auto tokens = [&](std::size_t blocks) {
    return Tokens(static_cast<std::int64_t>(blocks) * config_.block_tokens);
  };
  state.kv_used = tokens(blocks_.size() - free_.size());
  state.kv_capacity = tokens(blocks_.size());
  return state;
}

std::vector<SequenceView> ReferenceEngine::running() const {
  std::vector<SequenceView> views;
  for (const Seq& s : running_) views.push_back(view(s));
  return views;
}

SequenceView ReferenceEngine::view(const Seq& s) const {
  const auto own = std::count_if(s.blocks.begin(), s.blocks.end(),
                                 [&](std::size_t b) { return blocks_[b].holders == 1; });
  return {s.spec.id,          s.arrival, s.spec.priority, s.spec.prompt_tokens, Tokens(s.generated),
          Tokens(s.computed), own,       s.preemptions};
}

std::size_t ReferenceEngine::blocks_for(std::int64_t tokens) const {
  return static_cast<std::size_t>((tokens + config_.block_tokens - 1) / config_.block_tokens);
}

auto ReferenceEngine::content_of(const Seq& s, std::size_t block) const -> std::optional<Content> {
  if (!config_.prefix_caching) return std::nullopt;
  const std::int64_t size = s.spec.prefix.tokens_per_id / config_.block_tokens;
  const auto at = static_cast<std::int64_t>(block);
  const auto place = static_cast<std::size_t>(at / size);
  if (place >= s.spec.prefix.ids.size()) return std::nullopt;
  return Content{s.spec.prefix.ids[place], at / size, size, at % size};
}

std::vector<std::size_t> ReferenceEngine::cached_blocks(const Seq& s) const {
  std::vector<std::size_t> found;
  while (static_cast<std::int64_t>(found.size() + 1) * config_.block_tokens < s.known()) {
    const auto content = content_of(s, found.size());
    if (!content || !cache_.contains(*content)) break;
    found.push_back(cache_.at(*content));
  }
  return found;
}

std::int64_t ReferenceEngine::budget() const {
  std::int64_t left = config_.max_batched_tokens;
  for (const Seq& s : running_) left -= s.scheduled;
  return left;
}

void ReferenceEngine::schedule(Seq& s, std::int64_t tokens) {
  s.scheduled = tokens;
  s.computed += tokens;
  while (s.blocks.size() < blocks_for(s.computed)) {
    const std::size_t block = free_.front();
    free_.erase(free_.begin());
    if (blocks_[block].content) cache_.erase(*blocks_[block].content);
    blocks_[block] = {std::nullopt, 1};
    s.blocks.push_back(block);
  }
  const auto is_cached = [&](std::size_t b) { return blocks_[b].content.has_value(); };
  auto next = static_cast<std::size_t>(std::count_if(s.blocks.begin(), s.blocks.end(), is_cached));
  s.cached_before = next;
  const auto full = static_cast<std::size_t>(s.computed / config_.block_tokens);
  for (; next < full && !s.duplicates; ++next) {
    const auto content = content_of(s, next);
    if (!content) break;
    s.duplicates = cache_.contains(*content);
    if (s.duplicates) break;
    cache_.emplace(*content, s.blocks[next]);
    blocks_[s.blocks[next]].content = content;
  }
}

void ReferenceEngine::release(Seq& s) {
  for (auto block = s.blocks.rbegin(); block != s.blocks.rend(); ++block) {
    if (--blocks_[*block].holders == 0) free_.push_back(*block);
  }
  s.blocks.clear();
  s.duplicates = false;
}

void ReferenceEngine::preempt(std::size_t index) {
  Seq s = running_[index];
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  for (std::size_t i = s.cached_before; s.scheduled > 0 && i < s.blocks.size(); ++i) {
    if (!blocks_[s.blocks[i]].content) break;
    cache_.erase(*blocks_[s.blocks[i]].content);  // it will not be computed now
    blocks_[s.blocks[i]].content.reset();
  }
  release(s);
  s.computed = s.scheduled = 0;
  ++s.preemptions;
  ++totals_.preemptions;
  scheduler_->push(view(s), now_);
  if (sink_ != nullptr) sink_->on_preempted(s.spec.id, now_, Tokens(s.generated));
  waiting_.emplace(s.spec.id, s);
}

void ReferenceEngine::review() {
  const auto every = static_cast<std::uint64_t>(scheduler_->review_interval());
  if (every == 0 || totals_.iterations % every != 0) return;
  if (running_.empty() || scheduler_->size() == 0) return;
  Room room;
  room.free_blocks = static_cast<std::int64_t>(free_.size());
  room.usable_blocks = static_cast<std::int64_t>(blocks_.size());
  room.block_tokens = config_.block_tokens;
  room.free_slots = static_cast<std::size_t>(config_.max_num_seqs) - running_.size();
  std::vector<SequenceId> ids;
  scheduler_->review(running(), room, now_, ids);
  for (const SequenceId id : ids) {
    for (std::size_t i = 0; i < running_.size(); ++i) {
      if (running_[i].spec.id == id) preempt(i--);
    }
  }
}

bool ReferenceEngine::schedule_running() {
  bool preempted = false;
  bool stop = false;
  for (std::size_t i = 0; i < running_.size() && !stop && budget() > 0; ++i) {
    std::int64_t tokens = running_[i].known() - running_[i].computed;
    if (config_.long_prefill_tokens > 0) tokens = std::min(tokens, config_.long_prefill_tokens);
    tokens = std::min(tokens, budget());
    const SequenceId me = running_[i].spec.id;
    const std::size_t needs = blocks_for(running_[i].computed + tokens) - running_[i].blocks.size();
    while (!stop && needs > free_.size()) {
      const std::size_t victim = scheduler_->victim(running(), now_);
      stop = running_[victim].spec.id == me;
      preempt(victim);
      if (victim < i) --i;
      preempted = true;
    }
    if (!stop) schedule(running_[i], tokens);
  }
  if (!preempted) admit_waiting();
  return preempted;
}

void ReferenceEngine::admit_waiting() {
  while (running_.size() < static_cast<std::size_t>(config_.max_num_seqs) && budget() > 0) {
    const std::size_t spare =
        running_.empty() ? 0 : static_cast<std::size_t>(config_.watermark_blocks);
    if (free_.size() <= spare || scheduler_->size() == 0) return;
    const auto id = scheduler_->head(now_);
    if (!id) return;
    Seq s = waiting_.at(*id);
    const std::vector<std::size_t> hits = cached_blocks(s);
    const auto cached = static_cast<std::int64_t>(hits.size()) * config_.block_tokens;
    std::int64_t tokens = s.known() - cached;
    if (config_.long_prefill_tokens > 0) tokens = std::min(tokens, config_.long_prefill_tokens);
    if (!config_.chunked_prefill && tokens > budget()) return;
    tokens = std::min(tokens, budget());
    // Free blocks: those it takes up again, and new ones.
    const auto revived = static_cast<std::size_t>(std::count_if(
        hits.begin(), hits.end(), [&](std::size_t b) { return blocks_[b].holders == 0; }));
    const std::int64_t asks = config_.reserve_full_sequence ? s.known() : cached + tokens;
    if (revived + blocks_for(asks) - hits.size() + spare > free_.size()) return;
    for (const std::size_t block : hits) {
      ++blocks_[block].holders;
      std::erase(free_, block);
    }
    s.blocks = hits;
    s.computed = cached;
    totals_.prefix_asked += Tokens(s.known());
    totals_.prefix_hit += Tokens(cached);
    scheduler_->pop_head();
    waiting_.erase(*id);
    running_.push_back(s);
    if (sink_ != nullptr) sink_->on_admitted(*id, now_, Tokens(cached));
    schedule(running_.back(), tokens);
  }
}

std::string ReferenceEngine::audit() const {
  std::vector<int> holders(blocks_.size());
  std::int64_t scheduled = 0;
  for (const Seq& s : running_) {
    for (const std::size_t block : s.blocks) ++holders[block];
    if (s.blocks.size() != blocks_for(s.computed)) return "a sequence holds too few blocks";
    if (s.computed > s.known()) return "a sequence computed more than there is";
    scheduled += s.scheduled;
  }
  if (scheduled > config_.max_batched_tokens) return "an iteration exceeds its token budget";
  if (!under_way_ && scheduled != 0) return "tokens are scheduled between iterations";
  if (running_.size() > static_cast<std::size_t>(config_.max_num_seqs)) return "too many sequences";
  std::vector<bool> is_free(blocks_.size());
  for (const std::size_t block : free_) {
    if (is_free[block]) return "a block is free twice";
    is_free[block] = true;
  }
  std::size_t cached = 0;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    if (blocks_[b].holders != holders[b]) return "a reference count is wrong";
    if (is_free[b] != (holders[b] == 0)) return "a block is neither free nor held, or both";
    if (!blocks_[b].content) continue;
    ++cached;
    const auto found = cache_.find(*blocks_[b].content);
    if (found == cache_.end() || found->second != b) return "a cached block cannot be found";
  }
  if (cached != cache_.size()) return "the cache names a block that is not cached";
  if (added_ != ended_ + running_.size() + waiting_.size()) return "a request was lost";
  if (scheduler_->size() != waiting_.size()) return "the line lost a request";
  return {};
}

}  // namespace tailrace::engine
