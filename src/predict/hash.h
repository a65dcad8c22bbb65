// How are two hashes joined into one?
#pragma once

#include <cstdint>

namespace tailrace::predict {

/// Depends on the order of its arguments; the same on every machine.
constexpr std::uint64_t combine(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a * 0x9e3779b97f4a7c15ULL + b;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace tailrace::predict
