// Specification sections 9.2 to 9.4.
#include <cmath>

#include "queueing/modes.h"

namespace tailrace::queueing {

Latency closed_form(const IterationModel& m, const Workload& w) {
  const double i = w.input_mean;
  const double o = w.output_mean;
  const double iterations = o + 1;
  Latency out;
  out.delta_ms = m.beta_ms * (i + o) / iterations + m.gamma_ms * (i + o / 2);
  const double work_ms = iterations * out.delta_ms;
  out.rho = w.rate_per_s * 1e-3 * work_ms;
  out.max_rate_per_s = work_ms > 0 ? 1e3 / work_ms : HUGE_VAL;
  out.binding = Binding::kComputation;
  out.stable = out.rho < 1;
  if (!out.stable) return out;
  const double t = m.alpha_ms / (1 - out.rho);
  out.iteration_ms = t;
  out.wait_ms = t;
  out.ttft_ms = t + (m.beta_ms + m.gamma_ms) * i;
  out.itl_ms = t + m.beta_ms + m.gamma_ms * (i + (o + 1) / 2);
  out.e2e_ms = *out.ttft_ms + o * *out.itl_ms;
  out.concurrency = w.rate_per_s * 1e-3 * iterations * t;
  out.throughput_per_s = w.rate_per_s;
  return out;
}

}  // namespace tailrace::queueing
