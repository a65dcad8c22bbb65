#include "dispatch/drain_rate.h"

#include <algorithm>
#include <cmath>

namespace tailrace::dispatch {
namespace {
constexpr double kMemorySeconds = 60;  // of busy time; the rate follows a change within minutes
}  // namespace

DrainRate::Sums DrainRate::sums_at(MonoTime now) const {
  const double elapsed = to_seconds(std::max(Duration::zero(), now - last_));
  if (busy_ == 0 || elapsed == 0) return sums_;
  const double kept = std::exp(-elapsed / kMemorySeconds);
  return {sums_.ended * kept, sums_.slot_seconds * kept + busy_ * kMemorySeconds * (1 - kept)};
}

void DrainRate::set_busy(int busy, MonoTime now) {
  sums_ = sums_at(now);
  last_ = std::max(last_, now);
  busy_ = busy;
}

void DrainRate::add_ended(MonoTime now) {
  sums_ = sums_at(now);
  last_ = std::max(last_, now);
  sums_.ended += 1;
}

std::optional<double> DrainRate::per_slot_second(MonoTime now) const {
  const Sums sums = sums_at(now);
  if (sums_.ended <= 0 || sums.slot_seconds <= 0) return std::nullopt;
  return sums.ended / sums.slot_seconds;
}

}  // namespace tailrace::dispatch
