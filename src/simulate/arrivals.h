// When does the next request come?
//
// An ArrivalProcess draws the times of ArrivalSpec, one after the other. It knows nothing of what
// arrives: the same stream of chance gives the same times whatever the requests are like.
#pragma once

#include "tailrace/core/result.h"
#include "tailrace/core/rng.h"
#include "tailrace/simulate/workload.h"

namespace tailrace::simulate {

/// Errors: kInvalidArgument naming the field, its value and what it may be.
Result<void> check(const ArrivalSpec& spec);
/// Of the fields alone that end a stream.
Result<void> check_end(const ArrivalSpec& spec);

class ArrivalProcess {
 public:
  /// `spec` has passed check().
  ArrivalProcess(const ArrivalSpec& spec, const Rng& rng);

  /// Seconds from the start; never falls. `duration_s` and `count` are the caller's.
  double next_s();

 private:
  double next_gamma();
  double next_sinusoid();
  double next_stepwise();
  double next_of_profile();
  void next_step();

  ArrivalSpec spec_;
  Rng rng_;
  double now_s_ = 0;
  bool first_ = true;

  // Of a rate that jumps at `until_s_`: kMarkov, kSpikes.
  bool high_ = false;
  double until_s_ = 0;
  double period_begins_s_ = 0;
  std::size_t point_ = 0;  // kProfile: the last at or before now_s_
};

}  // namespace tailrace::simulate
