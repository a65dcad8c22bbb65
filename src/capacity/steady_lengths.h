// How long are a model's requests, over more than one look at them?
//
// A minute's requests have a mean that chance moves by several per cent where lengths have a heavy
// tail, and what one replica can take moves with it. Moments over some minutes move less; what
// leaves them for good is followed at once.
#pragma once

#include <optional>

#include "tailrace/queueing/service_model.h"

namespace tailrace::capacity {

class SteadyLengths {
 public:
  /// This cycle's; nothing: no traffic. The rate is left as given.
  std::optional<queueing::Workload> update(double now_s,
                                           const std::optional<queueing::Workload>& now);

  /// All that it goes on from.
  struct Memory {
    std::optional<queueing::Workload> mean;
    double now_s = 0;
    int far_off = 0;  ///< cycles in a row
  };
  const Memory& memory() const { return memory_; }
  void restore(const Memory& memory) { memory_ = memory; }

 private:
  Memory memory_;
};

}  // namespace tailrace::capacity
