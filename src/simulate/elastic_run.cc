#include "tailrace/simulate/elastic_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <queue>
#include <set>
#include <utility>

#include "simulate/elastic_engine.h"
#include "simulate/field_check.h"
#include "simulate/server.h"
#include "tailrace/core/check.h"

namespace tailrace::simulate {
namespace {

constexpr double kSecondsMax = 1e8;
constexpr int kEnginesMax = 100'000;
constexpr int kClientsMax = 1'000'000;

Result<void> check_variant(const ElasticVariant& variant, const std::string& section) {
  const FieldCheck in(section);
  if (variant.name.empty()) return in.missing("name", "what the variant is called");
  if (auto ok = variant.engine.check(); !ok) return ok;
  if (variant.slots < 0) return in.bad("slots", variant.slots, "0 or more");
  if (variant.initial < 0 || variant.initial > kEnginesMax) {
    return in.bad("initial", variant.initial, "0 to 100000");
  }
  if (!in_range(to_seconds(variant.startup), 0, kSecondsMax)) {
    return in.bad("startup", to_seconds(variant.startup), "seconds, 0 to 1e8");
  }
  return {};
}

Result<void> check(const ElasticSpec& spec) {
  const FieldCheck in("elastic");
  if (spec.variants.empty()) return in.missing("variants", "which engines there are");
  std::set<std::string> names;
  for (std::size_t i = 0; i < spec.variants.size(); ++i) {
    const std::string section = fmt::format("variants[{}]", i);
    if (auto ok = check_variant(spec.variants[i], section); !ok) return ok;
    if (!names.insert(spec.variants[i].name).second) {
      return FieldCheck(section).bad("name", spec.variants[i].name, "a name of its own");
    }
  }
  if (!in_range(spec.cycle_s, 1e-3, kSecondsMax)) {
    return in.bad("cycle_s", spec.cycle_s, "seconds, 0.001 to 1e8");
  }
  if (!in_range(spec.duration_s, 1e-3, kSecondsMax)) {
    return in.bad("duration_s", spec.duration_s, "seconds, 0.001 to 1e8");
  }
  if (!in_range(spec.patience_s, 0, kSecondsMax)) {
    return in.bad("patience_s", spec.patience_s, "seconds, 0 to 1e8");
  }
  if (!spec.closed) return {};
  if (spec.workload.sessions) {
    return in.bad("closed", "set beside sessions", "left out, or the sessions");
  }
  if (spec.closed->clients < 1 || spec.closed->clients > kClientsMax) {
    return in.bad("closed.clients", spec.closed->clients, "1 to 1000000");
  }
  if (!in_range(spec.closed->think_s, 1e-3, kSecondsMax)) {
    return in.bad("closed.think_s", spec.closed->think_s, "seconds, 0.001 to 1e8");
  }
  return {};
}

/// Who comes next, and when.
class Arrivals {
 public:
  Arrivals(const ElasticSpec& spec, std::unique_ptr<Workload> workload)
      : workload_(std::move(workload)),
        closed_(spec.closed),
        think_(Rng(spec.seed).fork("thinking")),
        last_(MonoTime{from_seconds(spec.duration_s)}) {
    if (!closed_) return;
    for (int i = 0; i < closed_->clients; ++i) client_thinks(MonoTime{});
  }

  Result<void> begin() { return closed_ ? Result<void>{} : read(); }

  MonoTime next() const {
    if (!closed_) return left_ ? request_.arrival : kNever;
    return clients_.empty() ? kNever : clients_.top();
  }
  /// The request that comes at next().
  Result<Request> take() {
    if (closed_) {
      const MonoTime at = clients_.top();
      clients_.pop();
      if (auto more = workload_->next(request_); !more) return fail(more.error());
      request_.arrival = at;
      return request_;
    }
    Request out = std::move(request_);
    if (auto more = read(); !more) return fail(more.error());
    return out;
  }
  void ended(MonoTime now) {
    if (closed_) client_thinks(now);
  }

 private:
  Result<void> read() {
    auto more = workload_->next(request_);
    if (!more) return fail(more.error());
    left_ = *more && request_.arrival < last_;
    return {};
  }
  void client_thinks(MonoTime now) {
    const MonoTime at = now + from_seconds(think_.exponential() * closed_->think_s);
    if (at < last_) clients_.push(at);
  }

  std::unique_ptr<Workload> workload_;
  std::optional<ClosedLoop> closed_;
  Rng think_;
  MonoTime last_;
  Request request_;
  bool left_ = false;
  std::priority_queue<MonoTime, std::vector<MonoTime>, std::greater<>> clients_;
};

class Elastic {
 public:
  Elastic(const ElasticSpec& spec, const Scaler& scaler, const RecordSink& sink,
          std::unique_ptr<Workload> workload, dispatch::Dispatcher dispatcher)
      : spec_(spec),
        scaler_(scaler),
        sink_(sink),
        arrivals_(spec, std::move(workload)),
        dispatcher_(std::move(dispatcher)),
        duration_(MonoTime{from_seconds(spec.duration_s)}),
        last_(duration_ + from_seconds(spec.patience_s)),
        cycle_(from_seconds(spec.cycle_s)),
        next_cycle_(cycle_),
        grew_(spec.variants.size()),
        made_(spec.variants.size()) {
    totals_.engine_s.resize(spec.variants.size());
  }

  Result<ElasticTotals> run() {
    for (std::size_t v = 0; v < spec_.variants.size(); ++v) {
      for (int i = 0; i < spec_.variants[v].initial; ++i) come(v, MonoTime{}, MonoTime{});
    }
    if (auto begun = arrivals_.begin(); !begun) return fail(begun.error());
    for (MonoTime now = next_event(); now <= last_; now = next_event()) {
      end_iterations(now);
      while (!starting_.empty() && starting_.front().ready <= now) {
        const Starting one = starting_.front();
        starting_.pop_front();
        come(one.variant, one.ordered, now);
      }
      if (now == next_cycle_) ask_scaler(now);
      while (arrivals_.next() == now) {
        if (auto arrived = arrive(now); !arrived) return fail(arrived.error());
      }
      assign(now);
      for (Engine& one : engines_) one.engine->begin_iteration(now);
      drop_empty(now);
    }
    finish();
    return totals_;
  }

 private:
  struct Engine {
    std::unique_ptr<ElasticEngine> engine;
    MonoTime ordered;
  };
  struct Starting {
    MonoTime ready, ordered;
    std::size_t variant = 0;
  };

  MonoTime next_event() const {
    MonoTime next = std::min(arrivals_.next(), next_cycle_);
    if (!starting_.empty()) next = std::min(next, starting_.front().ready);
    for (const Engine& one : engines_) {
      if (const auto at = one.engine->next()) next = std::min(next, *at);
    }
    return next;
  }

  void end_iterations(MonoTime now) {
    for (Engine& one : engines_) {
      if (one.engine->next() != now) continue;
      for (const std::uint64_t key : one.engine->end_iteration(now)) end(key, now);
    }
  }

  void end(std::uint64_t key, MonoTime now) {
    Live& live = live_.at(key);
    live.record.finished = now;
    ++totals_.completed;
    TAILRACE_CHECK(dispatcher_.complete(JobId(key), dispatch::Outcome::kCompleted, now));
    emit(live, End::kCompleted, now);
  }

  void emit(Live& live, End end, MonoTime now) {
    live.record.end = end;
    live.record.tenant = std::move(live.request.tenant);
    totals_.end = now;
    sink_(live.record);
    live_.erase(live);
    if (end != End::kUnfinished) arrivals_.ended(now);
  }

  Result<void> arrive(MonoTime now) {
    if (live_.full()) {
      return fail(ErrorCode::kResourceExhausted,
                  fmt::format("{} requests are in the system; lower the rate", live_.size()));
    }
    auto request = arrivals_.take();
    if (!request) return fail(request.error());
    ++totals_.offered;
    request->id = totals_.offered - 1;
    Live& live = live_.add(std::move(*request), now);
    held_.push_back(live.key);
    return {};
  }

  /// A dispatcher refuses what nobody serves: until then requests wait before it.
  void submit_held(MonoTime now) {
    while (!held_.empty() && dispatcher_.serves(kModel)) {
      Live& live = live_.at(held_.front());
      held_.pop_front();
      schedule::Job job = job_of(live);
      job.model = kModel;
      if (dispatcher_.submit(std::move(job), 0, now).refusal) refuse(live, now);
    }
  }

  void refuse(Live& live, MonoTime now) {
    ++totals_.refused;
    emit(live, End::kRefused, now);
  }

  void assign(MonoTime now) {
    submit_held(now);
    while (auto assignment = dispatcher_.next(now)) {
      Live& live = live_.at(assignment->job.id.count());
      const auto found = std::find_if(engines_.begin(), engines_.end(), [&](const Engine& one) {
        return one.engine->name() == assignment->backend;
      });
      TAILRACE_CHECK(found != engines_.end());
      live.record.dispatched = now;
      live.record.engine = static_cast<int>(found->engine->variant());
      if (found->engine->add(live, now)) continue;
      TAILRACE_CHECK(dispatcher_.complete(assignment->job.id, dispatch::Outcome::kFailed, now));
      refuse(live, now);
    }
  }

  void come(std::size_t v, MonoTime ordered, MonoTime now) {
    const ElasticVariant& variant = spec_.variants[v];
    const std::string name = fmt::format("{}-{}", variant.name, ++made_[v]);
    engines_.push_back(
        {std::make_unique<ElasticEngine>(variant.engine, name, v, now, live_), ordered});
    const int slots =
        variant.slots > 0 ? variant.slots : static_cast<int>(variant.engine.max_num_seqs);
    TAILRACE_CHECK(dispatcher_.put_backend({name, {kModel}, slots}, now));
  }

  void ask_scaler(MonoTime now) {
    next_cycle_ = now + cycle_ < duration_ ? now + cycle_ : kNever;
    const FleetReport report = look(now);
    const std::vector<int> wanted = scaler_(report);
    for (std::size_t v = 0; v < spec_.variants.size() && v < wanted.size(); ++v) {
      const VariantReport& there = report.variants[v];
      const int more = std::min(wanted[v], kEnginesMax) - there.ready - there.starting;
      if (more > 0) add(v, more, now);
      for (int i = 0; i < std::min(-more, there.ready + there.starting); ++i) remove(v, now);
    }
  }

  FleetReport look(MonoTime now) const {
    FleetReport report;
    report.now = now;
    report.variants.resize(spec_.variants.size());
    for (std::size_t v = 0; v < spec_.variants.size(); ++v) report.variants[v].grew = grew_[v];
    for (const Starting& one : starting_) ++report.variants[one.variant].starting;
    for (const Engine& one : engines_) {
      VariantReport& variant = report.variants[one.engine->variant()];
      ++(one.engine->draining() ? variant.draining : variant.ready);
      report.engines.push_back(one.engine->report(now));
    }
    report.arrived = totals_.offered;
    report.waiting = held_.size();
    for (const auto& pool : dispatcher_.pools(now)) report.waiting += pool.waiting;
    return report;
  }

  void add(std::size_t v, int count, MonoTime now) {
    grew_[v] = now;
    for (int i = 0; i < count; ++i) {
      const Starting one{now + spec_.variants[v].startup, now, v};
      const auto later = std::find_if(starting_.begin(), starting_.end(),
                                      [&](const Starting& s) { return s.ready > one.ready; });
      starting_.insert(later, one);
    }
  }

  void remove(std::size_t v, MonoTime now) {
    for (auto one = starting_.rbegin(); one != starting_.rend(); ++one) {
      if (one->variant != v) continue;
      cost(v, one->ordered, now);
      starting_.erase(std::next(one).base());
      return;
    }
    ElasticEngine* least = nullptr;
    for (const Engine& one : engines_) {
      ElasticEngine* const e = one.engine.get();
      if (e->variant() != v || e->draining()) continue;
      if (least == nullptr || e->outstanding() <= least->outstanding()) least = e;
    }
    TAILRACE_CHECK(least != nullptr);
    least->drain();
    TAILRACE_CHECK(dispatcher_.remove_backend(least->name(), now));
  }

  void drop_empty(MonoTime now) {
    std::erase_if(engines_, [&](const Engine& one) {
      const ElasticEngine& e = *one.engine;
      if (!e.draining() || e.outstanding() > 0 || e.next()) return false;
      cost(e.variant(), one.ordered, now);
      return true;
    });
  }

  void cost(std::size_t v, MonoTime from, MonoTime to) {
    totals_.engine_s[v] += std::max(0.0, to_seconds(std::min(to, duration_) - from));
  }

  void finish() {
    for (const Starting& one : starting_) cost(one.variant, one.ordered, duration_);
    for (const Engine& one : engines_) cost(one.engine->variant(), one.ordered, duration_);
    for (const std::uint64_t key : live_.keys()) {
      ++totals_.unfinished;
      emit(live_.at(key), End::kUnfinished, last_);
    }
  }

  static constexpr const char* kModel = "model";

  const ElasticSpec& spec_;
  const Scaler& scaler_;
  const RecordSink& sink_;
  Arrivals arrivals_;
  dispatch::Dispatcher dispatcher_;
  MonoTime duration_, last_;
  Duration cycle_;
  MonoTime next_cycle_;
  LiveTable live_;
  std::deque<std::uint64_t> held_;  ///< arrived while nobody serves
  std::vector<Engine> engines_;
  std::deque<Starting> starting_;  ///< by the time at which they are ready
  std::vector<std::optional<MonoTime>> grew_;
  std::vector<int> made_;  ///< engines so far, by variant
  ElasticTotals totals_;
};

}  // namespace

Result<ElasticTotals> run_elastic(const ElasticSpec& spec, const Scaler& scaler,
                                  const RecordSink& sink) {
  if (auto ok = check(spec); !ok) return fail(ok.error());
  WorkloadSpec workload_spec = spec.workload;
  if (spec.closed) {
    workload_spec.arrivals.duration_s.reset();
    workload_spec.arrivals.count = std::uint64_t{1} << 40;
  } else if (!workload_spec.arrivals.duration_s && !workload_spec.arrivals.count) {
    workload_spec.arrivals.duration_s = spec.duration_s;
  }
  auto workload = make_workload(workload_spec, Rng(spec.seed));
  if (!workload) return fail(workload.error());
  dispatch::DispatchConfig config = spec.dispatch;
  config.ended_jobs_remembered = 0;
  config.queued_jobs_max = std::size_t{1} << 40;
  auto dispatcher = dispatch::Dispatcher::make(config);
  if (!dispatcher) return fail(dispatcher.error());
  return Elastic(spec, scaler, sink, std::move(*workload), std::move(*dispatcher)).run();
}

}  // namespace tailrace::simulate
