// What does a pod report whose speed is known?
#pragma once

#include <string>

#include "tailrace/queueing/service_model.h"
#include "tailrace/tune/observation.h"

namespace tailrace::capacity::testing {

/// How fast the pods of these tests are.
inline queueing::ServiceModel true_model(queueing::Mode mode = queueing::Mode::kCorrected) {
  queueing::ServiceModel model;
  model.mode = mode;
  model.iteration = {.alpha_ms = 6.49, .beta_ms = 0.0219, .gamma_ms = 4.96e-5};
  return model;
}

/// Of the last `span_s` seconds, in which `rate` requests a second of 512 and 128 tokens came. What
/// was found in the prefix cache it does not say.
inline tune::Observation report(const std::string& pod, double time_s, double rate,
                                const queueing::ServiceModel& truth = true_model(),
                                double span_s = 60, double prefix_hit = 0) {
  auto workload = queueing::Workload::of(rate, 512, 128);
  workload.prefix_hit = prefix_hit;
  const auto at = *queueing::latency(truth, workload);
  tune::Observation o;
  o.time_s = time_s;
  o.pod = pod;
  o.rate_per_s = rate;
  o.input_tokens = 512;
  o.output_tokens = 128;
  o.ttft_ms = at.ttft_ms;  // unknown where it is overloaded
  o.itl_ms = at.itl_ms;
  o.running = at.concurrency;
  o.requests = rate * span_s;
  return o;
}

}  // namespace tailrace::capacity::testing
