#include "engine/support/random_workload.h"

#include <algorithm>

namespace tailrace::engine {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Changes its mind at every question, and preempts whom it likes. Were that for ever, a crowded
/// engine without reservation could take all but for ever too: victims at random throw away what
/// others have computed. So its patience ends, and then the first of the batch is safe.
class WhimsicalScheduler final : public BatchScheduler {
 public:
  WhimsicalScheduler(std::uint64_t seed, std::int64_t review_interval)
      : seed_(seed), review_interval_(review_interval) {}

  void push(const SequenceView& sequence, MonoTime) override { line_.push_back(sequence.id); }
  std::optional<SequenceId> head(MonoTime) override {
    if (line_.empty()) return std::nullopt;
    head_ = draw(line_.size());
    return line_[head_];
  }
  void pop_head() override { line_.erase(line_.begin() + static_cast<std::ptrdiff_t>(head_)); }
  bool remove(SequenceId id) override { return std::erase(line_, id) == 1; }
  std::size_t size() const override { return line_.size(); }
  std::size_t victim(std::span<const SequenceView> running, MonoTime) override {
    return ++victims_ > 1000 ? running.size() - 1 : draw(running.size());
  }
  std::int64_t review_interval() const override { return review_interval_; }
  void review(std::span<const SequenceView> running, const Room&, MonoTime,
              std::vector<SequenceId>& preempt) override {
    for (const SequenceView& s : running) {
      if (s.preemptions < 3 && draw(4) == 0) preempt.push_back(s.id);
    }
    if (draw(4) == 0) preempt.push_back(SequenceId(1'000'000));  // nobody
  }

 private:
  std::size_t draw(std::size_t bound) {
    return static_cast<std::size_t>(mix(seed_ + ++asked_ * 0x9e3779b97f4a7c15ULL) % bound);
  }
  std::uint64_t seed_;
  std::int64_t review_interval_;
  std::uint64_t asked_ = 0;
  int victims_ = 0;
  std::size_t head_ = 0;
  std::vector<SequenceId> line_;
};

class LoggingScheduler final : public BatchScheduler {
 public:
  LoggingScheduler(std::unique_ptr<BatchScheduler> inner, Log& log)
      : inner_(std::move(inner)), log_(log) {}

  void push(const SequenceView& sequence, MonoTime now) override {
    write(11, now);
    write(sequence);
    inner_->push(sequence, now);
  }
  std::optional<SequenceId> head(MonoTime now) override {
    write(12, now);
    const auto id = inner_->head(now);
    log_.push_back(id ? static_cast<std::int64_t>(id->count()) : -1);
    return id;
  }
  void pop_head() override {
    log_.push_back(13);
    inner_->pop_head();
  }
  bool remove(SequenceId id) override { return inner_->remove(id); }
  std::size_t size() const override { return inner_->size(); }
  std::size_t victim(std::span<const SequenceView> running, MonoTime now) override {
    write(14, now);
    for (const SequenceView& s : running) write(s);
    const std::size_t index = inner_->victim(running, now);
    log_.push_back(static_cast<std::int64_t>(index));
    return index;
  }
  std::int64_t review_interval() const override { return inner_->review_interval(); }
  void review(std::span<const SequenceView> running, const Room& room, MonoTime now,
              std::vector<SequenceId>& preempt) override {
    write(15, now);
    for (const SequenceView& s : running) write(s);
    log_.insert(log_.end(), {room.free_blocks, room.usable_blocks, room.block_tokens,
                             static_cast<std::int64_t>(room.free_slots)});
    inner_->review(running, room, now, preempt);
  }
  void ended(SequenceId id) override {
    log_.insert(log_.end(), {16, static_cast<std::int64_t>(id.count())});
    inner_->ended(id);
  }

 private:
  void write(std::int64_t kind, MonoTime now) {
    log_.insert(log_.end(), {kind, now.time_since_epoch().count()});
  }
  void write(const SequenceView& s) {
    log_.insert(log_.end(),
                {static_cast<std::int64_t>(s.id.count()), s.arrival.time_since_epoch().count(),
                 s.priority, s.prompt_tokens.count(), s.generated.count(), s.computed.count(),
                 s.blocks, s.preemptions});
  }
  std::unique_ptr<BatchScheduler> inner_;
  Log& log_;
};

}  // namespace

RandomWorkload::RandomWorkload(std::uint64_t seed) : rng_(seed) {
  wide_ = chance(0.1);
  EngineConfig& c = config_;
  c.cost.alpha_ms = 1 + 9 * rng_.uniform();
  c.cost.beta_ms = 0.1 * rng_.uniform();
  c.cost.gamma_ms = 0.01 * rng_.uniform();
  c.cost.knee_tokens = static_cast<double>(between(0, 20));
  c.cost.per_request_ms = chance(0.5) ? 0 : 0.1 * rng_.uniform();
  c.cost.cpu_ms = chance(0.5) ? 0 : 10 * rng_.uniform();
  c.cost.cpu_per_request_ms = chance(0.5) ? 0 : rng_.uniform();
  c.cost.async_scheduling = chance(0.7);
  const std::int64_t widths[] = {1, 2, 3, 4, 8, 16};
  c.block_tokens = wide_ ? 16 : widths[rng_.below(6)];
  c.kv_blocks = 1 + (wide_ ? between(30, 300) : between(2, chance(0.3) ? 12 : 60));
  c.max_num_seqs = wide_ ? between(8, 40) : between(1, 8);
  c.max_batched_tokens = wide_ ? between(40, 300) : between(1, chance(0.5) ? 12 : 80);
  c.long_prefill_tokens = chance(0.3) ? between(1, 20) : 0;
  c.chunked_prefill = chance(0.85);
  c.prefix_caching = chance(0.65);
  c.reserve_full_sequence = chance(0.6);
  c.watermark_blocks = chance(0.3) ? between(1, 4) : 0;
  c.max_model_len = chance(0.2) ? between(10, 60) : 100'000;
  line_ = static_cast<int>(rng_.below(4));
  line_seed_ = rng_.next_u64();
  review_interval_ = line_ == 3 ? between(1, 5) : 0;
  tokens_per_id_ = c.block_tokens * between(1, 4);
  const std::int64_t capacity = c.usable_blocks() * c.block_tokens;
  longest_prompt_ = std::max<std::int64_t>(1, std::min<std::int64_t>(capacity, wide_ ? 400 : 50));
  longest_output_ = std::max<std::int64_t>(1, std::min<std::int64_t>(capacity, wide_ ? 200 : 40));
}

std::unique_ptr<BatchScheduler> RandomWorkload::scheduler(Log& log) const {
  std::unique_ptr<BatchScheduler> inner;
  if (line_ == 0) {
    inner = make_fcfs_scheduler();
  } else if (line_ == 1) {
    inner = make_priority_scheduler();
  } else {
    inner = std::make_unique<WhimsicalScheduler>(line_seed_, review_interval_);
  }
  return std::make_unique<LoggingScheduler>(std::move(inner), log);
}

std::int64_t RandomWorkload::between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(high - low + 1)));
}

SequenceSpec RandomWorkload::request(std::uint64_t id) {
  SequenceSpec spec;
  spec.id = SequenceId(id);
  spec.prompt_tokens = Tokens(between(1, chance(0.5) ? longest_prompt_ : 8));
  spec.output_tokens = Tokens(between(1, chance(0.7) ? longest_output_ : 4));
  spec.priority = static_cast<int>(between(0, 3));
  if (chance(0.8)) spec.prefix = prefix(spec.prompt_tokens.count());
  if (chance(0.1)) spec.blocking = Duration(between(1, 1'000'000));
  return spec;
}

// Branches of one tree, so that requests share the beginning of their prompts; sometimes ids that
// break their promise (the same one after different ones, or twice), which must do no harm.
PrefixIds RandomWorkload::prefix(std::int64_t tokens) {
  PrefixIds prefix;
  prefix.tokens_per_id = chance(0.95) ? tokens_per_id_ : config_.block_tokens;
  const bool honest = chance(0.9);
  std::int64_t stretch = tokens / prefix.tokens_per_id + between(-1, 2);
  std::uint64_t node = 0;
  for (; stretch > 0; --stretch) {
    const std::uint64_t branch = rng_.below(chance(0.7) ? 1 : 3);
    node = honest ? mix(node * 4 + branch + 1) : branch;
    prefix.ids.push_back(node);
  }
  return prefix;
}

}  // namespace tailrace::engine
