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

 private:
  std::optional<queueing::Workload> mean_;
  double now_s_ = 0;
  int far_off_ = 0;  ///< cycles in a row
};

}  // namespace tailrace::capacity
