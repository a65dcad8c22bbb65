// Which waiting request goes to which engine, and when?
//
// One pool per served model: its queue, its backends, and how many jobs each of them holds right
// now. The dispatcher's own in-flight counts are the truth; what engines report is a correction. No
// I/O, no threads, no clock: the owner passes `now`, calls from one thread, and carries out what
// `next` says.
//
// Who gets a slot:
// - Within a pool jobs go in the order of its WaitingQueue. A job that does not fit yet (it has
//   n slots, not free on one backend) reserves the backend with the most free slots. Jobs behind it
//   may use the pool's other backends; but nobody of its pool passes an overdue one. A job too
//   large for every backend that is usable now reserves nothing and blocks nobody.
// - Pools take turns, one job a turn: of those that have a job and room for it, the pool served
//   longest ago goes first. A reservation holds against other pools as well, so neither many small
//   jobs nor a busy model starves anyone on a shared backend.
// - Among backends with room: as DispatchConfig::choice says (backend_choice.h), by default the
//   smallest fraction of slots in use; then the smaller name.
//
// The same calls with the same arguments give the same assignments.
//
// Life of a job: submit → waiting → (next) → running → complete. A running job can come back to its
// place (requeue) until its engine has sent a byte. cancel ends it in any state. Every path
// releases its slots. Deadlines are looked at on submission only; whom to time out while waiting is
// the owner's decision (cancel).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/schedule/job.h"
#include "tailrace/schedule/policy.h"
#include "tailrace/schedule/waiting_queue.h"

namespace tailrace::dispatch {

struct DispatchConfig {
  std::string policy = "tie";
  schedule::PolicyOptions policy_options;
  std::optional<Duration> waiting_bound = std::chrono::seconds(60);
  std::size_t queued_jobs_max = 10'000;                 ///< per pool: 429 beyond
  std::size_t queued_bytes_max = std::size_t{1} << 30;  ///< per pool, waiting: 413 beyond
  std::size_t ended_jobs_remembered = 1'000;            ///< for `explain`
  /// Which of the backends with room gets a job: one of backend_choice_names(). Never who waits.
  std::string choice = "least-outstanding";
  /// Models whose jobs wait although no backend serves them yet: one is to come.
  std::vector<std::string> awaited_models;
  /// Slots of the largest backend that an awaited model may get, where that is known: jobs that
  /// need no more wait for it beside smaller ones, larger jobs are refused before any has come.
  std::map<std::string, int, std::less<>> awaited_slots;
};

struct BackendSpec {
  std::string name;                 ///< unique
  std::vector<std::string> models;  ///< the pools it serves
  int slots = 1;  ///< jobs it may hold at once, over all its models (limit, not hint)
};

/// Why a submission was refused; the gateway turns it into a status code.
enum class Refusal {
  kUnknownModel,  // 404: no backend serves it and none is awaited
  kQueueFull,     // 429
  kBytesFull,     // 413
  kDeadline,      // 429: cannot be met by what is known now
  kDraining,      // 503
  kTooManySlots,  // 400: n is larger than any backend's slots
  kInvalidJob,    // the caller's mistake: its id is in use, or a field is out of range
};

struct Submission {
  std::optional<Refusal> refusal;  ///< empty: the job waits
  std::string reason;              ///< for people
  /// From the pool's drain rate; empty where nothing has drained yet. Full: until a tenth of the
  /// queue has gone. Deadline: until the queue is short enough for it. Draining: until every job of
  /// the pool has ended.
  std::optional<Duration> retry_after;
};

/// "Send this job there." The job counts as running from now on.
struct Assignment {
  schedule::Job job;
  std::string backend;
  Duration waited;
  bool overdue = false;  ///< it went because of the waiting bound
};

/// How a running job ended, for counts and drain rates.
enum class Outcome { kCompleted, kFailed, kCancelled };

struct BackendView {
  std::string name;
  std::vector<std::string> models;
  int slots = 0;
  int running = 0;  ///< slots in use
  bool healthy = true;
  bool draining = false;  ///< removed, waiting for its running jobs
  std::optional<MonoTime> backoff_until;
};

struct PoolView {
  std::string model;
  std::size_t waiting = 0;
  std::size_t queued_bytes = 0;
  std::size_t running = 0;  ///< jobs
  int slots = 0;            ///< over usable backends; 0 while jobs wait: nobody can take them now
  int backends = 0;  ///< not draining ones; 0 while jobs wait: nobody takes them before one comes
  std::string policy;
  /// Jobs ended per busy slot-second, recently, times the slots that the pool holds or could take
  /// now. So neither idle times nor a change of slots mislead it. Empty while unknown.
  std::optional<double> drain_per_second;
  std::optional<Duration> oldest_wait;
};

/// Why a job is where it is. `state` is "waiting", "running" or "ended".
struct Explanation {
  std::string state;
  std::string model;
  std::optional<schedule::Place> place;  ///< waiting
  int backends = 0;                      ///< waiting: that serve the model, healthy or not
  std::string backend;                   ///< running
  std::vector<std::string> notes;        ///< what happened so far, with times; bounded
};

class Dispatcher {
 public:
  /// Errors: kInvalidArgument (unknown policy or choice).
  static Result<Dispatcher> make(const DispatchConfig& config);
  Dispatcher(Dispatcher&&) noexcept;
  Dispatcher& operator=(Dispatcher&&) noexcept;
  ~Dispatcher();

  // Backends. A pool exists while some backend, draining ones included, serves its model, or jobs
  // wait in it; that of an awaited model always.
  /// Adds a backend or changes its models and slots; one that was draining comes back.
  /// Errors: kInvalidArgument (no name, no model, slots < 1).
  Result<void> put_backend(const BackendSpec& spec, MonoTime now);
  /// Gives it no new jobs; it disappears when its last running job ends. Errors: kNotFound.
  Result<void> remove_backend(std::string_view name, MonoTime now);
  Result<void> set_health(std::string_view name, bool healthy, MonoTime now);
  /// The engine said 429 or 503: no new jobs for it until `until`.
  Result<void> set_backoff(std::string_view name, MonoTime until);
  std::vector<BackendView> backends() const;

  // Jobs.
  /// `bytes`: what holding the request costs, against queued_bytes_max.
  Submission submit(schedule::Job job, std::size_t bytes, MonoTime now);
  /// A prediction has arrived. A job that no longer waits is no error: its law is kept or ignored.
  void set_law(JobId id, const length::LengthLaw& law, MonoTime now);
  /// The next job that can go to some backend with room, or nothing. A job never passes an overdue
  /// one of its pool for want of slots; a job of one model never blocks another's.
  std::optional<Assignment> next(MonoTime now);
  /// A running job whose engine refused it (429, 503) or died before its first byte returns to its
  /// place in the queue: same arrival, same key. `avoid` (may be empty) keeps it off that
  /// backend while another usable one is large enough for it, even if that is busy now; jobs behind
  /// it may pass. Once overdue it goes wherever there is room. Errors: kNotFound if it is not
  /// running.
  Result<void> requeue(JobId id, std::string_view avoid, MonoTime now);
  /// Errors: kNotFound if it is not running.
  Result<void> complete(JobId id, Outcome outcome, MonoTime now);
  /// Ends a job in any state; releases its slots or its place. Returns false if it is not known.
  bool cancel(JobId id, MonoTime now);

  /// When `next` may say something new without any other call (a back-off ends, …); nothing: never.
  std::optional<MonoTime> wake_at(MonoTime now) const;

  /// Another order for every pool, those to come included; waiting jobs keep their place in time.
  /// Errors: kInvalidArgument (unknown policy), and nothing changes.
  Result<void> set_policy(std::string_view name);

  /// From now on submissions are refused with kDraining; waiting and running jobs go on.
  void drain();
  bool idle() const;  ///< nothing waits and nothing runs

  std::vector<PoolView> pools(MonoTime now) const;
  bool serves(std::string_view model) const;
  bool awaits(std::string_view model) const;  ///< it is one of DispatchConfig::awaited_models
  /// Slots of the largest backend that serves the model and is not draining, or that is to come by
  /// DispatchConfig::awaited_slots; 0: there is none. A waiting job that needs more will never go,
  /// whatever becomes free.
  int largest_backend(std::string_view model) const;
  /// Estimated wait until a job submitted now would start, from the drain rate; empty while
  /// unknown.
  std::optional<Duration> expected_wait(std::string_view model, MonoTime now) const;
  /// Errors: kNotFound (never seen, or ended long ago: a bounded number of ended jobs is
  /// remembered).
  Result<Explanation> explain(JobId id, MonoTime now) const;
  /// Up to `limit` waiting jobs of a pool in the order they would go. For the admin page.
  std::vector<const schedule::Job*> queue(std::string_view model, MonoTime now,
                                          std::size_t limit) const;

 private:
  struct Impl;
  explicit Dispatcher(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tailrace::dispatch
