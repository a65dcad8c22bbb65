#include "simulate/elastic_engine.h"

#include <algorithm>
#include <utility>

namespace tailrace::simulate {

ElasticEngine::ElasticEngine(const engine::EngineConfig& config, std::string name,
                             std::size_t variant, MonoTime began, LiveTable& live)
    : core_(config), live_(live), counted_(began) {
  report_.name = std::move(name);
  report_.variant = variant;
  report_.began = began;
}

Result<void> ElasticEngine::add(Live& live, MonoTime now) {
  engine::SequenceSpec sequence;
  sequence.id = engine::SequenceId(live.key);
  sequence.prompt_tokens = live.request.prompt;
  sequence.output_tokens = live.request.output;
  sequence.prefix = live.request.prefix;
  auto added = core_.add(sequence, now);
  if (!added) return added;
  ++outstanding_;
  ++report_.received;
  more_work_ = true;
  return {};
}

void ElasticEngine::begin_iteration(MonoTime now) {
  if (next_ || !more_work_) return;
  began_iteration_ = now;
  in_iteration_ = decoding_;
  const auto next = core_.advance(now, now + Duration{1}, false, *this);
  more_work_ = next.has_value();
  // Where nothing is left to do, what ended in this iteration has set next_.
  if (next) next_ = next;
}

const std::vector<std::uint64_t>& ElasticEngine::end_iteration(MonoTime now) {
  next_.reset();
  count_running(now);
  if (in_iteration_ > 0) {
    report_.gaps += static_cast<std::uint64_t>(in_iteration_);
    report_.gap_s += static_cast<double>(in_iteration_) * to_seconds(now - began_iteration_);
  }
  for (const std::uint64_t key : firsts_) {
    const RequestRecord& record = live_.at(key).record;
    ++report_.first_tokens;
    report_.ttft_s += to_seconds(now - *record.dispatched);
  }
  firsts_.clear();
  for (const std::uint64_t key : ends_) {
    const Live& live = live_.at(key);
    const auto input = static_cast<double>(live.request.prompt.count());
    const auto output = static_cast<double>(live.request.output.count());
    ++report_.completed;
    report_.input_tokens += input;
    report_.input_squares += input * input;
    report_.output_tokens += output;
    report_.output_squares += output * output;
  }
  outstanding_ -= ends_.size();
  in_batch_ -= ends_.size();
  settled_.swap(ends_);
  ends_.clear();
  return settled_;
}

EngineReport ElasticEngine::report(MonoTime now) const {
  EngineReport out = report_;
  const engine::EngineState state = core_.state();
  out.running = in_batch_;
  out.waiting = outstanding_ - in_batch_;
  out.running_s += static_cast<double>(in_batch_) * to_seconds(now - counted_);
  out.kv_share =
      static_cast<double>(state.kv_during.count()) / static_cast<double>(state.kv_capacity.count());
  if (!next_) {
    out.kv_share =
        static_cast<double>(state.kv_used.count()) / static_cast<double>(state.kv_capacity.count());
  }
  out.preemptions = state.preemptions;
  return out;
}

void ElasticEngine::count_running(MonoTime now) {
  report_.running_s += static_cast<double>(in_batch_) * to_seconds(now - counted_);
  counted_ = now;
}

void ElasticEngine::on_admitted(engine::SequenceId id, MonoTime at, Tokens cached) {
  count_running(at);
  ++in_batch_;
  Live& live = live_.at(id.count());
  live.in_batch = true;
  if (live.record.first_token) {
    // Sent back in the middle of its answer; it makes tokens again once it is computed.
    ++decoding_;
    return;
  }
  if (live.record.admitted) return;
  live.record.admitted = at;
  live.record.cached = cached;
}

void ElasticEngine::on_first_token(engine::SequenceId id, MonoTime at) {
  live_.at(id.count()).record.first_token = at;
  firsts_.push_back(id.count());
  ++decoding_;
}

void ElasticEngine::on_finished(engine::SequenceId id, MonoTime at) {
  ends_.push_back(id.count());
  --decoding_;
  next_ = at;
}

void ElasticEngine::on_preempted(engine::SequenceId id, MonoTime at, Tokens) {
  count_running(at);
  --in_batch_;
  Live& live = live_.at(id.count());
  live.in_batch = false;
  ++live.record.preemptions;
  if (!live.record.first_token) return;
  --decoding_;
  --in_iteration_;
}

}  // namespace tailrace::simulate
