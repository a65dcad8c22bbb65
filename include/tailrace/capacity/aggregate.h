// What do a variant's pods see together, or a model's?
//
// The specification's means (section 4.1): over pods with traffic, weighted by arrival rate; a pod
// whose metric is missing pulls its mean down. And ours, the default: such a pod is left out of
// that mean, latencies weigh by the requests completed where all pods tell, and the spread of
// lengths, inside pods and between them, is kept as a second moment. Pods come one by one.
#pragma once

#include <optional>

#include "tailrace/capacity/config.h"
#include "tailrace/queueing/service_model.h"
#include "tailrace/tune/observation.h"

namespace tailrace::capacity {

/// Empty is unknown. Rates of the whole group.
struct WorkloadSummary {
  int pods = 0;
  int busy_pods = 0;      ///< with a rate above 0
  int unknown_pods = 0;   ///< whose rate is missing or no number
  double rate_per_s = 0;  ///< of all busy pods together
  double waiting = 0;     ///< requests inside engines that have not begun, where told
  std::optional<double> input_tokens, output_tokens, ttft_ms, itl_ms;
  double input_second_moment = 0, output_second_moment = 0, cross_moment = 0;
  double prefix_hit = 0;

  double rate_per_busy_pod() const { return busy_pods > 0 ? rate_per_s / busy_pods : 0; }
  /// Of one busy pod; empty where a length is unknown.
  std::optional<queueing::Workload> workload() const;
};

class Aggregator {
 public:
  explicit Aggregator(Assembly assembly) : assembly_(assembly) {}
  void add(const tune::Observation& pod);
  WorkloadSummary summary() const;

 private:
  struct Mean {
    double weight = 0, sum = 0;
    void add(double w, double x) { weight += w, sum += w * x; }
    std::optional<double> value() const;
  };
  struct Latency {
    Mean by_rate, by_requests;
    bool all_tell = true;
    void add(double rate, const std::optional<double>& requests, double x);
    std::optional<double> value() const;
  };
  void add_published(const tune::Observation& pod, double rate);

  Assembly assembly_;
  WorkloadSummary counts_;
  Mean input_, output_, input_second_, output_second_, cross_, prefix_;
  Latency ttft_, itl_;
};

}  // namespace tailrace::capacity
