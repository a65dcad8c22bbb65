// What are a conversation's tokens called, so that a prefix cache sees which are the same?
#pragma once

#include <cstdint>

namespace tailrace::simulate {

/// A permutation of the 64-bit words (SplitMix64's finish): two words never become one.
inline std::uint64_t permute(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// Names of stretches of tokens, computed and never stored: equal for the same place of the same
/// conversation, else different but for the chance of a 64-bit hash.
class PrefixWords {
 public:
  explicit PrefixWords(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t of_session(std::uint64_t session, std::uint64_t place) const {
    return permute(permute(seed_ + session) + place);
  }
  std::uint64_t of_class(std::uint64_t number, std::uint64_t place) const {
    return permute(permute(~seed_ - number) + place);
  }

 private:
  std::uint64_t seed_;
};

}  // namespace tailrace::simulate
