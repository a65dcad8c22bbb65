#include "tailrace/schedule/waiting_queue.h"

#include <fmt/format.h>

#include "schedule/arrival_order.h"
#include "schedule/indexed_heap.h"
#include "schedule/job_store.h"
#include "schedule/slot_index.h"
#include "tailrace/core/check.h"

namespace tailrace::schedule {
namespace {

struct KeyEntry {
  double key = 0;
  std::int32_t priority = 0;
  Slot slot = 0;
};

struct ByKey {
  const std::vector<Standing>* standings;
  bool operator()(const KeyEntry& a, const KeyEntry& b) const {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.key != b.key) return a.key < b.key;
    return (*standings)[a.slot].birth < (*standings)[b.slot].birth;
  }
};

Error no_such_job(JobId id) {
  return {ErrorCode::kNotFound, fmt::format("job {} does not wait here", id.count())};
}

}  // namespace

struct WaitingQueue::Impl {
  Impl(std::unique_ptr<Policy> p, std::optional<Duration> bound)
      : policy(std::move(p)), waiting_bound(bound) {
    TAILRACE_CHECK(policy != nullptr);
  }

  bool beyond_bound(MonoTime arrival, MonoTime now) const {
    // Not `arrival + bound <= now`: a bound of centuries must not overflow.
    return waiting_bound && now - arrival >= *waiting_bound;
  }
  /// Only said of a job that nobody older waits beside, or of whom all older ones are overdue.
  bool overdue(Slot slot, MonoTime now) const {
    const Standing& job = standings[slot];
    return beyond_bound(job.birth.arrival, now) ||
           policy->starves(job.appraisal, job.birth.arrival, now);
  }
  /// The youngest of the overdue jobs, nothing if there is none. O(k log k) for k of them.
  std::optional<Birth> last_overdue(MonoTime now) const {
    std::optional<Birth> last;
    by_arrival.walk([&](Slot slot) {
      if (!overdue(slot, now)) return true;
      last = standings[slot].birth;
      return false;
    });
    return last;
  }
  std::optional<Slot> next_slot(MonoTime now) const {
    if (by_key.empty()) return std::nullopt;
    const Slot oldest = by_arrival.oldest();
    return overdue(oldest, now) ? oldest : by_key.top().slot;
  }

  double key_of(Slot slot) const {
    return policy->key(standings[slot].appraisal, standings[slot].birth.arrival);
  }

  void add(Job job) {
    const Birth birth{job.arrival, job.id};
    const int priority = job.priority;
    const Appraisal appraisal = policy->appraise(job);
    const Slot slot = jobs.put(std::move(job));
    if (slot == standings.size()) standings.emplace_back();
    standings[slot] = {birth, appraisal};
    slots.insert(birth.id, slot);
    by_key.push({key_of(slot), priority, slot});
    by_arrival.push(slot);
  }

  Job take(Slot slot) {
    by_key.erase(slot);
    by_arrival.erase(slot);
    slots.erase(standings[slot].birth.id);
    return jobs.take(slot);
  }

  void rekey() {
    by_key.rewrite_all([this](KeyEntry& entry) { entry.key = key_of(entry.slot); });
  }

  std::unique_ptr<Policy> policy;
  std::optional<Duration> waiting_bound;
  std::size_t load_waiting = 0;
  std::size_t load_slots = 0;

  JobStore jobs;
  std::vector<Standing> standings;  // by slot
  SlotIndex slots;
  IndexedHeap<KeyEntry, ByKey> by_key{ByKey{&standings}};
  ArrivalOrder by_arrival{&standings};
};

WaitingQueue::WaitingQueue(std::unique_ptr<Policy> policy, std::optional<Duration> waiting_bound)
    : impl_(std::make_unique<Impl>(std::move(policy), waiting_bound)) {}
WaitingQueue::WaitingQueue(WaitingQueue&&) noexcept = default;
WaitingQueue& WaitingQueue::operator=(WaitingQueue&&) noexcept = default;
WaitingQueue::~WaitingQueue() = default;

Result<void> WaitingQueue::push(Job job) {
  if (impl_->slots.find(job.id)) {
    return fail(ErrorCode::kAlreadyExists,
                fmt::format("job {} waits already; ids must be unique", job.id.count()));
  }
  impl_->add(std::move(job));
  return {};
}

Result<void> WaitingQueue::set_law(JobId id, const length::LengthLaw& law) {
  const auto slot = impl_->slots.find(id);
  if (!slot) return fail(no_such_job(id));
  Job& job = impl_->jobs[*slot];
  job.law = law;
  impl_->standings[*slot].appraisal = impl_->policy->appraise(job);
  KeyEntry entry = impl_->by_key.at(*slot);
  entry.key = impl_->key_of(*slot);
  impl_->by_key.replace(entry);
  return {};
}

Result<void> WaitingQueue::set_priority(JobId id, int priority) {
  const auto slot = impl_->slots.find(id);
  if (!slot) return fail(no_such_job(id));
  impl_->jobs[*slot].priority = priority;
  KeyEntry entry = impl_->by_key.at(*slot);
  entry.priority = priority;
  impl_->by_key.replace(entry);
  return {};
}

Result<Job> WaitingQueue::remove(JobId id) {
  const auto slot = impl_->slots.find(id);
  if (!slot) return fail(no_such_job(id));
  return impl_->take(*slot);
}

const Job* WaitingQueue::peek(MonoTime now) const {
  const auto slot = impl_->next_slot(now);
  return slot ? &impl_->jobs[*slot] : nullptr;
}

std::optional<Job> WaitingQueue::pop(MonoTime now) {
  const auto slot = impl_->next_slot(now);
  if (!slot) return std::nullopt;
  return impl_->take(*slot);
}

const Job* WaitingQueue::walk(MonoTime now, std::size_t limit,
                              const std::function<bool(const Job&, bool)>& visit) const {
  const Job* stopped_at = nullptr;
  std::size_t visited = 0;
  const auto done = [&](Slot slot, bool overdue) {
    const Job& job = impl_->jobs[slot];
    if (visit(job, overdue)) stopped_at = &job;
    return stopped_at != nullptr || ++visited >= limit;
  };
  if (limit == 0) return nullptr;
  std::optional<Birth> last_overdue;
  impl_->by_arrival.walk([&](Slot slot) {
    if (!impl_->overdue(slot, now)) return true;
    last_overdue = impl_->standings[slot].birth;
    return done(slot, true);
  });
  if (stopped_at != nullptr || visited >= limit) return stopped_at;
  impl_->by_key.walk([&](const KeyEntry& entry) {
    const bool seen_above = last_overdue && impl_->standings[entry.slot].birth <= *last_overdue;
    return !seen_above && done(entry.slot, false);
  });
  return stopped_at;
}

void WaitingQueue::set_load(std::size_t waiting, std::size_t slots) {
  impl_->load_waiting = waiting;
  impl_->load_slots = slots;
  if (impl_->policy->set_load(waiting, slots)) impl_->rekey();
}

void WaitingQueue::set_policy(std::unique_ptr<Policy> policy) {
  TAILRACE_CHECK(policy != nullptr);
  impl_->policy = std::move(policy);
  impl_->policy->set_load(impl_->load_waiting, impl_->load_slots);
  for (const KeyEntry& entry : impl_->by_key.entries()) {
    impl_->standings[entry.slot].appraisal = impl_->policy->appraise(impl_->jobs[entry.slot]);
  }
  impl_->rekey();
}

const Policy& WaitingQueue::policy() const {
  return *impl_->policy;
}

const Job* WaitingQueue::find(JobId id) const {
  const auto slot = impl_->slots.find(id);
  return slot ? &impl_->jobs[*slot] : nullptr;
}

std::size_t WaitingQueue::size() const {
  return impl_->by_key.size();
}

std::optional<MonoTime> WaitingQueue::oldest_arrival() const {
  const Slot oldest = impl_->by_arrival.oldest();
  if (oldest == ArrivalOrder::kNone) return std::nullopt;
  return impl_->standings[oldest].birth.arrival;
}

Result<Place> WaitingQueue::place(JobId id, MonoTime now) const {
  const auto slot = impl_->slots.find(id);
  if (!slot) return fail(no_such_job(id));
  const Birth mine = impl_->standings[*slot].birth;
  const KeyEntry my_entry = impl_->by_key.at(*slot);
  const ByKey by_key{&impl_->standings};

  const std::optional<Birth> last_overdue = impl_->last_overdue(now);
  Place place;
  place.key = my_entry.key;
  place.overdue = last_overdue && mine <= *last_overdue;
  for (const KeyEntry& other : impl_->by_key.entries()) {
    const Birth& birth = impl_->standings[other.slot].birth;
    const bool other_overdue = last_overdue && birth <= *last_overdue;
    const bool ahead = other_overdue != place.overdue ? other_overdue
                       : place.overdue                ? birth < mine
                                                      : by_key(other, my_entry);
    if (ahead) ++place.position;
  }
  const Job& job = impl_->jobs[*slot];
  place.rule = impl_->policy->explain(job);
  if (place.overdue && !impl_->beyond_bound(mine.arrival, now)) {
    place.rule = fmt::format("starves: waited {:.3f} s; oldest first (else {})",
                             to_seconds(now - mine.arrival), place.rule);
  } else if (place.overdue) {
    place.rule =
        fmt::format("waiting bound: waited {:.3f} s, over {:.3f} s; oldest first (else {})",
                    to_seconds(now - mine.arrival), to_seconds(*impl_->waiting_bound), place.rule);
  } else if (job.priority != 0) {
    place.rule = fmt::format("priority {}, then {}", job.priority, place.rule);
  }
  return place;
}

std::vector<const Job*> WaitingQueue::snapshot(MonoTime now, std::size_t limit) const {
  std::vector<const Job*> jobs;
  walk(now, limit, [&jobs](const Job& job, bool) {
    jobs.push_back(&job);
    return false;
  });
  return jobs;
}

}  // namespace tailrace::schedule
