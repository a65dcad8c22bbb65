// A Dispatcher under any sequence of calls, checked against a record of what it was told and said.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tailrace/dispatch/backend_choice.h"
#include "tailrace/dispatch/dispatcher.h"

namespace tailrace::dispatch {
namespace {

using schedule::Job;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kBound = seconds(60);

struct KnownBackend {
  BackendSpec spec;
  bool healthy = true;
  bool draining = false;
  std::optional<MonoTime> backoff_until;
};

struct KnownJob {
  Job job;
  std::size_t bytes = 0;
  std::string backend;  // empty while it waits
  bool avoids = false;
};

/// Drives two dispatchers with the same calls and checks both against plain maps.
class World {
 public:
  World() : World(*rc::gen::elementOf(backend_choice_names())) {}
  explicit World(std::string_view choice) : one_(make(choice)), two_(make(choice)) {}

  void step() {
    switch (*rc::gen::weightedElement<int>({{8, 0},
                                            {6, 1},
                                            {4, 2},
                                            {2, 3},
                                            {2, 4},
                                            {2, 5},
                                            {1, 6},
                                            {1, 7},
                                            {1, 8},
                                            {3, 9},
                                            {2, 10},
                                            {1, 11}})) {
      case 0:
        return submit();
      case 1:
        return assign();
      case 2:
        return complete();
      case 3:
        return cancel();
      case 4:
        return requeue();
      case 5:
        return put_backend();
      case 6:
        return remove_backend();
      case 7:
        return set_health();
      case 8:
        return set_backoff();
      case 9:
        now_ += milliseconds(*rc::gen::element(0, 100, 5'000, 40'000));
        return;
      case 10:
        return set_law();
      default:
        return set_policy();
    }
  }

  void check_books() {
    std::map<std::string, int> used;
    std::map<std::string, std::size_t> waiting;
    std::map<std::string, std::size_t> bytes;
    std::map<std::string, std::size_t> running;
    for (const auto& [id, known] : jobs_) {
      const Explanation why = one_.explain(JobId{id}, now_).value();
      RC_ASSERT(why.state == (known.backend.empty() ? "waiting" : "running"));
      RC_ASSERT(why.backend == known.backend);
      if (known.backend.empty()) {
        ++waiting[known.job.model];
        bytes[known.job.model] += known.bytes;
      } else {
        ++running[known.job.model];
        used[known.backend] += known.job.slots;
      }
    }
    for (const BackendView& view : one_.backends()) RC_ASSERT(view.running == used[view.name]);
    for (const auto& [name, slots] : used) RC_ASSERT(backends_.contains(name) || slots == 0);
    for (const PoolView& view : one_.pools(now_)) {
      RC_ASSERT(view.waiting == waiting[view.model]);
      RC_ASSERT(view.queued_bytes == bytes[view.model]);
      RC_ASSERT(view.running == running[view.model]);
      waiting.erase(view.model);
      running.erase(view.model);
    }
    for (const auto& [model, count] : waiting) RC_ASSERT(count == 0u);
    for (const auto& [model, count] : running) RC_ASSERT(count == 0u);
    RC_ASSERT(one_.idle() == jobs_.empty());
    one_.wake_at(now_);
  }

  /// Everything ends: nothing may stay occupied.
  void end() {
    while (!jobs_.empty()) {
      const JobId id{jobs_.begin()->first};
      const bool runs = !jobs_.begin()->second.backend.empty();
      if (runs) {
        RC_ASSERT(both(
            [&](Dispatcher& d) { return d.complete(id, Outcome::kCompleted, now_).has_value(); }));
      } else {
        RC_ASSERT(both([&](Dispatcher& d) { return d.cancel(id, now_); }));
      }
      forget(id);
    }
    for (const BackendView& view : one_.backends()) {
      RC_ASSERT(view.running == 0);
      RC_ASSERT(!view.draining);
      RC_ASSERT(one_.remove_backend(view.name, now_).has_value());
    }
    RC_ASSERT(one_.idle());
    RC_ASSERT(one_.backends().empty());
    RC_ASSERT(one_.pools(now_).empty());
  }

 private:
  static Dispatcher make(std::string_view choice) {
    DispatchConfig config;
    config.choice = choice;
    config.waiting_bound = kBound;
    config.queued_jobs_max = 12;
    config.queued_bytes_max = 100;
    config.ended_jobs_remembered = 5;
    return std::move(Dispatcher::make(config).value());
  }

  template <class Call>
  bool both(Call call) {
    const bool result = call(one_);
    RC_ASSERT(call(two_) == result);
    return result;
  }

  static JobId any_id() { return JobId{*rc::gen::inRange<std::uint64_t>(0, 20)}; }
  static std::string any_name() { return *rc::gen::element<std::string>("a", "b", "c"); }

  void submit() {
    Job job;
    job.id = any_id();
    job.arrival = now_;
    job.model = *rc::gen::element<std::string>("m", "n", "unknown");
    job.cap = Tokens{*rc::gen::element<std::int64_t>(16, 2048)};
    job.slots = *rc::gen::element(1, 1, 1, 2, 3, 5);
    job.priority = *rc::gen::element(0, 0, 1);
    job.prefix = *rc::gen::element<std::uint64_t>(0, 1, 2);
    const auto bytes = *rc::gen::element<std::size_t>(0, 5, 30);
    const bool accepted =
        both([&](Dispatcher& d) { return !d.submit(job, bytes, now_).refusal.has_value(); });
    if (!accepted) return;
    RC_ASSERT(!jobs_.contains(job.id.count()));
    jobs_[job.id.count()] = {job, bytes, "", false};
  }

  void assign() {
    while (true) {
      const auto next = one_.next(now_);
      const auto same = two_.next(now_);
      RC_ASSERT(next.has_value() == same.has_value());
      if (!next) break;
      RC_ASSERT(next->job.id == same->job.id);
      RC_ASSERT(next->backend == same->backend);
      check_assignment(*next);
      KnownJob& known = jobs_.at(next->job.id.count());
      known.backend = next->backend;
      if (*rc::gen::inRange(0, 3) == 0) return;
    }
    check_nothing_could_go();
  }

  void check_assignment(const Assignment& next) {
    const KnownJob& known = jobs_.at(next.job.id.count());
    RC_ASSERT(known.backend.empty());
    const KnownBackend& backend = backends_.at(next.backend);
    RC_ASSERT(usable(backend));
    RC_ASSERT(serves(backend, known.job.model));
    RC_ASSERT(in_use(next.backend) + known.job.slots <= backend.spec.slots);
    RC_ASSERT(next.waited == now_ - known.job.arrival);
    RC_ASSERT(next.overdue == overdue(known.job));
    for (const auto& [id, other] : jobs_) {
      if (!other.backend.empty() || other.job.model != known.job.model) continue;
      if (!overdue(other.job) || other.job.id == known.job.id) continue;
      const bool passed = !next.overdue || std::pair(other.job.arrival, other.job.id) <
                                               std::pair(known.job.arrival, known.job.id);
      RC_ASSERT(!passed || !fits_somewhere(other.job));
    }
  }

  /// Without wide jobs, and without jobs that keep off a backend, no slot may idle while a job
  /// waits.
  void check_nothing_could_go() {
    const bool plain = std::all_of(jobs_.begin(), jobs_.end(), [](const auto& entry) {
      return !entry.second.backend.empty() || (entry.second.job.slots == 1 && !entry.second.avoids);
    });
    if (!plain) return;
    for (const auto& [id, known] : jobs_) {
      if (!known.backend.empty()) continue;
      for (const auto& [name, backend] : backends_) {
        RC_ASSERT(!serves(backend, known.job.model) || !usable(backend) ||
                  in_use(name) >= backend.spec.slots);
      }
    }
  }

  void complete() {
    const JobId id = any_id();
    const bool ended =
        both([&](Dispatcher& d) { return d.complete(id, Outcome::kCompleted, now_).has_value(); });
    const auto known = jobs_.find(id.count());
    RC_ASSERT(ended == (known != jobs_.end() && !known->second.backend.empty()));
    if (ended) forget(id);
  }

  void cancel() {
    const JobId id = any_id();
    const bool ended = both([&](Dispatcher& d) { return d.cancel(id, now_); });
    RC_ASSERT(ended == jobs_.contains(id.count()));
    if (ended) forget(id);
  }

  void requeue() {
    const JobId id = any_id();
    const auto known = jobs_.find(id.count());
    const bool runs = known != jobs_.end() && !known->second.backend.empty();
    const std::string avoid =
        runs && *rc::gen::arbitrary<bool>() ? known->second.backend : std::string();
    RC_ASSERT(both([&](Dispatcher& d) { return d.requeue(id, avoid, now_).has_value(); }) == runs);
    if (!runs) return;
    const std::string backend = known->second.backend;
    known->second.backend.clear();
    known->second.avoids = known->second.avoids || !avoid.empty();
    drop_if_drained(backend);
  }

  void put_backend() {
    BackendSpec spec;
    spec.name = any_name();
    spec.models =
        *rc::gen::elementOf(std::vector<std::vector<std::string>>{{"m"}, {"n"}, {"m", "n"}});
    spec.slots = *rc::gen::element(1, 2, 3, 5);
    RC_ASSERT(both([&](Dispatcher& d) { return d.put_backend(spec, now_).has_value(); }));
    KnownBackend& known = backends_[spec.name];
    known.spec = spec;
    known.draining = false;
  }

  void remove_backend() {
    const std::string name = any_name();
    const bool removed =
        both([&](Dispatcher& d) { return d.remove_backend(name, now_).has_value(); });
    RC_ASSERT(removed == backends_.contains(name));
    if (!removed) return;
    backends_[name].draining = true;
    drop_if_drained(name);
  }

  void set_health() {
    const std::string name = any_name();
    const bool healthy = *rc::gen::arbitrary<bool>();
    if (both([&](Dispatcher& d) { return d.set_health(name, healthy, now_).has_value(); })) {
      backends_.at(name).healthy = healthy;
    }
  }

  void set_backoff() {
    const std::string name = any_name();
    const MonoTime until = now_ + seconds(*rc::gen::element(-1, 0, 1, 50));
    if (both([&](Dispatcher& d) { return d.set_backoff(name, until).has_value(); })) {
      backends_.at(name).backoff_until = until;
    }
  }

  void set_law() {
    const JobId id = any_id();
    const auto law = length::LengthLaw::log_t(*rc::gen::element(2.0, 5.0, 8.0), 0.5).value();
    one_.set_law(id, law, now_);
    two_.set_law(id, law, now_);
  }

  void set_policy() {
    const auto name = *rc::gen::element<std::string>("fcfs", "tie", "mean", "nonsense");
    RC_ASSERT(both([&](Dispatcher& d) { return d.set_policy(name).has_value(); }) ==
              (name != "nonsense"));
  }

  void forget(JobId id) {
    const std::string backend = jobs_.at(id.count()).backend;
    jobs_.erase(id.count());
    if (!backend.empty()) drop_if_drained(backend);
  }

  void drop_if_drained(const std::string& name) {
    const auto backend = backends_.find(name);
    if (backend != backends_.end() && backend->second.draining && in_use(name) == 0) {
      backends_.erase(backend);
    }
  }

  int in_use(const std::string& name) const {
    int slots = 0;
    for (const auto& [id, known] : jobs_) slots += known.backend == name ? known.job.slots : 0;
    return slots;
  }
  bool usable(const KnownBackend& b) const {
    return b.healthy && !b.draining && !(b.backoff_until && *b.backoff_until > now_);
  }
  static bool serves(const KnownBackend& b, const std::string& model) {
    return std::count(b.spec.models.begin(), b.spec.models.end(), model) > 0;
  }
  bool overdue(const Job& job) const { return now_ - job.arrival >= kBound; }
  bool fits_somewhere(const Job& job) const {
    return std::any_of(backends_.begin(), backends_.end(), [&](const auto& entry) {
      const KnownBackend& b = entry.second;
      return usable(b) && serves(b, job.model) && b.spec.slots >= job.slots;
    });
  }

  Dispatcher one_;
  Dispatcher two_;
  MonoTime now_{seconds(10)};
  std::map<std::uint64_t, KnownJob> jobs_;
  std::map<std::string, KnownBackend> backends_;
};

RC_GTEST_PROP(DispatcherProperty, KeepsItsBooksUnderAnyCalls, ()) {
  World world;
  const int steps = *rc::gen::inRange(0, 250);
  for (int i = 0; i < steps; ++i) {
    world.step();
    world.check_books();
  }
  world.end();
}

// With endless newcomers of one model and one wide job of another, the wide job starts: the shared
// backend is reserved for it, and each backend drains.
RC_GTEST_PROP(DispatcherProperty, WideJobStartsWithinOneDrainOfItsBackend, ()) {
  DispatchConfig config;
  config.policy = *rc::gen::element<std::string>("fcfs", "tie");
  Dispatcher d = std::move(Dispatcher::make(config).value());
  const int slots = *rc::gen::inRange(2, 9);
  RC_ASSERT(d.put_backend({"a", {"m", "n"}, slots}, MonoTime{}).has_value());
  std::uint64_t next_id = 0;
  const auto newcomer = [&](const std::string& model, int wants) {
    Job job;
    job.id = JobId{next_id++};
    job.model = model;
    job.cap = Tokens{100};
    job.slots = wants;
    RC_ASSERT(!d.submit(job, 0, MonoTime{}).refusal);
    return job.id;
  };
  std::set<JobId> running;
  const auto fill = [&] {
    while (const auto next = d.next(MonoTime{})) running.insert(next->job.id);
  };
  for (int i = 0; i < 2 * slots; ++i) newcomer("n", 1);
  fill();
  const int wants = *rc::gen::inRange(1, slots + 1);
  const JobId wide = newcomer("m", wants);
  int ends = 0;
  while (!running.contains(wide)) {
    const auto victim = std::next(running.begin(), *rc::gen::inRange<int>(0, int(running.size())));
    RC_ASSERT(d.complete(*victim, Outcome::kCompleted, MonoTime{}).has_value());
    running.erase(victim);
    newcomer("n", 1);
    fill();
    RC_ASSERT(++ends <= wants);
  }
}

}  // namespace
}  // namespace tailrace::dispatch
