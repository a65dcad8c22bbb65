#include "tailrace/report/length_histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace tailrace::report {
namespace {

/// 0 for 0, then 1, 2-3, 4-7, …
std::size_t bin_of(std::int64_t length) {
  return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(length)));
}

LengthBin bin_at(std::size_t index) {
  if (index == 0) return {0, 0, 0};
  const std::int64_t low = std::int64_t{1} << (index - 1);
  return {low, low + (low - 1), 0};
}

}  // namespace

void LengthHistogram::add(std::int64_t length) {
  ++counts_[std::max<std::int64_t>(0, length)];
  ++count_;
}

std::vector<LengthBin> LengthHistogram::bins() const {
  std::vector<LengthBin> bins;
  if (counts_.empty()) return bins;
  const std::size_t first = bin_of(counts_.begin()->first);
  const std::size_t last = bin_of(counts_.rbegin()->first);
  for (std::size_t i = first; i <= last; ++i) bins.push_back(bin_at(i));
  for (const auto& [length, count] : counts_) bins[bin_of(length) - first].count += count;
  return bins;
}

double LengthHistogram::largest_share() const {
  std::uint64_t largest = 0;
  for (const auto& [length, count] : counts_) largest = std::max(largest, count);
  return count_ == 0 ? 0 : static_cast<double>(largest) / static_cast<double>(count_);
}

std::string LengthHistogram::text(std::size_t bar_width) const {
  const std::vector<LengthBin> all = bins();
  std::uint64_t tallest = 1;
  for (const LengthBin& bin : all) tallest = std::max(tallest, bin.count);
  std::string out;
  for (const LengthBin& bin : all) {
    const std::string range =
        bin.low == bin.high ? fmt::format("{}", bin.low) : fmt::format("{}-{}", bin.low, bin.high);
    // A bin with any count shows at least one mark.
    const std::size_t bar = (bin.count * bar_width + tallest - 1) / tallest;
    out += fmt::format("{:>13} {:>7} {:5.1f}% {}\n", range, bin.count,
                       100.0 * static_cast<double>(bin.count) / static_cast<double>(count_),
                       std::string(bar, '#'));
  }
  return out;
}

}  // namespace tailrace::report
