// How long do the prefill and a decode step take in the published chain, with n in service?
//
// Both charge the request's own work a second time, as its authors do; docs/capacity-planning.md
// compares. Milliseconds; n need not be whole.
#pragma once

#include "tailrace/queueing/service_model.h"

namespace tailrace::queueing {

struct ChainTimes {
  double alpha, delta, prefill_work, decode_work, output;
  bool has_prefill;

  static ChainTimes of(const IterationModel& m, double input, double output) {
    return {
        .alpha = m.alpha_ms,
        .delta = m.beta_ms * (input + output) / (output + 1) + m.gamma_ms * (input + output / 2),
        .prefill_work = (m.beta_ms + m.gamma_ms) * input,
        .decode_work = m.beta_ms + m.gamma_ms * (input + output / 2),
        .output = output,
        .has_prefill = input > 0};
  }

  double iteration(double n) const { return alpha + n * delta; }
  double prefill(double n) const { return has_prefill ? iteration(n) + prefill_work : 0; }
  double decode(double n) const { return iteration(n) + decode_work; }
  /// From the first iteration to the last, with n in service.
  double service(double n) const { return prefill(n) + output * decode(n); }
  /// Requests per millisecond that n in service complete together.
  double rate(double n) const { return n / service(n); }
};

}  // namespace tailrace::queueing
