// Where do random numbers come from, so that a seed reproduces everything?
//
// From an Rng that is passed as an argument. The generator is the 64-bit Mersenne Twister (its
// sequence is fixed by the C++ standard); the distributions are Boost.Random's, because those of
// the standard library differ from one implementation to the next. Not thread-safe: fork one per
// thread.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>

namespace tailrace {

class Rng {
 public:
  explicit Rng(std::uint64_t seed);

  /// An independent stream for a named purpose: same parent seed and name, same stream. It does not
  /// depend on how many numbers the parent has drawn.
  Rng fork(std::string_view name) const;

  std::uint64_t next_u64() { return engine_(); }
  double uniform();                          ///< in [0, 1)
  std::uint64_t below(std::uint64_t bound);  ///< uniform in [0, bound); bound > 0
  double normal();                           ///< mean 0, variance 1
  double exponential();                      ///< mean 1
  double student_t(double nu);               ///< nu degrees of freedom
  double gamma(double shape);                ///< scale 1

 private:
  std::uint64_t seed_;
  std::mt19937_64 engine_;
};

/// A 64-bit hash of bytes that is the same on every machine (FNV-1a, then a SplitMix64 finish). Not
/// for tables that a hostile client can fill.
std::uint64_t stable_hash(std::string_view bytes, std::uint64_t seed = 0);

}  // namespace tailrace
