// What can a policy ask of a job's length, whatever is known of it?
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "tailrace/schedule/job.h"

namespace tailrace::schedule {

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
/// What a job without a prediction has left: all that its cap allows.
inline double left_at_most(Tokens age, Tokens cap) {
  return static_cast<double>((cap - age).count());
}

/// E[min(L, cap)], or the cap where nothing is known.
double expected_length(const Job& job);
/// E[L] without a cap; nothing where it is infinite or has no closed form.
std::optional<double> uncapped_mean(const length::LengthLaw& law);
/// For Policy::explain.
std::string describe_law(const Job& job);

}  // namespace tailrace::schedule
