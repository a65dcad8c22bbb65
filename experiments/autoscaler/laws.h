// What do plain autoscalers do, that know nothing of queues, lengths or time?
#pragma once

#include <deque>
#include <vector>

#include "tailrace/autoscaler/simulated_fleet.h"

namespace tailrace::scenario {

/// A HorizontalPodAutoscaler: ceil(replicas · metric / target), nothing within 10 % of the target,
/// a decrease takes the largest recommendation of 300 s, at most the larger of 4 replicas and
/// 100 % more in 60 s. Replicas that start are there but report nothing. One HPA for each variant,
/// as Kubernetes has them: each sees its own pods.
class PodAutoscaler {
 public:
  /// Mean over pods of what a pod reports.
  enum class Metric {
    kConcurrency,  ///< requests in each engine, running and waiting
    kQueue,  ///< requests that wait before the engines, over all replicas (KEDA: AverageValue)
  };
  PodAutoscaler(Metric metric, double target, std::vector<std::int64_t> min,
                std::vector<std::int64_t> max);

  std::vector<int> operator()(const autoscaler::Snapshot& snapshot);

 private:
  struct Mark {
    double at_s = 0;
    std::int64_t replicas = 0;
  };

  Metric metric_;
  double target_;
  std::vector<std::int64_t> min_, max_;
  std::vector<std::deque<Mark>> recommended_, seen_;
};

}  // namespace tailrace::scenario
