#include "tailrace/dispatch/dispatcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "dispatch/admission.h"
#include "dispatch/choice.h"
#include "dispatch/state.h"
#include "tailrace/core/check.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/text.h"

namespace tailrace::dispatch {
namespace {

constexpr std::size_t kAvoidedMax = 8;  // backends one job keeps off; older ones are forgiven

Error no_such_backend(std::string_view name) {
  return {ErrorCode::kNotFound, fmt::format("backend {} is not known", core::quoted(name))};
}

Event event_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCompleted:
      return Event::kCompleted;
    case Outcome::kFailed:
      return Event::kFailed;
    case Outcome::kCancelled:
      return Event::kCancelled;
  }
  return Event::kFailed;
}

/// Backends that take its jobs, healthy or not.
int serving(const Pool& pool) {
  return static_cast<int>(std::count_if(pool.backends.begin(), pool.backends.end(),
                                        [](const Backend* backend) { return !backend->draining; }));
}

}  // namespace

struct Dispatcher::Impl {
  Impl(const DispatchConfig& c, BackendChoice choice)
      : config(c), rule(choice), ended(c.ended_jobs_remembered) {}

  // Pools and their load.

  Pool* find_pool(std::string_view model) const {
    const auto found = pools.find(model);
    return found == pools.end() ? nullptr : found->second.get();
  }

  Pool& pool_for(const std::string& model) {
    if (Pool* existing = find_pool(model)) return *existing;
    auto policy = schedule::make_waiting_policy(config.policy, config.policy_options);
    TAILRACE_CHECK(policy.has_value());  // make() and set_policy() tried it
    auto pool = std::make_unique<Pool>(
        model, schedule::WaitingQueue(std::move(*policy), config.waiting_bound));
    turns.push_back(pool.get());
    return *pools.emplace(model, std::move(pool)).first->second;
  }

  void drop_if_unused(Pool& pool) {
    if (pool.awaited) return;
    if (!pool.backends.empty() || !pool.queue.empty() || pool.running_jobs > 0) return;
    turns.erase(std::find(turns.begin(), turns.end(), &pool));
    pools.erase(pools.find(pool.model));
  }

  /// B of TIE's Eq. 12. Back-offs do not count: they are short, and nobody calls when one ends.
  void update_load(Pool& pool) {
    std::size_t slots = 0;
    for (const Backend* backend : pool.backends) {
      if (backend->healthy && !backend->draining) {
        slots += static_cast<std::size_t>(backend->spec.slots);
      }
    }
    pool.queue.set_load(pool.queue.size(), slots);
    pool.load_slots = slots;
  }

  void queue_changed(Pool& pool) { pool.queue.set_load(pool.queue.size(), pool.load_slots); }

  // Backends.

  Backend* find_backend(std::string_view name) const {
    const auto found = backends.find(name);
    return found == backends.end() ? nullptr : found->second.get();
  }

  void join(Backend& backend) {
    for (const std::string& model : backend.spec.models) {
      Pool& pool = pool_for(model);
      const auto by_name = [](const Backend* a, const Backend* b) {
        return a->spec.name < b->spec.name;
      };
      pool.backends.insert(
          std::upper_bound(pool.backends.begin(), pool.backends.end(), &backend, by_name),
          &backend);
      update_load(pool);
    }
  }

  void leave(Backend& backend, const std::vector<std::string>& models) {
    for (const std::string& model : models) {
      Pool& pool = *find_pool(model);
      pool.backends.erase(std::find(pool.backends.begin(), pool.backends.end(), &backend));
      update_load(pool);
    }
  }

  void drop_unused(const std::vector<std::string>& models) {
    for (const std::string& model : models) {
      if (Pool* pool = find_pool(model)) drop_if_unused(*pool);
    }
  }

  void update_loads(const Backend& backend) {
    for (const std::string& model : backend.spec.models) update_load(*find_pool(model));
  }

  void drop_if_drained(Backend& backend) {
    if (!backend.draining || backend.running > 0) return;
    const std::vector<std::string> models = backend.spec.models;
    leave(backend, models);
    backends.erase(backends.find(backend.spec.name));
    drop_unused(models);
  }

  // Jobs.

  LiveJob* find_running(JobId id) {
    const auto found = live.find(id);
    return found != live.end() && found->second.backend != nullptr ? &found->second : nullptr;
  }

  schedule::Job take_from_queue(LiveJob& record, JobId id) {
    Pool& pool = *record.pool;
    Result<schedule::Job> job = pool.queue.remove(id);
    TAILRACE_CHECK(job.has_value());
    pool.queued_bytes -= record.bytes;
    pool.avoiding.erase({job->arrival, id});
    queue_changed(pool);
    return std::move(*job);
  }

  /// What a running job counts for in its backend's work. Laws are asked only where a choice
  /// depends on it.
  void appraise(LiveJob& record) const {
    if (rule != BackendChoice::kLeastWork) return;
    record.backend->work -= record.work;
    record.work = expected_work(record.job);
    record.backend->work += record.work;
  }

  void occupy(LiveJob& record, Backend& backend, MonoTime now) {
    record.backend = &backend;
    backend.running += record.job.slots;
    backend.last_sent = ++assignments;
    appraise(record);
    record.pool->busy_slots += record.job.slots;
    record.pool->running_jobs += 1;
    record.pool->drain.set_busy(record.pool->busy_slots, now);
  }

  /// The caller decides what becomes of the job, then calls drop_if_drained for the backend.
  Backend& release(LiveJob& record, MonoTime now) {
    Backend& backend = *record.backend;
    record.backend = nullptr;
    backend.running -= record.job.slots;
    backend.work -= std::exchange(record.work, 0);
    record.pool->busy_slots -= record.job.slots;
    record.pool->running_jobs -= 1;
    record.pool->drain.set_busy(record.pool->busy_slots, now);
    return backend;
  }

  void end_running(JobId id, LiveJob& record, Event event, MonoTime now) {
    record.pool->drain.add_ended(now);
    Backend& backend = release(record, now);
    remember(id, record, event, backend.spec.name, now);
    const std::string model = record.pool->model;
    live.erase(id);
    drop_if_drained(backend);
    drop_unused({model});  // a backend may serve other models by now
  }

  void end_waiting(JobId id, LiveJob& record, MonoTime now) {
    take_from_queue(record, id);
    remember(id, record, Event::kCancelled, {}, now);
    Pool& pool = *record.pool;
    live.erase(id);
    drop_if_unused(pool);
  }

  static bool avoids_all(const LiveJob& record) {
    const auto& all = record.pool->backends;
    return std::all_of(all.begin(), all.end(), [&](const Backend* backend) {
      return backend->draining || std::find(record.avoid.begin(), record.avoid.end(),
                                            backend->spec.name) != record.avoid.end();
    });
  }

  /// Adds to the backends that the job avoids. When it has been everywhere, the one that it left
  /// longest ago is next.
  static void keep_off(LiveJob& record, std::string_view name) {
    std::erase(record.avoid, name);
    record.avoid.emplace_back(name);
    while (record.avoid.size() > 1 && (record.avoid.size() > kAvoidedMax || avoids_all(record))) {
      record.avoid.erase(record.avoid.begin());
    }
  }

  void remember(JobId id, LiveJob& record, Event event, std::string_view backend, MonoTime now) {
    record.notes.add(now, event, backend);
    ended.add({id, record.pool->model, std::string(backend), std::move(record.notes)});
  }

  DispatchConfig config;
  BackendChoice rule;
  std::map<std::string, std::unique_ptr<Backend>, std::less<>> backends;
  std::map<std::string, std::unique_ptr<Pool>, std::less<>> pools;
  std::vector<Pool*> turns;                 ///< the pool served longest ago first
  std::unordered_map<JobId, LiveJob> live;  // looked up, never iterated
  EndedJobs ended;
  std::uint64_t rounds = 0;
  std::uint64_t assignments = 0;
  bool draining = false;
};

Dispatcher::Dispatcher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Dispatcher::Dispatcher(Dispatcher&&) noexcept = default;
Dispatcher& Dispatcher::operator=(Dispatcher&&) noexcept = default;
Dispatcher::~Dispatcher() = default;

Result<Dispatcher> Dispatcher::make(const DispatchConfig& config) {
  if (auto policy = schedule::make_waiting_policy(config.policy, config.policy_options); !policy) {
    return fail(policy.error());
  }
  const std::optional<BackendChoice> choice = find_backend_choice(config.choice);
  if (!choice) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("choice {} is not known; choose one of {}", core::quoted(config.choice),
                            fmt::join(backend_choice_names(), ", ")));
  }
  auto impl = std::make_unique<Impl>(config, *choice);
  for (const std::string& model : config.awaited_models) {
    Pool& pool = impl->pool_for(model);
    pool.awaited = true;
    const auto slots = config.awaited_slots.find(model);
    if (slots != config.awaited_slots.end()) pool.slots_to_come = slots->second;
  }
  return Dispatcher(std::move(impl));
}

Result<void> Dispatcher::put_backend(const BackendSpec& spec, MonoTime now) {
  (void)now;
  if (auto checked = check_spec(spec); !checked) return checked;
  Backend* backend = impl_->find_backend(spec.name);
  if (backend == nullptr) {
    backend = impl_->backends.emplace(spec.name, std::make_unique<Backend>()).first->second.get();
    backend->spec = spec;
    backend->identity = stable_hash(spec.name);
    impl_->join(*backend);
    return {};
  }
  const std::vector<std::string> old_models = backend->spec.models;
  impl_->leave(*backend, old_models);
  backend->spec = spec;
  backend->draining = false;
  impl_->join(*backend);
  impl_->drop_unused(old_models);
  return {};
}

Result<void> Dispatcher::remove_backend(std::string_view name, MonoTime now) {
  (void)now;
  Backend* backend = impl_->find_backend(name);
  if (backend == nullptr) return fail(no_such_backend(name));
  backend->draining = true;
  impl_->update_loads(*backend);
  impl_->drop_if_drained(*backend);
  return {};
}

Result<void> Dispatcher::set_health(std::string_view name, bool healthy, MonoTime now) {
  (void)now;
  Backend* backend = impl_->find_backend(name);
  if (backend == nullptr) return fail(no_such_backend(name));
  if (backend->healthy == healthy) return {};
  backend->healthy = healthy;
  impl_->update_loads(*backend);
  return {};
}

Result<void> Dispatcher::set_backoff(std::string_view name, MonoTime until) {
  Backend* backend = impl_->find_backend(name);
  if (backend == nullptr) return fail(no_such_backend(name));
  backend->backoff_until = until;
  return {};
}

std::vector<BackendView> Dispatcher::backends() const {
  std::vector<BackendView> views;
  for (const auto& [name, backend] : impl_->backends) {
    views.push_back({name, backend->spec.models, backend->spec.slots, backend->running,
                     backend->healthy, backend->draining, backend->backoff_until});
  }
  return views;
}

Submission Dispatcher::submit(schedule::Job job, std::size_t bytes, MonoTime now) {
  const JobId id = job.id;
  Pool* const found = impl_->find_pool(job.model);
  Submission submission =
      admit({impl_->config, found, impl_->draining, impl_->live.contains(id)}, job, bytes, now);
  if (submission.refusal) return submission;
  Pool& pool = *found;
  impl_->ended.forget(id);
  LiveJob& record = impl_->live[id];
  record.pool = &pool;
  record.bytes = bytes;
  record.notes.add(now, Event::kSubmitted);
  pool.queued_bytes += bytes;
  TAILRACE_CHECK(pool.queue.push(std::move(job)).has_value());
  impl_->queue_changed(pool);
  return submission;
}

void Dispatcher::set_law(JobId id, const length::LengthLaw& law, MonoTime now) {
  const auto found = impl_->live.find(id);
  if (found == impl_->live.end()) return;
  LiveJob& record = found->second;
  record.notes.add(now, Event::kLawArrived);
  if (record.backend != nullptr) {
    record.job.law = law;
    impl_->appraise(record);
  } else {
    TAILRACE_CHECK(record.pool->queue.set_law(id, law).has_value());
  }
}

std::optional<Assignment> Dispatcher::next(MonoTime now) {
  const std::uint64_t round = ++impl_->rounds;
  const auto live_job = [this](JobId id) -> const LiveJob& { return impl_->live.find(id)->second; };
  for (auto turn = impl_->turns.begin(); turn != impl_->turns.end(); ++turn) {
    Pool& pool = **turn;
    const std::optional<Choice> choice = choose(pool, impl_->rule, round, now, live_job);
    if (!choice) continue;
    const JobId id = choice->job->id;
    LiveJob& record = impl_->live.find(id)->second;
    record.job = impl_->take_from_queue(record, id);
    record.notes.add(now, choice->overdue ? Event::kSentOverdue : Event::kSent,
                     choice->backend->spec.name);
    impl_->occupy(record, *choice->backend, now);
    std::rotate(turn, turn + 1, impl_->turns.end());
    return Assignment{record.job, choice->backend->spec.name, now - record.job.arrival,
                      choice->overdue};
  }
  return std::nullopt;
}

Result<void> Dispatcher::requeue(JobId id, std::string_view avoid, MonoTime now) {
  LiveJob* record = impl_->find_running(id);
  if (record == nullptr) {
    return fail(ErrorCode::kNotFound, fmt::format("job {} is not running", id.count()));
  }
  Pool& pool = *record->pool;
  Backend& backend = impl_->release(*record, now);
  record->notes.add(now, Event::kReturned, backend.spec.name);
  if (!avoid.empty()) impl_->keep_off(*record, avoid);
  if (!record->avoid.empty()) pool.avoiding.emplace(record->job.arrival, id);
  pool.queued_bytes += record->bytes;
  TAILRACE_CHECK(pool.queue.push(std::move(record->job)).has_value());
  impl_->queue_changed(pool);
  impl_->drop_if_drained(backend);
  return {};
}

Result<void> Dispatcher::complete(JobId id, Outcome outcome, MonoTime now) {
  LiveJob* record = impl_->find_running(id);
  if (record == nullptr) {
    return fail(ErrorCode::kNotFound, fmt::format("job {} is not running", id.count()));
  }
  impl_->end_running(id, *record, event_of(outcome), now);
  return {};
}

bool Dispatcher::cancel(JobId id, MonoTime now) {
  const auto found = impl_->live.find(id);
  if (found == impl_->live.end()) return false;
  if (found->second.backend != nullptr) {
    impl_->end_running(id, found->second, Event::kCancelled, now);
  } else {
    impl_->end_waiting(id, found->second, now);
  }
  return true;
}

std::optional<MonoTime> Dispatcher::wake_at(MonoTime now) const {
  std::optional<MonoTime> earliest;
  const auto consider = [&](MonoTime at) {
    if (at > now && (!earliest || at < *earliest)) earliest = at;
  };
  for (const auto& [name, pool] : impl_->pools) {
    if (pool->queue.empty()) continue;
    for (const Backend* backend : pool->backends) {
      if (backend->healthy && !backend->draining && backend->backoff_until) {
        consider(*backend->backoff_until);
      }
    }
    if (!impl_->config.waiting_bound || free_slots(*pool, now) == 0) continue;
    for (const auto& [arrival, id] : pool->avoiding) {
      const Duration rest = *impl_->config.waiting_bound - (now - arrival);
      if (rest <= Duration::zero()) continue;
      consider(now + rest);
      break;
    }
  }
  return earliest;
}

Result<void> Dispatcher::set_policy(std::string_view name) {
  std::vector<std::unique_ptr<schedule::Policy>> policies;
  for (std::size_t i = 0; i <= impl_->pools.size(); ++i) {
    auto policy = schedule::make_waiting_policy(name, impl_->config.policy_options);
    if (!policy) return fail(policy.error());
    policies.push_back(std::move(*policy));
  }
  impl_->config.policy = name;
  for (const auto& [model, pool] : impl_->pools) {
    pool->queue.set_policy(std::move(policies.back()));
    policies.pop_back();
  }
  return {};
}

void Dispatcher::drain() {
  impl_->draining = true;
}

bool Dispatcher::idle() const {
  return impl_->live.empty();
}

std::vector<PoolView> Dispatcher::pools(MonoTime now) const {
  std::vector<PoolView> views;
  for (const auto& [model, pool] : impl_->pools) {
    PoolView view;
    view.model = model;
    view.waiting = pool->queue.size();
    view.queued_bytes = pool->queued_bytes;
    view.running = pool->running_jobs;
    view.slots = usable_slots(*pool, now);
    view.backends = serving(*pool);
    view.policy = pool->queue.policy().name();
    view.drain_per_second = drain_per_second(*pool, now);
    if (const auto oldest = pool->queue.oldest_arrival()) view.oldest_wait = now - *oldest;
    views.push_back(std::move(view));
  }
  return views;
}

bool Dispatcher::serves(std::string_view model) const {
  const Pool* pool = impl_->find_pool(model);
  return pool != nullptr && serving(*pool) > 0;
}

bool Dispatcher::awaits(std::string_view model) const {
  const Pool* pool = impl_->find_pool(model);
  return pool != nullptr && pool->awaited;
}

int Dispatcher::largest_backend(std::string_view model) const {
  const Pool* pool = impl_->find_pool(model);
  return pool == nullptr ? 0 : std::max(pool->slots_to_come, dispatch::largest_backend(*pool));
}

std::optional<Duration> Dispatcher::expected_wait(std::string_view model, MonoTime now) const {
  const Pool* pool = impl_->find_pool(model);
  if (pool == nullptr) return std::nullopt;
  return dispatch::expected_wait(*pool, now);
}

Result<Explanation> Dispatcher::explain(JobId id, MonoTime now) const {
  Explanation explanation;
  if (const auto found = impl_->live.find(id); found != impl_->live.end()) {
    const LiveJob& record = found->second;
    explanation.model = record.pool->model;
    explanation.notes = record.notes.to_text();
    if (record.backend != nullptr) {
      explanation.state = "running";
      explanation.backend = record.backend->spec.name;
    } else {
      explanation.state = "waiting";
      explanation.place = record.pool->queue.place(id, now).value();
      explanation.backends = serving(*record.pool);
    }
    return explanation;
  }
  const EndedJob* job = impl_->ended.find(id);
  if (job == nullptr) {
    return fail(ErrorCode::kNotFound,
                fmt::format("job {} is not known, or ended more than {} jobs ago", id.count(),
                            impl_->config.ended_jobs_remembered));
  }
  explanation.state = "ended";
  explanation.model = job->model;
  explanation.backend = job->backend;
  explanation.notes = job->notes.to_text();
  return explanation;
}

std::vector<const schedule::Job*> Dispatcher::queue(std::string_view model, MonoTime now,
                                                    std::size_t limit) const {
  const Pool* pool = impl_->find_pool(model);
  if (pool == nullptr) return {};
  return pool->queue.snapshot(now, limit);
}

}  // namespace tailrace::dispatch
