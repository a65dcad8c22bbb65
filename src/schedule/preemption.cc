#include "tailrace/schedule/preemption.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tailrace::schedule {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

PreemptionLimits limits_of_policy(std::string_view policy) {
  if (policy == "gittins") return {};
  // ELIS asks its predictor every 50 tokens and reorders then.
  if (policy == "elis") return {50, kUnlimited, 1, 1};
  // Least attained service is at its best with some hysteresis (facts/scheduling.md 6.2); without,
  // jobs of one age displace each other token by token.
  if (policy == "las") return {8, kUnlimited, 0.6, 16};
  return {1, kUnlimited, 1, 1};
}

/// Goes after `b`: first to leave the batch.
bool worse(const RunningJob& a, const RunningJob& b) {
  if (a.priority != b.priority) return a.priority < b.priority;
  return a.key > b.key;
}

bool may_leave(const RunningJob& job, const PreemptionLimits& limits) {
  return !job.stays && job.served >= limits.quantum && job.preemptions < limits.max_per_job;
}

/// Rate at which a job with key `key` ends, over that of one with key `other`.
double speed(double key, double other) {
  return std::exp(other - key);
}

}  // namespace

Result<PreemptionLimits> preemption_limits(std::string_view policy,
                                           const PreemptionOptions& options) {
  const auto reject = [](std::string_view option, auto value, std::string_view allowed) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("preemption.{}: {} is not allowed; give {}", option, value, allowed));
  };
  PreemptionLimits limits = limits_of_policy(policy);
  const auto given = [](const std::optional<std::uint64_t>& value, std::int64_t& into) {
    if (value) into = static_cast<std::int64_t>(std::min<std::uint64_t>(*value, kUnlimited));
  };
  given(options.review_iterations, limits.review_iterations);
  given(options.max_per_job, limits.max_per_job);
  given(options.quantum, limits.quantum);
  limits.hysteresis = options.hysteresis.value_or(limits.hysteresis);
  if (limits.review_iterations < 1) {
    return reject("review_iterations", limits.review_iterations, "1 or more");
  }
  if (!(limits.hysteresis > 0 && limits.hysteresis <= 1)) {
    return reject("hysteresis", limits.hysteresis, "a number above 0, at most 1");
  }
  if (limits.quantum < 1) return reject("quantum", limits.quantum, "1 token or more");
  if (!options.enabled) limits.review_iterations = 0;
  return limits;
}

bool displaces(const WaitingJob& waiting, const RunningJob& running,
               const PreemptionLimits& limits) {
  if (waiting.priority != running.priority) return waiting.priority > running.priority;
  return waiting.key < running.key + std::log(limits.hysteresis);
}

std::vector<std::size_t> choose_preemptions(std::span<const RunningJob> running,
                                            std::span<const WaitingJob> waiting, BatchRoom room,
                                            const PreemptionLimits& limits) {
  std::vector<std::size_t> worst_first;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (may_leave(running[i], limits)) worst_first.push_back(i);
  }
  std::sort(worst_first.begin(), worst_first.end(), [&running](std::size_t a, std::size_t b) {
    if (worse(running[a], running[b])) return true;
    return !worse(running[b], running[a]) && a < b;
  });

  std::size_t leaving = 0;
  for (const WaitingJob& job : waiting) {
    std::size_t until = leaving;
    BatchRoom with = room;
    double lost = 0;
    while (with.free_slots < 1 || with.free_blocks < job.blocks) {
      if (until == worst_first.size()) break;
      const RunningJob& victim = running[worst_first[until]];
      if (!displaces(job, victim, limits)) break;
      if (job.priority == victim.priority) lost += speed(victim.key, job.key);
      if (lost > limits.hysteresis) break;
      ++until;
      ++with.free_slots;
      with.free_blocks += victim.blocks;
    }
    if (with.free_slots < 1 || with.free_blocks < job.blocks) break;
    leaving = until;
    room = {with.free_slots - 1, with.free_blocks - job.blocks};
  }
  worst_first.resize(leaving);
  return worst_first;
}

std::size_t choose_victim(std::span<const RunningJob> running) {
  std::size_t worst = 0;
  for (std::size_t i = 1; i < running.size(); ++i) {
    const RunningJob& a = running[i];
    const RunningJob& b = running[worst];
    if (a.stays != b.stays ? b.stays : !worse(b, a)) worst = i;
  }
  return worst;
}

}  // namespace tailrace::schedule
