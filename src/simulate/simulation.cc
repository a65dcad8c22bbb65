#include "tailrace/simulate/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>

#include "simulate/router.h"
#include "simulate/server.h"
#include "simulate/spec_check.h"

namespace tailrace::simulate {
namespace {

constexpr std::size_t kBytesPerToken = 4;  // what holding a prompt costs a dispatcher, about
/// Running requests are looked at no more often than this: some ten tokens.
constexpr Duration kReportEvery = std::chrono::milliseconds(250);

/// Names sort like numbers, so that ties fall to the engine with the smaller one.
std::string backend_name(std::size_t engine) {
  return fmt::format("{:05}", engine);
}
std::size_t engine_of(const std::string& backend) {
  std::size_t engine = 0;
  std::from_chars(backend.data(), backend.data() + backend.size(), engine);
  return engine;
}

class Simulation {
 public:
  Simulation(const RunSpec& spec, Workload& workload, const RecordSink& sink)
      : spec_(spec),
        workload_(workload),
        sink_(sink),
        horizon_(spec.horizon_s ? MonoTime{from_seconds(*spec.horizon_s)} : kNever),
        router_(spec.front, spec.fleet) {}

  Result<RunTotals> run() {
    if (auto made = make_parts(); !made) return fail(made.error());
    if (auto more = read_arrival(); !more) return fail(more.error());
    while (true) {
      const MonoTime until = std::min(next_outside(), horizon_);
      if (dispatcher_) run_to(until);
      if (until == kNever || (until == horizon_ && next_outside() > horizon_)) break;
      if (auto done = happen(until); !done) return fail(done.error());
    }
    if (auto ended = finish(); !ended) return fail(ended.error());
    return totals_;
  }

 private:
  struct LawOnItsWay {
    MonoTime at;
    std::uint64_t key = 0;
  };

  Result<void> make_parts();
  Result<void> read_arrival();
  MonoTime next_outside() const;
  Result<void> happen(MonoTime now);
  Result<void> arrive(MonoTime now);
  void predict(Live& live, MonoTime now);
  void note_law(Live& live);
  void report_running(MonoTime now);
  void law_arrives(std::uint64_t key, MonoTime now);
  void report_before_arrival();
  void count_waiting(MonoTime now);

  void run_to(MonoTime until);
  void assign(MonoTime now);
  void settle_all(MonoTime until);
  Server* first_to_end() const;
  void end_first(Server& server);
  void hand_over(Live& live, std::size_t engine, MonoTime now);
  void refuse(Live& live, MonoTime now);
  void emit(Live& live, End end);
  Result<void> finish();

  RunSpec spec_;
  Workload& workload_;
  const RecordSink& sink_;
  MonoTime horizon_;
  const std::string model_{"model"};
  std::unique_ptr<LengthPredictor> predictor_;
  std::optional<dispatch::Dispatcher> dispatcher_;
  Router router_;  // where there is no dispatcher
  Books books_;
  std::vector<std::unique_ptr<Server>> servers_;
  Request arrival_;  // the next one
  bool arrivals_left_ = true;
  std::deque<LawOnItsWay> laws_;  // in order: every prediction takes as long
  MonoTime reported_{Duration::min()};
  MonoTime running_reported_;
  std::uint64_t unsettled_arrivals_ = 0;
  RunTotals totals_;
};

Result<void> Simulation::make_parts() {
  auto predictor = make_predictor(spec_.predictor, spec_.workload.lengths, Rng(spec_.seed));
  if (!predictor) return fail(predictor.error());
  predictor_ = std::move(*predictor);
  for (int i = 0; i < spec_.fleet.engines; ++i) {
    auto server = Server::make(spec_, horizon_, *predictor_, books_);
    if (!server) return fail(server.error());
    servers_.push_back(std::move(*server));
  }
  if (!spec_.front.queue) return {};
  dispatch::DispatchConfig config = spec_.front.dispatch;
  config.ended_jobs_remembered = 0;  // nobody asks for explanations
  auto dispatcher = dispatch::Dispatcher::make(config);
  if (!dispatcher) return fail(dispatcher.error());
  dispatcher_.emplace(std::move(*dispatcher));
  const int slots = spec_.front.slots_per_engine > 0
                        ? spec_.front.slots_per_engine
                        : static_cast<int>(spec_.fleet.engine.max_num_seqs);
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    auto put = dispatcher_->put_backend({backend_name(i), {model_}, slots}, MonoTime{});
    if (!put) return put;
  }
  return {};
}

Result<void> Simulation::read_arrival() {
  auto more = workload_.next(arrival_);
  if (!more) return fail(more.error());
  if (*more && arrival_.arrival < totals_.last_arrival) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("request {} arrives at {} s, before the one before it; sort requests "
                            "by arrival",
                            arrival_.id, to_seconds(arrival_.arrival)));
  }
  arrivals_left_ = *more && arrival_.arrival <= horizon_;
  return {};
}

MonoTime Simulation::next_outside() const {
  MonoTime next = arrivals_left_ ? arrival_.arrival : kNever;
  if (!laws_.empty()) next = std::min(next, laws_.front().at);
  return next;
}

/// Everything from outside of the engines that happens at `now`: laws, then requests.
Result<void> Simulation::happen(MonoTime now) {
  while (!laws_.empty() && laws_.front().at == now) {
    const std::uint64_t key = laws_.front().key;
    laws_.pop_front();
    law_arrives(key, now);
  }
  if (dispatcher_) assign(now);
  while (arrivals_left_ && arrival_.arrival == now) {
    if (auto arrived = arrive(now); !arrived) return arrived;
    if (auto more = read_arrival(); !more) return more;
    if (!arrivals_left_) count_waiting(now);
  }
  return {};
}

/// Once, when the last request has come.
void Simulation::count_waiting(MonoTime now) {
  if (!dispatcher_) settle_all(now);
  for (const std::uint64_t key : books_.live.keys()) {
    if (!books_.live.at(key).in_batch) ++totals_.waiting_at_last;
  }
}

Result<void> Simulation::arrive(MonoTime now) {
  const bool learns = spec_.predictor.kind == PredictorSpec::Kind::kOnline;
  const bool counts = !dispatcher_ && (router_.counts_ends() || learns);
  if (!dispatcher_) {
    report_before_arrival();
    // What nobody asks yet may lag behind; but it may not pile up.
    if (counts || ++unsettled_arrivals_ > 64 * servers_.size()) settle_all(now);
  }
  if (books_.live.full()) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("{} requests are in the system; lower the rate or set a horizon",
                            books_.live.size()));
  }
  ++totals_.offered;
  totals_.last_arrival = now;
  Live& live = books_.live.add(std::move(arrival_), now);
  live.prefix = prefix_key(live.request, spec_.front.prefix_depth);
  predict(live, now);
  if (!dispatcher_) {
    hand_over(live, router_.pick(live, now), now);
    return {};
  }
  const std::size_t bytes = static_cast<std::size_t>(live.request.prompt.count()) * kBytesPerToken;
  schedule::Job job = job_of(live);
  job.model = model_;
  if (dispatcher_->submit(std::move(job), bytes, now).refusal) {
    refuse(live, now);
  } else {
    assign(now);
  }
  return {};
}

void Simulation::predict(Live& live, MonoTime now) {
  if (spec_.predictor.kind == PredictorSpec::Kind::kNone) return;
  if (spec_.predictor.kind == PredictorSpec::Kind::kOnline) report_running(now);
  live.law = predictor_->predict(live.request);
  if (!live.law) return;
  if (spec_.predictor.delay > Duration{0}) {
    laws_.push_back({now + spec_.predictor.delay, live.key});
  } else {
    live.law_known = true;
    note_law(live);
  }
}

/// The law that it is ordered by from now on.
void Simulation::note_law(Live& live) {
  live.record.predicted_median = live.law->median();
  const Tokens output = live.request.output;
  const double below = live.law->cdf(static_cast<double>(output.count() - 1));
  const bool cut = output >= live.request.cap;
  const double up_to = cut ? 1 : live.law->cdf(static_cast<double>(output.count()));
  live.record.predicted_place = PredictedPlace{below, up_to};
}

/// What is still being written is longer than it is so far. The engines have got to `now`; that
/// only a prediction makes use of it is why this may wait for one.
void Simulation::report_running(MonoTime now) {
  if (now - running_reported_ < kReportEvery) return;
  running_reported_ = now;
  for (const auto& server : servers_) {
    server->each_running(
        now, [&](const Live& live, Tokens written) { predictor_->report(live.request, written); });
  }
}

void Simulation::law_arrives(std::uint64_t key, MonoTime now) {
  Live* const live = books_.live.find(key);
  if (live == nullptr) return;
  live->law_known = true;
  if (dispatcher_) dispatcher_->set_law(JobId(key), *live->law, now);
  if (live->record.engine < 0) {
    note_law(*live);
    return;
  }
  Server& server = *servers_[static_cast<std::size_t>(live->record.engine)];
  if (!dispatcher_) server.advance(now, false);
  if (!live->record.admitted) note_law(*live);
  server.set_law(*live, now);
  if (!dispatcher_) router_.law_arrived(*live);
}

/// Engines report at every whole multiple of the staleness; only the last one before an arrival
/// can matter.
void Simulation::report_before_arrival() {
  if (!router_.reads_reports()) return;
  const std::int64_t every = std::max<std::int64_t>(1, spec_.front.staleness.count());
  const std::int64_t arrival = arrival_.arrival.time_since_epoch().count();
  const MonoTime at{Duration{arrival / every * every}};
  if (at <= reported_) return;
  settle_all(at);
  router_.report(servers_, at);
  reported_ = at;
}

/// With a dispatcher: every end up to `until`, and what follows from it. An end frees a slot of its
/// own engine only, and while jobs wait every other slot is taken; so what it sets in motion
/// concerns no engine that has run ahead.
void Simulation::run_to(MonoTime until) {
  while (true) {
    for (const auto& server : servers_) server->advance(until, true);
    Server* first = first_to_end();
    if (first == nullptr || first->front()->at > until) return;
    const MonoTime now = first->front()->at;
    do {
      end_first(*first);
      first = first_to_end();
    } while (first != nullptr && first->front()->at == now);
    if (now < until) assign(now);
  }
}

void Simulation::assign(MonoTime now) {
  while (auto assignment = dispatcher_->next(now)) {
    hand_over(books_.live.at(assignment->job.id.count()), engine_of(assignment->backend), now);
  }
}

/// Without a dispatcher: all engines get to `until`, and every end up to it is settled.
void Simulation::settle_all(MonoTime until) {
  unsettled_arrivals_ = 0;
  for (const auto& server : servers_) server->advance(until, false);
  while (Server* first = first_to_end()) {
    if (first->front()->at > until) return;
    end_first(*first);
  }
}

/// Ends at one instant are settled by the engine's number.
Server* Simulation::first_to_end() const {
  Server* first = nullptr;
  for (const auto& server : servers_) {
    const Server::End* end = server->front();
    if (end != nullptr && (first == nullptr || end->at < first->front()->at)) first = server.get();
  }
  return first;
}

void Simulation::end_first(Server& server) {
  const Server::End end = *server.front();
  server.pop();
  Live& live = books_.live.at(end.key);
  books_.running += (end.at - live.since).count();
  live.record.finished = end.at;
  ++totals_.completed;
  totals_.output_tokens += live.request.output.count();
  totals_.end = end.at;
  if (spec_.predictor.kind == PredictorSpec::Kind::kOnline) predictor_->learn(live.request);
  if (dispatcher_) {
    TAILRACE_CHECK(dispatcher_->complete(JobId(end.key), dispatch::Outcome::kCompleted, end.at));
  } else {
    router_.ended(live);
  }
  emit(live, End::kCompleted);
}

void Simulation::hand_over(Live& live, std::size_t engine, MonoTime now) {
  Server& server = *servers_[engine];
  if (!dispatcher_) server.advance(now, false);
  const bool predicts = spec_.predictor.kind != PredictorSpec::Kind::kNone;
  const Duration blocking = predicts ? spec_.predictor.blocking : Duration{0};
  if (!server.add(live, blocking, now)) {
    if (dispatcher_) {
      TAILRACE_CHECK(dispatcher_->complete(JobId(live.key), dispatch::Outcome::kFailed, now));
    }
    refuse(live, now);
    return;
  }
  live.record.dispatched = now;
  live.record.engine = static_cast<int>(engine);
  if (!dispatcher_) router_.sent(engine, live);
}

void Simulation::refuse(Live& live, MonoTime now) {
  // Records come in the order of their ends; alone in the system, it is before nobody's.
  if (!dispatcher_ && books_.live.size() > 1) settle_all(now);
  ++totals_.refused;
  books_.waiting += (now - live.since).count();
  totals_.end = now;
  emit(live, End::kRefused);
}

void Simulation::emit(Live& live, End end) {
  live.record.end = end;
  live.record.tenant = std::move(live.request.tenant);
  sink_(live.record);
  books_.live.erase(live);
}

Result<void> Simulation::finish() {
  if (!dispatcher_) settle_all(horizon_);
  const bool all = books_.live.size() == 0 && !arrivals_left_;
  if (horizon_ == kNever && (!all || totals_.end == kNever)) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("the run reaches the end of the clock, {:.0f} years, with {} of {} "
                    "requests completed; let requests come sooner, make them or the "
                    "engine's cost smaller, or set a horizon",
                    to_seconds(kNever) / (365.25 * 86400), totals_.completed, totals_.offered));
  }
  if (!all) totals_.end = horizon_;
  for (const std::uint64_t key : books_.live.keys()) {
    Live& live = books_.live.at(key);
    (live.in_batch ? books_.running : books_.waiting) += (totals_.end - live.since).count();
    if (live.record.first_token > totals_.end) live.record.first_token.reset();
    ++totals_.unfinished;
    emit(live, End::kUnfinished);
  }
  for (const auto& server : servers_) {
    const engine::EngineState state = server->state();
    totals_.preemptions += state.preemptions;
    totals_.iterations += state.iterations;
    totals_.computed_tokens += state.computed.count();
    totals_.prefix_asked += state.prefix_asked.count();
    totals_.prefix_hit += state.prefix_hit.count();
    totals_.busy_s += to_seconds(server->busy());
    totals_.mean_kv_share += server->kv_share_seconds();
  }
  totals_.mean_report_age_s = router_.mean_report_age_s();
  totals_.max_report_age_s = router_.max_report_age_s();
  const double length_s = to_seconds(totals_.end);
  if (length_s <= 0) return {};
  totals_.mean_waiting = static_cast<double>(books_.waiting) * 1e-9 / length_s;
  totals_.mean_running = static_cast<double>(books_.running) * 1e-9 / length_s;
  totals_.mean_kv_share /= length_s * static_cast<double>(servers_.size());
  return {};
}

}  // namespace

double PredictedPlace::within(double low, double high) const {
  // A law that gave this length no chance at all was sure of something else.
  if (up_to <= below) return low < below && below < high ? 1 : 0;
  return std::max(0.0, std::min(up_to, high) - std::max(below, low)) / (up_to - below);
}

Result<RunTotals> run(const RunSpec& spec, const RecordSink& sink) {
  auto workload = make_workload(spec.workload, Rng(spec.seed));
  if (!workload) return fail(workload.error());
  return run(spec, **workload, sink);
}

Result<RunTotals> run(const RunSpec& spec, Workload& workload, const RecordSink& sink) {
  if (auto checked = check_run_spec(spec); !checked) return fail(checked.error());
  return Simulation(spec, workload, sink).run();
}

}  // namespace tailrace::simulate
