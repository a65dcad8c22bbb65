// How much longer does the gap between two tokens get with each further stream in the batch?
//
// Two means, TTFT and ITL, at one load leave the three parameters of an iteration's time open
// (docs/decisions/0017-token-pace.md). The batch changes all the time, though, and gaps change with
// it. Gaps are averaged over bins of about a second and regressed on the number of streams that
// decode and on the prompts that begin in each iteration: both make it longer, and more of one
// means more of the other. What single prompts, contexts and the network add is noise. Pure: the
// caller brings the time. One thread; memory is bounded.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "tailrace/core/time.h"

namespace tailrace {

/// Over the window.
struct TokenPace {
  double gap_ms = 0;         ///< mean, each iteration counted once
  double per_stream_ms = 0;  ///< by which it grows with one more stream; noise can make it negative
  double error_ms = 0;       ///< standard error of per_stream_ms
};

class TokenPaceMeter {
 public:
  static constexpr std::size_t kBlocks = 8;

  /// Remembers eight blocks, the newest of them not full: between 7/8 of `window` and all of it.
  /// `window` > 0.
  explicit TokenPaceMeter(Duration window)
      : block_(std::max(Duration{1}, window / static_cast<std::int64_t>(kBlocks))) {}

  /// A token came `gap` after the one before it in its stream, and `streams` had begun to answer
  /// and not ended, this one included: at least 1. Times do not go back.
  void gap(MonoTime now, Duration gap, std::uint64_t streams);
  /// All of `streams` had such a gap at once: one iteration.
  void iteration(MonoTime now, Duration gap, std::uint64_t streams);
  /// A stream's first token came, while `others` had begun to answer and not ended.
  void first_token(MonoTime now, std::uint64_t others);

  /// Nothing while the window holds too little, or a batch that does not vary: the error comes from
  /// leaving out each block in turn.
  std::optional<TokenPace> at(MonoTime now) const;

 private:
  /// Of iterations, as far as gaps between tokens tell them.
  struct Bin {
    double iterations = 0, gaps = 0, firsts = 0, time_ms = 0;
  };
  /// Over bins, by their iterations: of n, the mean number of streams, k, the prompts in an
  /// iteration, and g, the gap.
  struct Sums {
    double weight = 0, n = 0, k = 0, g = 0, nn = 0, nk = 0, kk = 0, ng = 0, kg = 0;

    void add(const Bin& bin);
    void add(const Sums& other, double sign);
    /// What one more stream adds at the same number of prompts.
    std::optional<double> slope() const;
  };
  struct Block {
    std::int64_t number = -1;
    Sums sums;
  };

  void move_to(MonoTime now);
  std::int64_t number_at(MonoTime now) const { return now.time_since_epoch() / block_; }

  Duration block_;
  std::array<Block, kBlocks> blocks_;
  Bin bin_;
  MonoTime bin_began_;
};

}  // namespace tailrace
