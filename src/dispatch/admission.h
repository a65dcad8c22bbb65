// May a job join its queue, and how long would it wait there?
//
// Pure questions about a pool as it stands; nothing here changes it.
#pragma once

#include "dispatch/state.h"

namespace tailrace::dispatch {

int usable_slots(const Pool& pool, MonoTime now);  ///< in use or free
int free_slots(const Pool& pool, MonoTime now);
/// Over backends that will take jobs again, healthy or not; 0 if there is none.
int largest_backend(const Pool& pool);
/// PoolView::drain_per_second.
std::optional<double> drain_per_second(const Pool& pool, MonoTime now);
/// Dispatcher::expected_wait.
std::optional<Duration> expected_wait(const Pool& pool, MonoTime now);

/// Errors: kInvalidArgument naming the backend, the field and what is allowed.
Result<void> check_spec(const BackendSpec& spec);

struct Door {
  const DispatchConfig& config;
  const Pool* pool = nullptr;  ///< of the job's model; null where nobody serves it
  bool draining = false;       ///< the whole dispatcher
  bool id_in_use = false;
};
/// Why the job is refused, or a Submission without a refusal.
Submission admit(const Door& door, const schedule::Job& job, std::size_t bytes, MonoTime now);

}  // namespace tailrace::dispatch
