// What time is it, for code that must not ask the machine?
//
// Every decision takes `now` as an argument. MonoTime counts from an arbitrary start (process start
// for the real clock, zero for simulated ones) and never jumps; it cannot be mixed with calendar
// time. Durations are integer nanoseconds.
#pragma once

#include <chrono>
#include <cstdint>

namespace tailrace {

using Duration = std::chrono::nanoseconds;

/// Tag clock of our own time line; it has no now() on purpose.
struct MonoClock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = Duration;
  using time_point = std::chrono::time_point<MonoClock, Duration>;
  static constexpr bool is_steady = true;
};
using MonoTime = MonoClock::time_point;

inline constexpr double to_seconds(Duration d) {
  return static_cast<double>(d.count()) * 1e-9;
}
inline constexpr double to_millis(Duration d) {
  return static_cast<double>(d.count()) * 1e-6;
}
/// Seconds since the start of the time line.
inline constexpr double to_seconds(MonoTime t) {
  return to_seconds(t.time_since_epoch());
}
/// Rounds to the nearest nanosecond; saturates instead of overflowing, NaN becomes zero.
Duration from_seconds(double seconds);
Duration from_millis(double millis);

class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonoTime now() const = 0;
};

/// The machine's steady clock, counted from the process's first use of it. Any thread.
class SteadyClock final : public Clock {
 public:
  MonoTime now() const override;
};

/// A clock that moves only when told. One thread.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(MonoTime start = MonoTime{}) : now_(start) {}
  MonoTime now() const override { return now_; }
  void advance(Duration by) { now_ += by; }
  void set(MonoTime to) { now_ = to; }

 private:
  MonoTime now_;
};

}  // namespace tailrace
