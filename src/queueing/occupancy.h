// How many requests are in the batch, how much do iterations vary, and who waits for a slot?
//
// Parts of the corrected mode. Milliseconds; callers have checked their arguments.
#pragma once

#include "queueing/service_point.h"

namespace tailrace::queueing {

/// Second moments of an iteration T that begins with k prefilling and d decoding, n = k + d, where
/// no limit binds. All are per unit of rate, so that they have a limit at rate 0.
struct Spread {
  double n_var = 0, t_var = 0, tn_cov = 0;
  double next_cov = 0;      ///< of T and the next iteration
  double contexts_cov = 0;  ///< of n and what contexts of other than mean length add to T
};

Spread spread_of(const OperatingPoint& at, const RequestWork& work, double rate_per_ms);

/// Adds what contexts of different length do: long ones stay long, slow down everybody, and let the
/// batch grow for as long.
void add_contexts(const OperatingPoint& at, const RequestWork& work, double gamma_ms,
                  double rate_per_ms, Spread& spread);

/// Over time. `full` and `waiting` are those of exponential lengths.
struct Occupancy {
  double idle = 1;     ///< P(nobody is there)
  double full = 0;     ///< P(the batch is full)
  double waiting = 0;  ///< mean number who wait for a slot
};

/// Negative binomial with this mode and variance up to `slots`, then geometric with `beyond` < 1.
/// At most a thousand steps.
Occupancy occupancy(double mode, double variance, double slots, double beyond);

}  // namespace tailrace::queueing
