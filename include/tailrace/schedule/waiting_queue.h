// Who goes next among the requests that wait?
//
// A WaitingQueue keeps jobs in the order of (priority, Policy's key, arrival, id): a total order.
// It owns no clock and no thread; calls come from one thread at a time. Push, update, remove and
// pop cost O(log n). With a waiting bound, whenever a job is taken while jobs are overdue (have
// waited for the bound or longer), the oldest overdue one goes, whatever its priority, so a job
// waits at most the bound plus the drain of older overdue ones. A job is overdue as well where the
// policy says that it starves and all older ones are overdue (Policy::starves). A job may be pushed
// with an old arrival (it ran, and came back): it regains its place.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/schedule/job.h"
#include "tailrace/schedule/policy.h"

namespace tailrace::schedule {

/// Why a job is where it is; feeds `explain`, logs and tests.
struct Place {
  std::size_t position = 0;  ///< jobs that would go before it now
  double key = 0;
  bool overdue = false;
  std::string rule;  ///< Policy::explain, or the waiting bound
};

class WaitingQueue {
 public:
  /// `waiting_bound` nullopt: no bound.
  WaitingQueue(std::unique_ptr<Policy> policy, std::optional<Duration> waiting_bound);
  WaitingQueue(WaitingQueue&&) noexcept;
  WaitingQueue& operator=(WaitingQueue&&) noexcept;
  ~WaitingQueue();

  /// Errors: kAlreadyExists if `job.id` waits already.
  Result<void> push(Job job);
  /// Gives a waiting job its law and its place by it. Errors: kNotFound.
  Result<void> set_law(JobId id, const length::LengthLaw& law);
  /// Errors: kNotFound.
  Result<void> set_priority(JobId id, int priority);
  /// Takes a job out, wherever it stands. Errors: kNotFound.
  Result<Job> remove(JobId id);

  /// The job that would go next at `now`, or null. Valid until the next change.
  const Job* peek(MonoTime now) const;
  std::optional<Job> pop(MonoTime now);

  /// Walks the jobs in the order they would go at `now`, at most `limit` of them, until `visit(job,
  /// overdue)` returns true; returns the job it stopped at, or null. O(k log k) for k jobs visited.
  const Job* walk(MonoTime now, std::size_t limit,
                  const std::function<bool(const Job&, bool)>& visit) const;

  /// Tells the policy the pool's load. Where that steps its state (TIE's beta), every key is
  /// computed anew from the kept appraisals: no law is evaluated, about 2 ms for 100,000 jobs
  /// (bench/queue_bench.cc), and the steps are so far apart (a quarter of `slots` jobs at least)
  /// that a job pays for it once in a while, not each time.
  void set_load(std::size_t waiting, std::size_t slots);

  /// Replaces the policy, keeping the jobs and the last load. Evaluates every law.
  void set_policy(std::unique_ptr<Policy> policy);
  const Policy& policy() const;

  const Job* find(JobId id) const;
  std::size_t size() const;
  bool empty() const { return size() == 0; }
  std::optional<MonoTime> oldest_arrival() const;  ///< O(1)
  /// O(n); for `explain` only. Errors: kNotFound.
  Result<Place> place(JobId id, MonoTime now) const;
  /// Jobs in the order they would go at `now`, at most `limit`; for people. Under a policy whose
  /// jobs starve, one that is taken may make a younger one the oldest, and overdue.
  std::vector<const Job*> snapshot(MonoTime now, std::size_t limit) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tailrace::schedule
