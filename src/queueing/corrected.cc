// Processor sharing with second moments, a residual iteration and a prefill burst.
#include <algorithm>
#include <cmath>

#include "queueing/modes.h"

namespace tailrace::queueing {
namespace {

/// What one request costs, averaged over requests. Milliseconds.
struct Work {
  double iterations, decodes, prefill, prefill_second, per_decode, per_iteration;
};

Work work_of(const ServiceModel& model, const Workload& w) {
  const IterationModel& m = model.iteration;
  const double extra = model.iterations == Iterations::kOutputPlusOne ? 1 : 0;
  Work work{};
  work.iterations = w.output_mean + extra;
  work.decodes = work.iterations - 1;
  // Moments of the number of decode steps D = o − 1 + extra.
  const double shift = extra - 1;
  const double d_second = w.output_second_moment + 2 * shift * w.output_mean + shift * shift;
  const double d_input = w.cross_moment + shift * w.input_mean;
  const double per_token = m.beta_ms * (1 - w.prefix_hit) + m.gamma_ms;
  work.prefill = per_token * w.input_mean;
  work.prefill_second = per_token * per_token * w.input_second_moment;
  const double decode =
      m.beta_ms * work.decodes + m.gamma_ms * (d_input + (d_second + work.decodes) / 2);
  work.per_decode = decode / work.iterations;
  work.per_iteration = (work.prefill + decode) / work.iterations;
  return work;
}

}  // namespace

Latency corrected(const ServiceModel& model, const Workload& w, Detail) {
  const Work work = work_of(model, w);
  const double alpha = model.iteration.alpha_ms;
  const double lambda = w.rate_per_s * 1e-3;
  const std::int64_t batch = model.limits.max_num_seqs;
  const auto full = static_cast<double>(batch);
  const auto iteration = [&](double n) { return alpha + n * work.per_iteration; };

  Latency out;
  out.delta_ms = work.per_iteration;
  out.rho = lambda * work.iterations * work.per_iteration;
  out.max_rate_per_s = 1e3 * full / (work.iterations * iteration(full));
  out.binding = Binding::kSequences;
  out.stable = w.rate_per_s < out.max_rate_per_s;
  if (!out.stable) return out;
  double p = 1, sum = 1, served = 0, waiting = 0, t0 = 0, t1 = 0, t2 = 0;
  for (std::int64_t n = 1; n <= batch; ++n) {
    const auto k = static_cast<double>(n);
    const double t = iteration(k);
    p *= lambda * work.iterations * t / k;
    sum += p;
    served += k * p;
    t0 += p / t;
    t1 += p;
    t2 += p * (t + lambda * work.prefill_second);
    if (p < 1e-15 * sum && k > served / sum) break;
  }
  // Beyond the batch the chain is geometric.
  const double ratio = w.rate_per_s / out.max_rate_per_s;
  const double tail = p * ratio / (1 - ratio);
  sum += tail;
  served += full * tail;
  waiting = tail / (1 - ratio);
  t0 += tail / iteration(full);
  t1 += tail;
  t2 += tail * (iteration(full) + lambda * work.prefill_second);
  const double busy = t1 / sum;
  const double mean_t = t1 / t0, second_t = t2 / t0;
  const double in_batch = served / sum;
  const double cv2 = std::max(0.0, w.output_second_moment - w.output_mean * w.output_mean) /
                     (work.iterations * work.iterations);
  const double wait = waiting / sum / lambda * (1 + cv2) / 2;
  const double prefill =
      alpha + in_batch * work.per_decode + work.prefill * (1 + busy * lambda * second_t / mean_t);
  out.iteration_ms = mean_t;
  out.wait_ms = wait + busy * second_t / (2 * mean_t);
  out.ttft_ms = *out.wait_ms + prefill;
  out.itl_ms =
      work.decodes > 0 ? std::max(0.0, in_batch / lambda - prefill) / work.decodes : mean_t;
  out.e2e_ms = *out.ttft_ms + work.decodes * *out.itl_ms;
  out.concurrency = in_batch;
  out.throughput_per_s = w.rate_per_s;
  if (ratio > 0.9) out.out_of_range = OutOfRange::kNearSaturation;
  if (work.prefill > 0.5 * work.iterations * work.per_iteration) {
    out.out_of_range = OutOfRange::kPrefillDominated;
  }
  return out;
}

}  // namespace tailrace::queueing
