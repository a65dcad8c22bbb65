#include "tailrace/engine/batch_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "tailrace/core/check.h"

namespace tailrace::engine {
namespace {

Result<void> check_cost(std::string_view field, double value) {
  if (std::isfinite(value) && value >= 0) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is {}; it must be a finite number, at least 0", field, value));
}

Result<void> check_limit(std::string_view field, std::int64_t value) {
  if (value >= 1) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is {}; it must be at least 1", field, value));
}

}  // namespace

Duration IterationCost::of(Tokens batch_tokens, Tokens kv_tokens) const {
  const double above_knee = std::max(0.0, static_cast<double>(batch_tokens.count()) - knee_tokens);
  const double ms =
      alpha_ms + beta_ms * above_knee + gamma_ms * static_cast<double>(kv_tokens.count());
  return std::max(from_millis(ms), Duration{1});
}

Result<void> EngineConfig::check() const {
  for (const auto& [field, value] : {std::pair{"alpha", cost.alpha_ms},
                                     {"beta", cost.beta_ms},
                                     {"gamma", cost.gamma_ms},
                                     {"knee tokens", cost.knee_tokens}}) {
    if (auto ok = check_cost(field, value); !ok) return ok;
  }
  for (const auto& [field, value] : {std::pair{"max_num_seqs", max_num_seqs},
                                     {"max_batched_tokens", max_batched_tokens},
                                     {"kv_tokens", kv_tokens}}) {
    if (auto ok = check_limit(field, value); !ok) return ok;
  }
  return {};
}

BatchEngine::BatchEngine(const EngineConfig& config) : config_(config) {
  TAILRACE_CHECK(config.check().has_value());
}

Result<void> BatchEngine::add(const SequenceSpec& spec) {
  const std::int64_t prompt = spec.prompt_tokens.count();
  const std::int64_t output = spec.output_tokens.count();
  if (prompt < 1 || output < 1) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("prompt_tokens {} and output_tokens {} must both be at least 1", prompt,
                            output));
  }
  if (prompt > config_.kv_tokens || output > config_.kv_tokens - prompt) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("prompt_tokens {} and output_tokens {} exceed the KV capacity of {} "
                            "tokens; shorten the request or raise kv_tokens",
                            prompt, output, config_.kv_tokens));
  }
  if (by_id_.contains(spec.id)) {
    return fail(ErrorCode::kAlreadyExists,
                fmt::format("sequence {} exists already", spec.id.count()));
  }
  Sequence sequence;
  sequence.id = spec.id;
  sequence.prompt = prompt;
  sequence.output = output;
  by_id_.emplace(spec.id, waiting_.insert(waiting_.end(), sequence));
  return {};
}

bool BatchEngine::abort(SequenceId id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  kv_used_ -= found->second->computed;
  (found->second->running ? running_ : waiting_).erase(found->second);
  by_id_.erase(found);
  return true;
}

std::optional<Iteration> BatchEngine::begin_iteration(MonoTime now) {
  TAILRACE_CHECK(!under_way_);
  Batch batch;
  schedule_running(batch);
  if (!batch.preempted) admit_waiting(batch);
  if (batch.tokens == 0) return std::nullopt;
  under_way_ = true;
  const Duration takes = config_.cost.of(Tokens(batch.tokens), Tokens(batch.kv));
  return Iteration{now, now + takes, Tokens(batch.tokens), Tokens(batch.kv)};
}

void BatchEngine::schedule_running(Batch& batch) {
  for (auto it = running_.begin(); it != running_.end();) {
    const std::int64_t budget = config_.max_batched_tokens - batch.tokens;
    const std::int64_t tokens = std::min(it->known() - it->computed, budget);
    if (tokens == 0) {
      ++it;
      continue;
    }
    if (!make_room_for(it, tokens, batch)) break;
    schedule(*it, tokens, batch);
    ++it;
  }
}

/// False if the sequence itself was the last one and had to go.
bool BatchEngine::make_room_for(Queue::iterator sequence, std::int64_t tokens, Batch& batch) {
  while (config_.kv_tokens - kv_used_ < tokens) {
    const bool itself = std::next(sequence) == running_.end();
    preempt_last(batch);
    if (itself) return false;
  }
  return true;
}

void BatchEngine::preempt_last(Batch& batch) {
  const auto victim = std::prev(running_.end());
  unschedule(*victim, batch);
  kv_used_ -= victim->computed;
  victim->computed = 0;
  victim->running = false;
  waiting_.splice(waiting_.begin(), running_, victim);
  batch.preempted = true;
  ++preemptions_;
}

void BatchEngine::admit_waiting(Batch& batch) {
  while (!waiting_.empty() && running_.size() < static_cast<std::size_t>(config_.max_num_seqs)) {
    const std::int64_t budget = config_.max_batched_tokens - batch.tokens;
    const auto head = waiting_.begin();
    if (budget == 0 || config_.kv_tokens - kv_used_ < head->known()) return;
    head->running = true;
    running_.splice(running_.end(), waiting_, head);
    schedule(*head, std::min(head->known(), budget), batch);
  }
}

void BatchEngine::schedule(Sequence& sequence, std::int64_t tokens, Batch& batch) {
  sequence.scheduled = tokens;
  sequence.computed += tokens;
  kv_used_ += tokens;
  batch.tokens += tokens;
  batch.kv += sequence.computed;
}

void BatchEngine::unschedule(Sequence& sequence, Batch& batch) {
  if (sequence.scheduled == 0) return;
  batch.tokens -= sequence.scheduled;
  batch.kv -= sequence.computed;
  sequence.scheduled = 0;
}

const std::vector<TokenEvent>& BatchEngine::end_iteration() {
  TAILRACE_CHECK(under_way_);
  under_way_ = false;
  ++iterations_;
  events_.clear();
  for (auto it = running_.begin(); it != running_.end();) {
    const auto sequence = it++;
    const bool samples = sequence->scheduled > 0 && sequence->computed == sequence->known();
    sequence->scheduled = 0;
    if (!samples) continue;
    ++sequence->generated;
    const bool finished = sequence->generated == sequence->output;
    events_.push_back({sequence->id, Tokens(sequence->generated), finished});
    if (!finished) continue;
    kv_used_ -= sequence->computed;
    by_id_.erase(sequence->id);
    running_.erase(sequence);
  }
  return events_;
}

EngineState BatchEngine::state() const {
  return {running_.size(),           waiting_.size(), Tokens(kv_used_),
          Tokens(config_.kv_tokens), preemptions_,    iterations_};
}

}  // namespace tailrace::engine
