// Which job of a pool goes where, now?
//
// The rules stand in dispatcher.h. One round looks at the pools in turn; a job that has to wait for
// slots marks the backend that it reserves with the round's number, which hides that backend from
// every job and pool after it in the same round. Nothing else is changed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "dispatch/state.h"

namespace tailrace::dispatch {

struct Choice {
  const schedule::Job* job = nullptr;
  Backend* backend = nullptr;
  bool overdue = false;
};

/// `live_job` finds the dispatcher's record of a waiting job.
std::optional<Choice> choose(Pool& pool, BackendChoice rule, std::uint64_t round, MonoTime now,
                             const std::function<const LiveJob&(JobId)>& live_job);

}  // namespace tailrace::dispatch
