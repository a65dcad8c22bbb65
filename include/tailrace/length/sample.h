// Which length does this law happen to give?
//
// One draw from a law, for bootstrap, Monte-Carlo scores and simulation. The generator is the
// caller's: same law, same generator state, same length, on every machine. Any thread, one
// generator each.
#pragma once

#include "tailrace/core/rng.h"
#include "tailrace/length/length_law.h"

namespace tailrace::length {

/// A length in tokens: uncapped, a real number, finite and above 0 (a draw beyond what a double
/// holds becomes its least or largest value). Takes from `rng` as many numbers as the family needs.
/// Costs 20 to 100 ns; binned and mixture search or pick first.
double sample(const LengthLaw& law, Rng& rng);

}  // namespace tailrace::length
