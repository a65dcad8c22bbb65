// What does an engine look like to a scheduler: how fast, how wide, how much memory?
#pragma once

#include <algorithm>
#include <cstdint>

#include "tailrace/core/result.h"
#include "tailrace/core/strong.h"
#include "tailrace/core/time.h"

namespace tailrace::engine {

/// GPU: alpha + beta · max(0, batch tokens − knee) + gamma · KV tokens + per_request · sequences.
/// CPU: cpu + cpu_per_request · sequences. All in milliseconds. Below the knee a GPU waits for its
/// weights and more tokens cost nothing; 0 makes the time linear from the first token. With
/// asynchronous scheduling the CPU's share hides behind the GPU's: the larger counts; without it
/// they add up.
struct IterationCost {
  double alpha_ms = 6.0;
  double beta_ms = 0.0205;
  double gamma_ms = 7.6e-5;
  double knee_tokens = 200;
  double per_request_ms = 0;
  double cpu_ms = 0;
  double cpu_per_request_ms = 0;
  bool async_scheduling = true;

  /// At least 1 ns, so that time advances.
  Duration of(Tokens batch_tokens, Tokens kv_tokens, std::int64_t sequences) const;

  friend bool operator==(const IterationCost&, const IterationCost&) = default;
};

/// IterationCost for a batch of a given size: what it still depends on is its context. Gives the
/// same nanosecond as IterationCost::of.
class BatchCost {
 public:
  BatchCost(const IterationCost& cost, Tokens batch_tokens, std::int64_t sequences);

  Duration with_kv(std::int64_t kv_tokens) const {
    const double gpu_ms = base_ms_ + gamma_ms_ * static_cast<double>(kv_tokens) + sequences_ms_;
    const double nanos = (async_ ? std::max(gpu_ms, cpu_ms_) : gpu_ms + cpu_ms_) * 1e-3 * 1e9;
    if (!(nanos < kMostNanos)) return Duration{static_cast<std::int64_t>(kMostNanos)};
    const auto whole = static_cast<std::int64_t>(nanos);
    const bool up = nanos - static_cast<double>(whole) >= 0.5;
    return Duration{std::max<std::int64_t>(1, whole + (up ? 1 : 0))};
  }

 private:
  static constexpr double kMostNanos = 1e18;  // 31 years

  double base_ms_, gamma_ms_, sequences_ms_, cpu_ms_;
  bool async_;
};

struct EngineConfig {
  IterationCost cost;
  std::int64_t max_num_seqs = 256;         ///< sequences in the batch
  std::int64_t max_batched_tokens = 8192;  ///< tokens computed in one iteration
  std::int64_t block_tokens = 16;          ///< context tokens in one KV block
  /// Blocks in memory, vLLM's num_gpu_blocks. One of them is reserved as the null block.
  std::int64_t kv_blocks = 29'206;
  std::int64_t max_model_len = 131'072;  ///< prompt and answer together
  /// Most tokens of one prompt that an iteration computes; 0: no limit of its own.
  std::int64_t long_prefill_tokens = 0;
  bool chunked_prefill = true;
  bool prefix_caching = false;
  /// Admits a sequence only if its whole current context fits, not just its first chunk.
  bool reserve_full_sequence = true;
  /// Blocks that must stay free when a waiting sequence is admitted to a batch that is not empty.
  std::int64_t watermark_blocks = 0;

  std::int64_t usable_blocks() const { return kv_blocks - 1; }
  /// Blocks, the null block included, that hold `tokens` of context.
  static std::int64_t blocks_for(std::int64_t tokens, std::int64_t block_tokens);

  /// Errors: kInvalidArgument naming the field, its value and what it may be.
  Result<void> check() const;

  friend bool operator==(const EngineConfig&, const EngineConfig&) = default;
};

}  // namespace tailrace::engine
