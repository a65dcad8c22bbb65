#include "tailrace/core/rng.h"

#include <boost/random/exponential_distribution.hpp>
#include <boost/random/gamma_distribution.hpp>
#include <boost/random/normal_distribution.hpp>
#include <boost/random/student_t_distribution.hpp>
#include <boost/random/uniform_int_distribution.hpp>

#include "tailrace/core/check.h"

namespace tailrace {
namespace {

/// The finishing step of SplitMix64: spreads every input bit over the whole word.
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

std::uint64_t stable_hash(std::string_view bytes, std::uint64_t seed) {
  std::uint64_t h = 0xcbf29ce484222325ULL ^ mix(seed + 0x9e3779b97f4a7c15ULL);
  for (const char c : bytes) {
    h ^= static_cast<unsigned char>(c);
    h *= 0x100000001b3ULL;
  }
  return mix(h);
}

Rng::Rng(std::uint64_t seed) : seed_(seed), engine_(mix(seed + 0x9e3779b97f4a7c15ULL)) {}

Rng Rng::fork(std::string_view name) const {
  return Rng(stable_hash(name, seed_));
}

double Rng::uniform() {
  return static_cast<double>(engine_() >> 11) * 0x1.0p-53;
}

std::uint64_t Rng::below(std::uint64_t bound) {
  TAILRACE_CHECK(bound > 0);
  return boost::random::uniform_int_distribution<std::uint64_t>(0, bound - 1)(engine_);
}

double Rng::normal() {
  return boost::random::normal_distribution<double>()(engine_);
}

double Rng::exponential() {
  return boost::random::exponential_distribution<double>()(engine_);
}

double Rng::student_t(double nu) {
  return boost::random::student_t_distribution<double>(nu)(engine_);
}

double Rng::gamma(double shape) {
  return boost::random::gamma_distribution<double>(shape, 1.0)(engine_);
}

}  // namespace tailrace
