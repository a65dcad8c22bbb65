// What lengths did the answers really have?
//
// Bins grow by factors of two (1, 2-3, 4-7, …), since lengths spread over orders of magnitude. A
// measurement whose answers are all cut at one length says nothing about a scheduler, and shows
// here.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tailrace::report {

struct LengthBin {
  std::int64_t low = 0;
  std::int64_t high = 0;  ///< inclusive
  std::uint64_t count = 0;
};

class LengthHistogram {
 public:
  void add(std::int64_t length);  ///< negative lengths count as 0

  std::uint64_t count() const { return count_; }
  /// From the first bin with a count to the last; empty when nothing was added.
  std::vector<LengthBin> bins() const;
  /// Share of the most frequent single length; 1 when all are equal, 0 when nothing was added.
  double largest_share() const;
  /// One line a bin with a bar of '#'.
  std::string text(std::size_t bar_width = 40) const;

  friend bool operator==(const LengthHistogram&, const LengthHistogram&) = default;

 private:
  std::map<std::int64_t, std::uint64_t> counts_;
  std::uint64_t count_ = 0;
};

}  // namespace tailrace::report
