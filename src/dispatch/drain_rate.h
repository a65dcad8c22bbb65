// How fast do jobs leave their slots?
//
// Counts jobs that ended against the slot-seconds that jobs were busy, both fading with the same
// memory of busy time. Ended jobs per busy slot-second, times the slots at hand, is the drain rate.
// Idle time does not count, jobs still running do, so neither a quiet night nor a burst of short
// jobs at the start misleads it. Engines slow down as they fill: measured at low load the rate is
// on the high side.
#pragma once

#include <cstddef>
#include <optional>

#include "tailrace/core/time.h"

namespace tailrace::dispatch {

class DrainRate {
 public:
  /// The slots in use are `busy` from `now` on. Calls come in order of time; an earlier `now`
  /// counts as the latest one.
  void set_busy(int busy, MonoTime now);
  /// A job ended and released its slots.
  void add_ended(MonoTime now);
  /// Jobs per second from one slot; empty before the first end.
  std::optional<double> per_slot_second(MonoTime now) const;

 private:
  struct Sums {
    double ended = 0;
    double slot_seconds = 0;
  };
  Sums sums_at(MonoTime now) const;

  Sums sums_;
  int busy_ = 0;
  MonoTime last_;
};

}  // namespace tailrace::dispatch
