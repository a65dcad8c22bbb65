#include "tailrace/core/time.h"

#include <cmath>
#include <limits>

namespace tailrace {

Duration from_seconds(double seconds) {
  if (std::isnan(seconds)) return Duration{0};
  const double nanos = seconds * 1e9;
  // The largest double below 2^63; comparing with max() itself would round up past it.
  constexpr double kLimit = 9223372036854774784.0;
  if (nanos >= kLimit) return Duration{std::numeric_limits<std::int64_t>::max()};
  if (nanos <= -kLimit) return Duration{std::numeric_limits<std::int64_t>::min()};
  return Duration{static_cast<std::int64_t>(std::llround(nanos))};
}

Duration from_millis(double millis) {
  return from_seconds(millis * 1e-3);
}

MonoTime SteadyClock::now() const {
  static const auto start = std::chrono::steady_clock::now();
  return MonoTime{std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - start)};
}

}  // namespace tailrace
