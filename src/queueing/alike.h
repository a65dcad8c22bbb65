// Which of many prompts and iterations that last nearly as long can stand for each other?
//
// Sums over all that may meet have ten thousands of terms. Those that are alike become one with
// their mean and variance, which the laws of latency are known by. Milliseconds; fixed memory.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace tailrace::queueing {

/// ln x of x ≥ 1, to 0.004, continuous and growing: which cell something falls into need not be
/// known better.
inline double rough_log(double x) {
  int exponent = 0;
  const double above = 2 * std::frexp(x, &exponent) - 1;  // from 0 to 1
  return (exponent - 1) * M_LN2 + above * (1 + above * (-0.420558 + above * 0.113705));
}

/// The iterations of prompts that came together, as who comes later meets them.
struct Met {
  double found;       ///< how long one lasts
  double lasts;       ///< all of them
  double unfinished;  ///< how often prompts are left over when the one that is met ends
  double rest;        ///< and then how many
};

/// Those that are nearly alike as one: their means. `lasts` times their weight is a share.
class MetTable {
 public:
  /// `base`: the least that an iteration lasts.
  explicit MetTable(double base) : base_(std::max(base, 1e-300)) {}

  void add(const Met& one, double weight) {
    const double share = weight * one.lasts;
    if (!(share > 0)) return;
    const int found = cell(one.found / base_, kPerFound);
    const int lasts = one.unfinished > 0 ? 1 + cell(one.lasts / one.found, kPerLasts) : 0;
    std::size_t k = 0;
    while (k < size_ && keys_[k] != std::pair(found, lasts)) ++k;
    if (k == size_) {
      if (size_ == kMost) {
        --k;
      } else {
        keys_[size_++] = {found, lasts};
        sums_[k] = {0, 0, 0, 0};
      }
    }
    sums_[k].found += share * one.found;
    sums_[k].lasts += share;
    sums_[k].unfinished += share * one.unfinished;
    sums_[k].rest += share * one.unfinished * one.rest;
  }

  /// Of all, the share of `unfinished`.
  double unfinished() const {
    double all = 0, part = 0;
    for (std::size_t k = 0; k < size_; ++k) {
      all += sums_[k].lasts;
      part += sums_[k].unfinished;
    }
    return all > 0 ? part / all : 0;
  }

  template <typename Add>
  void each(const Add& add) const {
    for (std::size_t k = 0; k < size_; ++k) {
      const Met& sum = sums_[k];
      add(Met{sum.found / sum.lasts, sum.lasts, sum.unfinished / sum.lasts,
              sum.unfinished > 0 ? sum.rest / sum.unfinished : 0});
    }
  }

 private:
  static constexpr std::size_t kMost = 64;
  /// Alike are those that differ by less than 30 % in what is found, and 50 % in what is left.
  static constexpr double kPerFound = 1 / 0.3, kPerLasts = 1 / 0.5;

  static int cell(double ratio, double per) {
    return static_cast<int>(rough_log(std::min(1e100, std::max(1.0, ratio))) * per);
  }

  double base_;
  std::array<Met, kMost> sums_;
  std::array<std::pair<int, int>, kMost> keys_;
  std::size_t size_ = 0;
};

/// A request's own iterations: so many of them, and what prompts add to them.
struct Own {
  double iterations, added, added_var, weight;
};

/// Own iterations that differ in how long they last, and which of OwnSums' cells they are in.
struct OwnList {
  static constexpr std::size_t kMost = 72;

  std::array<Own, kMost> at;
  std::array<std::uint8_t, kMost> cell;
  std::size_t size = 0;
};

/// Those that last within 20 % of each other as one: their means, and how they differ as a
/// variance.
class OwnSums {
 public:
  /// `iteration`: how long one without prompts lasts, about.
  explicit OwnSums(double iteration) : iteration_(iteration) {}

  std::size_t cell_of(const Own& one) const {
    constexpr double kPerLog = 1 / 0.2;
    const double ratio = one.iterations + one.added / iteration_;
    return static_cast<std::size_t>(
        std::min(kCells - 1.0, rough_log(std::max(1.0, ratio)) * kPerLog));
  }
  void add(const Own& one, std::size_t cell, double times) {
    while (end_ <= cell) sums_[end_++] = {};
    Sum& sum = sums_[cell];
    const double weight = times * one.weight;
    const double lasts = one.iterations * iteration_ + one.added;
    sum.weight += weight;
    sum.iterations += weight * one.iterations;
    sum.added += weight * one.added;
    sum.square += weight * (lasts * lasts + one.added_var);
  }
  void add(const OwnList& list, double times) {
    for (std::size_t k = 0; k < list.size; ++k) add(list.at[k], list.cell[k], times);
  }
  template <typename Add>
  void each(const Add& add) const {
    for (std::size_t cell = 0; cell < end_; ++cell) {
      const Sum& sum = sums_[cell];
      if (!(sum.weight > 0)) continue;
      const double one = 1 / sum.weight;
      const double iterations = sum.iterations * one, added = sum.added * one;
      const double lasts = iterations * iteration_ + added;
      add(Own{iterations, added, std::max(0.0, sum.square * one - lasts * lasts), sum.weight},
          cell);
    }
  }

 private:
  static constexpr std::size_t kCells = OwnList::kMost;  // the last is a million times the first

  struct Sum {
    double iterations = 0, added = 0, square = 0, weight = 0;
  };

  double iteration_;
  std::size_t end_ = 0;
  std::array<Sum, kCells> sums_;
};

/// Few are left as they are.
inline OwnList alike(std::span<const Own> all, double iteration) {
  constexpr std::size_t kFew = 10;
  OwnList out;
  OwnSums sums(iteration);
  const auto append = [&](const Own& one, std::size_t cell) {
    out.at[out.size] = one;
    out.cell[out.size++] = static_cast<std::uint8_t>(cell);
  };
  if (all.size() <= kFew) {
    for (const Own& one : all) append(one, sums.cell_of(one));
    return out;
  }
  for (const Own& one : all) sums.add(one, sums.cell_of(one), 1);
  sums.each(append);
  return out;
}

/// Lists for numbers from 0 on, made where they are needed at nodes that grow apart; between two
/// nodes both count.
class Lists {
 public:
  /// make(number) is the list of a node, add(list, part) is called for one or two of them.
  template <typename Make, typename Add>
  void at(double number, const Make& make, const Add& add) {
    std::size_t k = 0;
    while (k + 2 < kMost && kNodes[k + 1] <= number) ++k;
    const double part = std::clamp((number - kNodes[k]) / (kNodes[k + 1] - kNodes[k]), 0.0, 1.0);
    if (part < 1) add(list(k, make), 1 - part);
    if (part > 0) add(list(k + 1, make), part);
  }

 private:
  static constexpr std::size_t kMost = 12;
  static constexpr std::array<double, kMost> kNodes = [] {
    std::array<double, kMost> out{};
    double power = 1;
    for (double& node : out) {
      node = power - 1;
      power *= 2.2;
    }
    return out;
  }();

  template <typename Make>
  const OwnList& list(std::size_t k, const Make& make) {
    if (!made_[k]) {
      lists_[k] = make(kNodes[k]);
      made_[k] = true;
    }
    return lists_[k];
  }

  std::array<OwnList, kMost> lists_;
  std::array<bool, kMost> made_{};
};

}  // namespace tailrace::queueing
