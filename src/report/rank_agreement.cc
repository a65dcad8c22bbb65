#include "tailrace/report/rank_agreement.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tailrace/core/check.h"

namespace tailrace::report {
namespace {

std::uint64_t pairs_of(std::uint64_t n) {
  return n * (n - (n > 0 ? 1 : 0)) / 2;
}

/// Pairs that are equal, in a sequence where equal items stand together.
template <class Equal>
std::uint64_t tied_pairs(std::size_t n, Equal equal) {
  std::uint64_t pairs = 0;
  std::uint64_t run = 1;
  for (std::size_t i = 1; i <= n; ++i) {
    if (i < n && equal(i - 1, i)) {
      ++run;
    } else {
      pairs += pairs_of(run);
      run = 1;
    }
  }
  return pairs;
}

/// Sorts `values` and counts the pairs that stood in descending order.
std::uint64_t count_inversions(std::vector<double>& values) {
  std::vector<double> merged(values.size());
  std::uint64_t inversions = 0;
  for (std::size_t width = 1; width < values.size(); width *= 2) {
    for (std::size_t begin = 0; begin < values.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, values.size());
      const std::size_t end = std::min(begin + 2 * width, values.size());
      std::size_t left = begin;
      std::size_t right = middle;
      for (std::size_t out = begin; out < end; ++out) {
        if (right == end || (left < middle && values[left] <= values[right])) {
          merged[out] = values[left++];
        } else {
          inversions += middle - left;
          merged[out] = values[right++];
        }
      }
    }
    values.swap(merged);
  }
  return inversions;
}

}  // namespace

Agreement order_agreement(std::span<const double> predicted, std::span<const double> realised) {
  TAILRACE_CHECK(predicted.size() == realised.size());
  const std::size_t n = predicted.size();
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return realised[a] != realised[b] ? realised[a] < realised[b] : predicted[a] < predicted[b];
  });
  const auto same_truth = [&](std::size_t i, std::size_t j) {
    return realised[order[i]] == realised[order[j]];
  };
  const std::uint64_t truth_ties = tied_pairs(n, same_truth);
  const std::uint64_t both_ties = tied_pairs(n, [&](std::size_t i, std::size_t j) {
    return same_truth(i, j) && predicted[order[i]] == predicted[order[j]];
  });
  std::vector<double> said(n);
  for (std::size_t i = 0; i < n; ++i) said[i] = predicted[order[i]];
  const std::uint64_t discordant = count_inversions(said);
  const std::uint64_t said_ties =
      tied_pairs(n, [&](std::size_t i, std::size_t j) { return said[i] == said[j]; });

  const std::uint64_t all = pairs_of(n);
  const std::uint64_t concordant = all - truth_ties - said_ties + both_ties - discordant;
  const double truth_pairs = static_cast<double>(all - truth_ties);
  const double said_pairs = static_cast<double>(all - said_ties);
  Agreement agreement;
  if (truth_pairs > 0) {
    agreement.pair_accuracy =
        (static_cast<double>(concordant) + 0.5 * static_cast<double>(said_ties - both_ties)) /
        truth_pairs;
  }
  if (truth_pairs > 0 && said_pairs > 0) {
    agreement.tau_b = (static_cast<double>(concordant) - static_cast<double>(discordant)) /
                      (std::sqrt(truth_pairs) * std::sqrt(said_pairs));
  }
  return agreement;
}

}  // namespace tailrace::report
