// What does a dispatcher hold?
//
// Backends, pools and live jobs point at each other. Backends and pools live in node-based maps, so
// the pointers stay valid until the owner erases them: a backend when nothing runs on it and it was
// removed, a pool when no backend serves it and it has no job.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dispatch/drain_rate.h"
#include "dispatch/job_notes.h"
#include "tailrace/dispatch/backend_choice.h"
#include "tailrace/dispatch/dispatcher.h"

namespace tailrace::dispatch {

struct Backend {
  BackendSpec spec;
  int running = 0;  ///< slots in use, over all models
  bool healthy = true;
  bool draining = false;
  std::optional<MonoTime> backoff_until;
  std::uint64_t reserved_in = 0;  ///< the round of `next` in which a job reserved it
  std::int64_t work = 0;          ///< of its running jobs, BackendLoad::work
  std::uint64_t last_sent = 0;    ///< BackendLoad::last_sent
  std::uint64_t identity = 0;     ///< a hash of its name

  bool usable(MonoTime now) const {
    return healthy && !draining && !(backoff_until && *backoff_until > now);
  }
  int free_slots() const { return std::max(0, spec.slots - running); }
  BackendLoad load() const { return {running, spec.slots, work, last_sent, identity}; }
};

struct Pool {
  explicit Pool(std::string name, schedule::WaitingQueue waiting)
      : model(std::move(name)), queue(std::move(waiting)) {}

  std::string model;
  bool awaited = false;   ///< stays, and lets jobs wait, without a backend
  int slots_to_come = 0;  ///< of its DispatchConfig::awaited_slots; 0: not known
  schedule::WaitingQueue queue;
  std::size_t queued_bytes = 0;
  std::size_t load_slots = 0;  ///< B of TIE's Eq. 12
  std::size_t running_jobs = 0;
  int busy_slots = 0;
  DrainRate drain;
  std::vector<Backend*> backends;  ///< that serve it, draining ones included, by name
  /// Waiting jobs that keep off some backend, by arrival: they may go there once overdue.
  std::set<std::pair<MonoTime, JobId>> avoiding;
};

struct LiveJob {
  Pool* pool = nullptr;
  Backend* backend = nullptr;  ///< null while it waits
  std::size_t bytes = 0;
  std::int64_t work = 0;           ///< of Backend::work, while it runs
  schedule::Job job;               ///< valid while it runs; while it waits the queue has it
  std::vector<std::string> avoid;  ///< backends that returned it, oldest first
  Notes notes;
};

}  // namespace tailrace::dispatch
