#include "queueing/support/revised_chain.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tailrace::queueing::testing {

Latency revised_chain(const ServiceModel& model, const Workload& w) {
  const IterationModel& m = model.iteration;
  const double i = w.input_mean, o = w.output_mean;
  const double decode = m.beta_ms + m.gamma_ms * (i + (o + 1) / 2);
  const double prefill = (m.beta_ms + m.gamma_ms) * i;
  const double delta = (prefill + o * decode) / (1 + o);
  const auto iteration = [&](double n) { return m.alpha_ms + n * delta; };
  const std::int64_t batch = model.limits.max_num_seqs;
  const auto rate = [&](double n) {
    const double served = std::min(n, static_cast<double>(batch));
    return served / ((1 + o) * iteration(served));
  };
  const double lambda = w.rate_per_s * 1e-3;
  // In logarithms, so that nothing overflows.
  std::vector<double> log_p{0};
  for (std::int64_t n = 1; n <= batch + model.limits.max_queue; ++n) {
    log_p.push_back(log_p.back() + std::log(lambda / rate(static_cast<double>(n))));
  }
  const double top = *std::max_element(log_p.begin(), log_p.end());
  double sum = 0, served = 0, inside = 0;
  for (std::size_t n = 0; n < log_p.size(); ++n) {
    const double p = std::exp(log_p[n] - top);
    const auto k = static_cast<double>(n);
    sum += p;
    inside += k * p;
    served += std::min(k, static_cast<double>(batch)) * p;
  }
  Latency out;
  out.stable = true;
  out.delta_ms = delta;
  out.max_rate_per_s = 0.999e3 * rate(static_cast<double>(batch));
  const double throughput = lambda * (1 - std::exp(log_p.back() - top) / sum);
  const double n = served / sum;
  out.concurrency = n;
  out.rho = n / static_cast<double>(batch);
  out.throughput_per_s = throughput * 1e3;
  out.e2e_ms = inside / sum / throughput;
  out.wait_ms = (inside - served) / sum / throughput;
  const double first = iteration(n - 1) + prefill;
  out.itl_ms = (n / throughput - first) / o;
  out.ttft_ms = *out.wait_ms + first + *out.itl_ms;
  return out;
}

}  // namespace tailrace::queueing::testing
