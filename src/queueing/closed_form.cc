// Specification sections 9.2 to 9.4.
#include <algorithm>

#include "queueing/modes.h"

namespace tailrace::queueing {
namespace {

/// What a request costs, in milliseconds.
struct Work {
  double delta;  ///< in each iteration it takes part in
  double total;  ///< in all of its iterations
  double ttft;   ///< of its own prefill
  double itl;    ///< of its own mean decode step
  double iterations;
};

Work work_of(const IterationModel& m, const Workload& w) {
  const double i = w.input_mean;
  const double o = w.output_mean;
  // Parameters of -0 are 0: no rate divides by one.
  const double delta = 0.0 + m.beta_ms * (i + o) / (o + 1) + m.gamma_ms * (i + o / 2);
  return {.delta = delta,
          .total = (o + 1) * delta,
          .ttft = (m.beta_ms + m.gamma_ms) * i,
          .itl = m.beta_ms + m.gamma_ms * (i + (o + 1) / 2),
          .iterations = o + 1};
}

}  // namespace

Latency closed_form(const IterationModel& m, const Workload& w) {
  const Work work = work_of(m, w);
  Latency out;
  out.delta_ms = work.delta;
  out.rho = w.rate_per_s * 1e-3 * work.total;
  out.max_rate_per_s = std::min(kRateMax, 1e3 / work.total);
  out.binding = out.max_rate_per_s < kRateMax ? Binding::kComputation : Binding::kNone;
  out.stable = out.rho < 1;
  if (!out.stable) return out;
  const double t = m.alpha_ms / (1 - out.rho);
  out.iteration_ms = t;
  out.wait_ms = t;
  out.ttft_ms = t + work.ttft;
  out.itl_ms = t + work.itl;
  out.e2e_ms = *out.ttft_ms + w.output_mean * *out.itl_ms;
  out.concurrency = w.rate_per_s * 1e-3 * work.iterations * t;
  out.throughput_per_s = w.rate_per_s;
  return out;
}

std::optional<double> closed_form_rate(const IterationModel& m, const Workload& w,
                                       SizingLimit limit, double target_ms) {
  const Work work = work_of(m, w);
  const double iteration_ms =
      limit == SizingLimit::kTtft ? target_ms - work.ttft
      : limit == SizingLimit::kItl
          ? target_ms - work.itl
          : (target_ms - work.ttft - w.output_mean * work.itl) / work.iterations;
  if (iteration_ms <= m.alpha_ms) return std::nullopt;
  return std::min(kRateMax, (1 - m.alpha_ms / iteration_ms) * 1e3 / work.total);
}

}  // namespace tailrace::queueing
