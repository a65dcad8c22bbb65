// The specification's authors size with a birth-death chain of batch + queue + 1 states, where n
// in service are served at n / (prefill(n) + o · decode(n)).
#include <algorithm>
#include <cmath>

#include "queueing/modes.h"

namespace tailrace::queueing {
namespace {

struct ChainTimes {
  double alpha, delta, prefill_work, decode_work, output;
  bool has_prefill;

  double iteration(double n) const { return alpha + n * delta; }
  double prefill(double n) const { return has_prefill ? iteration(n) + prefill_work : 0; }
  double decode(double n) const { return iteration(n) + decode_work; }
  /// Requests per millisecond with n in service.
  double rate(double n) const { return n / (prefill(n) + output * decode(n)); }
};

}  // namespace

Latency chain(const IterationModel& m, const ServiceLimits& limits, const Workload& w) {
  const double i = w.input_mean;
  const double o = w.output_mean;
  const ChainTimes times{.alpha = m.alpha_ms,
                         .delta = m.beta_ms * (i + o) / (o + 1) + m.gamma_ms * (i + o / 2),
                         .prefill_work = (m.beta_ms + m.gamma_ms) * i,
                         .decode_work = m.beta_ms + m.gamma_ms * (i + o / 2),
                         .output = o,
                         .has_prefill = i > 0};
  const std::int64_t batch = limits.max_num_seqs;
  const double full_rate = times.rate(static_cast<double>(batch));
  Latency out;
  out.delta_ms = times.delta;
  out.max_rate_per_s = 0.999 * full_rate * 1e3;
  out.binding = Binding::kSequences;
  const double lambda = w.rate_per_s * 1e-3;
  out.stable = lambda > 0 && w.rate_per_s <= out.max_rate_per_s;
  if (!out.stable) return out;
  // Unnormalised probabilities by upward recursion, rescaled before they overflow.
  double p = 1, sum = 1, in_service = 0, in_system = 0, last = 1;
  const std::int64_t states = batch + limits.max_queue;
  for (std::int64_t n = 1; n <= states; ++n) {
    const auto served = static_cast<double>(std::min(n, batch));
    p *= lambda / (n < batch ? times.rate(served) : full_rate);
    sum += p;
    in_service += served * p;
    in_system += static_cast<double>(n) * p;
    last = p;
    if (sum > 1e200) {
      p *= 1e-200;
      sum *= 1e-200;
      in_service *= 1e-200;
      in_system *= 1e-200;
      last *= 1e-200;
    }
  }
  const double throughput = lambda * (1 - last / sum);
  const double concurrency = in_service / sum;
  const double response = in_system / sum / throughput;
  const double service = concurrency / throughput;
  const double wait = std::max(0.0, response - service);
  const double prefill = times.prefill(concurrency);
  const double itl = (service - prefill) / o;
  out.rho = std::clamp(concurrency / static_cast<double>(batch), 0.0, 1.0);
  out.iteration_ms = times.iteration(concurrency);
  out.wait_ms = wait;
  out.ttft_ms = wait + prefill + itl;
  out.itl_ms = itl;
  out.e2e_ms = response;
  out.concurrency = concurrency;
  out.throughput_per_s = throughput * 1e3;
  return out;
}

}  // namespace tailrace::queueing
