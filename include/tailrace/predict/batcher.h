// When is a batch of requests worth predicting?
//
// A pure state machine: up to `batch_max` requests or `wait_max` after the first, whichever comes
// first (TIE, section 3: 32 and 3 ms). It knows no clock and no thread; the gateway drives it on
// its prediction thread. The number of requests that wait is bounded: the oldest beyond it are
// given up, and their jobs keep their provisional place.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "tailrace/core/strong.h"
#include "tailrace/core/time.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::predict {

struct BatcherOptions {
  std::size_t batch_max = 32;
  Duration wait_max = std::chrono::milliseconds(3);
  std::size_t pending_max = 4096;
};

struct PredictRequest {
  JobId id;
  RequestFeatures features;
};

class Batcher {
 public:
  explicit Batcher(BatcherOptions options = {});

  /// False if it pushed out the oldest waiting request to make room.
  bool add(PredictRequest request, MonoTime now);
  void remove(JobId id);  ///< the job has left; O(pending)

  /// The next batch if one is due at `now`, else empty.
  std::vector<PredictRequest> take(MonoTime now);
  /// When the next batch falls due; nothing while none waits.
  std::optional<MonoTime> due() const;
  std::size_t pending() const { return pending_.size(); }

 private:
  struct Entry {
    PredictRequest request;
    MonoTime added;
  };
  BatcherOptions options_;
  std::deque<Entry> pending_;
};

}  // namespace tailrace::predict
