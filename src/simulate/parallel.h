// How are independent pieces of work spread over threads, with results in order?
#pragma once

#include <cstddef>
#include <functional>

#include "tailrace/core/result.h"

namespace tailrace::simulate {

struct ParallelWork {
  std::size_t pieces = 0;
  std::size_t jobs = 1;
  /// Any thread, any order; a piece begins only once fewer than jobs + kAhead before it are
  /// unfinished, so what waits for its turn is bounded.
  std::function<Result<void>(std::size_t)> work;
  /// After `work` of the same piece; one call at a time, in order.
  std::function<Result<void>(std::size_t)> in_order;
  /// From the caller's thread, about ten times a second, with how many pieces are finished.
  std::function<void(std::size_t)> tick;

  static constexpr std::size_t kAhead = 64;
};

/// The error of the earliest piece that fails; pieces under way end, no other begins.
Result<void> run_parallel(const ParallelWork& work);

}  // namespace tailrace::simulate
