// The specification's authors size with a birth-death chain of batch + queue + 1 states, where n
// in service are served at n / (prefill(n) + o · decode(n)).
#include <algorithm>
#include <cmath>

#include "queueing/chain_times.h"
#include "queueing/modes.h"

namespace tailrace::queueing {
namespace {

/// The authors evaluate up to this share of the full batch's rate.
constexpr double kLargestShare = 0.999;

/// Sums over the states, unnormalised.
struct StateSums {
  double all = 1;         ///< of the probabilities; the empty state counts 1
  double in_service = 0;  ///< weighted by how many are served
  double waiting = 0;     ///< weighted by how many wait
  double last = 1;        ///< the full system's, where arrivals are turned away

  void scale(double factor) {
    all *= factor;
    in_service *= factor;
    waiting *= factor;
    last *= factor;
  }
};

/// States 1 to `batch`, by upward recursion.
void add_served(StateSums& sums, const ChainTimes& times, double lambda, std::int64_t batch) {
  // service(n) is linear in n, so one step multiplies by lambda · (service(0) / n + slope).
  const double at_zero = lambda * times.service(0);
  const double slope = lambda * (times.service(1) - times.service(0));
  double p = 1;
  for (std::int64_t n = 1; n <= batch; ++n) {
    const auto k = static_cast<double>(n);
    const double step = at_zero / k + slope;
    p *= step;
    sums.all += p;
    sums.in_service += k * p;
    sums.last = p;
    if (sums.all > 1e200) {
      p *= 1e-200;
      sums.scale(1e-200);
    }
    // Steps shrink as n grows: from here on the rest is below a geometric series.
    if (step < 0.99 && p * k < 1e-20 * sums.all) {
      sums.last = 0;
      return;
    }
  }
}

/// The states above the batch, each `ratio` times the one below it.
void add_waiting(StateSums& sums, double ratio, std::int64_t batch, std::int64_t room) {
  const auto q = static_cast<double>(room);
  const double tail = std::pow(ratio, q);
  const double rest = 1 - ratio;
  const double states = sums.last * ratio * (1 - tail) / rest;
  sums.all += states;
  sums.in_service += static_cast<double>(batch) * states;
  sums.waiting = sums.last * ratio * (1 - tail * (1 + q * rest)) / (rest * rest);
  sums.last *= tail;
}

/// A rate, and requests in service.
constexpr double kLeast = 1e-200;

}  // namespace

double chain_least_rate(const IterationModel& m, const Workload& w) {
  return std::min(kRateMax, 0.001 * ChainTimes::of(m, w.input_mean, w.output_mean).rate(1) * 1e3);
}

Latency chain(const IterationModel& m, const ServiceLimits& limits, const Workload& w) {
  const ChainTimes times = ChainTimes::of(m, w.input_mean, w.output_mean);
  const std::int64_t batch = limits.max_num_seqs;
  const double full_rate = times.rate(static_cast<double>(batch));
  Latency out;
  out.delta_ms = times.delta;
  out.max_rate_per_s = std::min(kRateMax, kLargestShare * full_rate * 1e3);
  out.binding = Binding::kSequences;
  out.stable = w.rate_per_s <= out.max_rate_per_s;
  out.rho = 1;
  if (!out.stable) return out;
  const double lambda = w.rate_per_s * 1e-3;
  StateSums sums;
  add_served(sums, times, lambda, batch);
  add_waiting(sums, lambda / full_rate, batch, limits.max_queue);
  const double throughput = lambda * (1 - sums.last / sums.all);
  const double concurrency = sums.in_service / sums.all;
  // An idle server serves its next request alone: the limit of both quotients, which underflow
  // before the rate does.
  const bool idle = lambda < kLeast || concurrency < kLeast;
  const double service = idle ? times.service(1) : concurrency / throughput;
  const double wait = idle ? 0 : sums.waiting / sums.all / throughput;
  const double prefill = times.prefill(concurrency);
  const double itl = std::max(0.0, (service - prefill) / w.output_mean);
  out.rho = std::clamp(concurrency / static_cast<double>(batch), 0.0, 1.0);
  out.iteration_ms = times.iteration(concurrency);
  out.wait_ms = wait;
  out.ttft_ms = wait + prefill + itl;
  out.itl_ms = itl;
  out.e2e_ms = wait + service;
  out.concurrency = concurrency;
  out.throughput_per_s = throughput * 1e3;
  return out;
}

}  // namespace tailrace::queueing
