#include "dispatch/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tailrace/core/text.h"

namespace tailrace::dispatch {
namespace {

/// The time in which so many of the pool's jobs end.
std::optional<Duration> time_to_end(const Pool& pool, std::size_t jobs, MonoTime now) {
  const std::optional<double> rate = drain_per_second(pool, now);
  if (!rate || *rate <= 0) return std::nullopt;
  return from_seconds(static_cast<double>(jobs) / *rate);
}

/// A client that comes back when a tenth has gone finds room for itself and others like it.
std::optional<Duration> until_room(const Pool& pool, MonoTime now) {
  return time_to_end(pool, (pool.queue.size() + 9) / 10, now);
}

Submission refuse(Refusal refusal, std::string reason,
                  std::optional<Duration> retry_after = std::nullopt) {
  return {refusal, std::move(reason), retry_after};
}

Submission judge_deadline(const Pool& pool, MonoTime deadline, MonoTime now) {
  const Duration left = deadline - now;
  if (left <= Duration::zero()) {
    return refuse(Refusal::kDeadline, "the deadline has passed already");
  }
  const std::optional<Duration> wait = expected_wait(pool, now);
  if (!wait || *wait <= left) return {};
  return refuse(Refusal::kDeadline,
                fmt::format("the wait is about {:.1f} s, the deadline in {:.1f} s",
                            to_seconds(*wait), to_seconds(left)),
                *wait - left);
}

}  // namespace

int usable_slots(const Pool& pool, MonoTime now) {
  int slots = 0;
  for (const Backend* backend : pool.backends) {
    if (backend->usable(now)) slots += backend->spec.slots;
  }
  return slots;
}

int free_slots(const Pool& pool, MonoTime now) {
  int slots = 0;
  for (const Backend* backend : pool.backends) {
    if (backend->usable(now)) slots += backend->free_slots();
  }
  return slots;
}

int largest_backend(const Pool& pool) {
  int slots = 0;
  for (const Backend* backend : pool.backends) {
    if (!backend->draining) slots = std::max(slots, backend->spec.slots);
  }
  return slots;
}

std::optional<double> drain_per_second(const Pool& pool, MonoTime now) {
  const std::optional<double> per_slot = pool.drain.per_slot_second(now);
  if (!per_slot) return std::nullopt;
  return *per_slot * (pool.busy_slots + free_slots(pool, now));
}

std::optional<Duration> expected_wait(const Pool& pool, MonoTime now) {
  if (pool.queue.empty() && free_slots(pool, now) > 0) return Duration::zero();
  if (usable_slots(pool, now) == 0) return std::nullopt;
  return time_to_end(pool, pool.queue.size() + 1, now);
}

Result<void> check_spec(const BackendSpec& spec) {
  const auto reject = [](std::string message) {
    return fail(ErrorCode::kInvalidArgument, std::move(message));
  };
  if (spec.name.empty()) return reject("backend: its name is empty; give it a unique one");
  const std::string who = fmt::format("backend {}", core::quoted(spec.name));
  if (spec.models.empty()) return reject(who + ": models is empty; name the models it serves");
  if (spec.slots < 1) {
    return reject(fmt::format("{}: slots is {}; give at least 1", who, spec.slots));
  }
  for (auto model = spec.models.begin(); model != spec.models.end(); ++model) {
    if (model->empty()) return reject(who + ": a model's name is empty; name it or leave it out");
    if (std::find(spec.models.begin(), model, *model) != model) {
      return reject(
          fmt::format("{}: model {} is named twice; name it once", who, core::quoted(*model)));
    }
  }
  return {};
}

Submission admit(const Door& door, const schedule::Job& job, std::size_t bytes, MonoTime now) {
  const Pool* const pool = door.pool;
  const DispatchConfig& config = door.config;
  if (door.draining) {
    std::optional<Duration> rest;
    if (pool != nullptr) rest = time_to_end(*pool, pool->queue.size() + pool->running_jobs, now);
    return refuse(Refusal::kDraining, "shutting down: no new requests are taken", rest);
  }
  if (door.id_in_use) {
    return refuse(Refusal::kInvalidJob,
                  fmt::format("job id {} is in use; ids must be unique", job.id.count()));
  }
  if (job.slots < 1 || job.cap.count() < 1 || !(job.weight > 0 && std::isfinite(job.weight))) {
    return refuse(
        Refusal::kInvalidJob,
        fmt::format("slots {} and cap {} must be at least 1, weight {} above 0 and finite",
                    job.slots, job.cap.count(), job.weight));
  }
  const int there = pool == nullptr ? 0 : largest_backend(*pool);
  if (there == 0 && (pool == nullptr || !pool->awaited)) {
    return refuse(Refusal::kUnknownModel,
                  fmt::format("no backend serves the model {}", core::quoted(job.model)));
  }
  // 0: an awaited model's first backend is to come, and nobody said how large it will be.
  const int slots_max = std::max(there, pool->slots_to_come);
  if (slots_max > 0 && job.slots > slots_max) {
    return refuse(Refusal::kTooManySlots,
                  fmt::format("the request needs {} slots on one backend; the largest has {}",
                              job.slots, slots_max));
  }
  if (pool->queue.size() >= config.queued_jobs_max) {
    return refuse(Refusal::kQueueFull,
                  fmt::format("{} requests wait already, the limit", pool->queue.size()),
                  until_room(*pool, now));
  }
  // Not the sum, which could overflow. Jobs that came back may hold more than the limit.
  const bool room = pool->queued_bytes <= config.queued_bytes_max &&
                    bytes <= config.queued_bytes_max - pool->queued_bytes;
  if (!room) {
    return refuse(Refusal::kBytesFull,
                  fmt::format("waiting requests hold {} bytes; {} more would pass the limit of {}",
                              pool->queued_bytes, bytes, config.queued_bytes_max),
                  until_room(*pool, now));
  }
  return job.deadline ? judge_deadline(*pool, *job.deadline, now) : Submission{};
}

}  // namespace tailrace::dispatch
