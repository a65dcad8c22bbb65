// The policies behind make_policy(), one factory each, and what they share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "tailrace/schedule/policy.h"

namespace tailrace::schedule {

std::unique_ptr<Policy> make_fcfs();
std::unique_ptr<Policy> make_mean();
std::unique_ptr<Policy> make_median();
std::unique_ptr<Policy> make_ratio();
std::unique_ptr<Policy> make_tie(const PolicyOptions& options);
std::unique_ptr<Policy> make_gittins(const PolicyOptions& options);

/// Within what every question of a law answers.
inline Tokens cap_tokens(const Job& job) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 53;
  return Tokens{std::clamp<std::int64_t>(job.cap.count(), 1, kLargest)};
}
inline double cap_of(const Job& job) {
  return static_cast<double>(cap_tokens(job).count());
}
/// What a job has attained, within what a law can be asked: 0 ≤ age < cap.
inline Tokens age_within(Tokens attained, Tokens cap) {
  return std::clamp(attained, Tokens{0}, cap - Tokens{1});
}
inline bool usable(double length) {
  return std::isfinite(length) && length > 0;
}
/// Per second of arrival, what keeps the order of scores that all shrink at one rate.
inline double ageing_per_second(double decay, Duration period) {
  return -std::log(decay) / to_seconds(period);
}
/// For Policy::explain.
std::string describe_law(const Job& job);

}  // namespace tailrace::schedule
