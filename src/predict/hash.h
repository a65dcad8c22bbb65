// How are two hashes joined into one, and how does an amount become one of few classes?
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tailrace::predict {

/// Depends on the order of its arguments; the same on every machine.
constexpr std::uint64_t combine(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a * 0x9e3779b97f4a7c15ULL + b;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// A count or amount as one of a few dozen classes, finer where small.
inline std::uint64_t bucket(double amount, double per_e_fold = 2.0) {
  const double x = std::isfinite(amount) ? std::clamp(amount, 0.0, 1e9) : 0.0;
  return static_cast<std::uint64_t>(std::llround(std::log1p(x) * per_e_fold));
}

}  // namespace tailrace::predict
