// What are the percentiles of very many gaps between tokens, in bounded memory?
//
// Whole nanoseconds fall into buckets that are at most 1/256 of their value wide, so a percentile
// is within 0.4 % however many were counted. Counting one iteration's gaps is one addition.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tailrace/queueing/service_model.h"

namespace tailrace::simulate {

class GapCounter {
 public:
  /// `count` gaps of `ns` ≥ 0 each.
  void add(std::int64_t ns, std::int64_t count) {
    const std::size_t at = bucket(static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0)));
    if (at >= counts_.size()) counts_.resize(at + 1);
    counts_[at] += count;
  }

  /// In milliseconds, of the gaps that `earlier`, a former state of this one, has not; zeros if
  /// there are none.
  queueing::Percentiles percentiles_since(const GapCounter& earlier) const {
    std::vector<std::int64_t> counts = counts_;
    std::int64_t all = 0;
    for (std::size_t k = 0; k < counts.size(); ++k) {
      if (k < earlier.counts_.size()) counts[k] -= earlier.counts_[k];
      all += counts[k];
    }
    if (all == 0) return {};
    const auto at = [&](double p) {
      const double rank = p * static_cast<double>(all);
      double below = 0;
      std::size_t k = 0;
      while (k + 1 < counts.size() && below + static_cast<double>(counts[k]) < rank) {
        below += static_cast<double>(counts[k++]);
      }
      const double share = (rank - below) / std::max(1.0, static_cast<double>(counts[k]));
      const auto low = static_cast<double>(least(k)), high = static_cast<double>(least(k + 1));
      return (low + std::clamp(share, 0.0, 1.0) * (high - low)) * 1e-6;
    };
    return {at(0.5), at(0.9), at(0.95), at(0.99)};
  }

 private:
  static constexpr int kBits = 8;
  static constexpr std::uint64_t kPerOctave = std::uint64_t{1} << kBits;

  // Below 2·kPerOctave every number has its own.
  static std::size_t bucket(std::uint64_t ns) {
    const int shift = std::max(0, static_cast<int>(std::bit_width(ns)) - kBits - 1);
    return (static_cast<std::size_t>(shift) << kBits) + static_cast<std::size_t>(ns >> shift);
  }
  static std::uint64_t least(std::size_t bucket) {
    const std::size_t octave = bucket >> kBits;
    if (octave <= 1) return bucket;
    return (kPerOctave + (bucket & (kPerOctave - 1))) << (octave - 1);
  }

  std::vector<std::int64_t> counts_;
};

}  // namespace tailrace::simulate
