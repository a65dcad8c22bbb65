#include "simulate/server.h"

#include <algorithm>

#include "simulate/refining_line.h"

namespace tailrace::simulate {

Result<std::unique_ptr<Server>> Server::make(const RunSpec& spec, MonoTime horizon,
                                             LengthPredictor& predictor, Books& books) {
  const FleetSpec& fleet = spec.fleet;
  std::unique_ptr<Server> server(new Server(books));
  server->horizon_ = horizon;
  std::unique_ptr<engine::BatchScheduler> line;
  if (fleet.line == FleetSpec::Line::kPolicy) {
    engine::PolicySchedulerOptions options = fleet.scheduler;
    options.slots = static_cast<std::size_t>(fleet.engine.max_num_seqs);
    auto made = engine::PolicyScheduler::make(options);
    if (!made) return fail(made.error());
    server->scheduler_ = made->get();
    if (spec.predictor.r2_refined) {
      line =
          make_refining_line(std::move(*made), spec.predictor.refine_every, predictor, books.live);
    } else {
      line = std::move(*made);
    }
  } else if (fleet.line == FleetSpec::Line::kPriority) {
    line = engine::make_priority_scheduler();
  }
  server->core_ = std::make_unique<engine::BatchEngine>(fleet.engine, std::move(line));
  return server;
}

Result<void> Server::add(Live& live, Duration blocking, MonoTime now) {
  TAILRACE_CHECK(reached_ <= now);  // what it has not seen yet may not change what it did
  const Request& request = live.request;
  engine::SequenceSpec sequence;
  sequence.id = engine::SequenceId(live.key);
  sequence.prompt_tokens = request.prompt;
  sequence.output_tokens = request.output;
  sequence.priority = -request.priority;
  sequence.prefix = std::move(live.request.prefix);
  sequence.blocking = blocking;
  if (scheduler_ != nullptr) scheduler_->describe(job_of(live));
  auto added = core_->add(sequence, now);
  if (!added) return added;
  ++outstanding_;
  if (!next_) {
    // Idle, or idle from an end on that the owner has not got to yet.
    next_ = std::max(now, last_end_);
    busy_since_ = std::min(*next_, horizon_);
  }
  return {};
}

void Server::set_law(const Live& live, MonoTime now) {
  if (scheduler_ != nullptr) scheduler_->set_law(engine::SequenceId(live.key), *live.law, now);
}

void Server::advance(MonoTime until, bool stop_at_finish) {
  if (stop_at_finish && front() != nullptr) return;
  if (next_ && *next_ < until) {
    next_ = core_->advance(*next_, until, stop_at_finish, *this);
    if (!next_) busy_ += std::min(last_end_, horizon_) - busy_since_;
  }
  const bool stopped = stop_at_finish && front() != nullptr;
  reached_ = std::max(reached_, stopped ? std::min(until, front()->at) : until);
}

void Server::pop() {
  --outstanding_;
  if (++head_ < ends_.size()) return;
  ends_.clear();
  head_ = 0;
}

void Server::each_running(MonoTime now, const std::function<void(const Live&, Tokens)>& see) const {
  const std::int64_t under_way = in_iteration(now) ? 1 : 0;
  for (const engine::SequenceView& sequence : core_->running()) {
    const std::int64_t written = sequence.generated.count() - under_way;
    if (written > 0) see(books_.live.at(sequence.id.count()), Tokens(written));
  }
}

double Server::kv_share(MonoTime now) const {
  const engine::EngineState state = core_->state();
  const Tokens held = in_iteration(now) ? state.kv_during : state.kv_used;
  return static_cast<double>(held.count()) / static_cast<double>(state.kv_capacity.count());
}

Duration Server::busy() const {
  return next_ ? busy_ + (std::min(*next_, horizon_) - busy_since_) : busy_;
}

double Server::kv_share_seconds() const {
  const engine::EngineState state = core_->state();
  const Duration beyond = std::max(Duration{0}, next_.value_or(last_end_) - horizon_);
  const double tokens =
      state.kv_token_seconds - static_cast<double>(state.kv_during.count()) * to_seconds(beyond);
  return tokens / static_cast<double>(state.kv_capacity.count());
}

void Server::on_admitted(engine::SequenceId id, MonoTime at, Tokens cached) {
  Live& live = books_.live.at(id.count());
  books_.waiting += (at - live.since).count();
  live.since = at;
  live.in_batch = true;
  if (live.record.admitted) return;
  live.record.admitted = at;
  live.record.cached = cached;
}

void Server::on_first_token(engine::SequenceId id, MonoTime at) {
  books_.live.at(id.count()).record.first_token = at;
}

void Server::on_finished(engine::SequenceId id, MonoTime at) {
  ends_.push_back({at, id.count()});
  last_end_ = at;
}

void Server::on_preempted(engine::SequenceId id, MonoTime at, Tokens) {
  Live& live = books_.live.at(id.count());
  books_.running += (at - live.since).count();
  live.since = at;
  live.in_batch = false;
  ++live.record.preemptions;
}

}  // namespace tailrace::simulate
