#include "tailrace/engine/engine_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tailrace::engine {
namespace {

Result<void> check_cost(std::string_view field, double value) {
  if (std::isfinite(value) && value >= 0 && value <= 1e9) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is {}; it must be a number from 0 to 1e9", field, value));
}

constexpr std::int64_t kMost = 1'000'000'000'000;
// So that the tokens in all blocks can be counted.
constexpr std::int64_t kMostBlockTokens = 65'536;

Result<void> check_count(std::string_view field, std::int64_t value, std::int64_t least,
                         std::int64_t most = kMost) {
  if (value >= least && value <= most) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is {}; it must be from {} to {}", field, value, least, most));
}

}  // namespace

Duration IterationCost::of(Tokens batch_tokens, Tokens kv_tokens, std::int64_t sequences) const {
  return BatchCost(*this, batch_tokens, sequences).with_kv(kv_tokens.count());
}

BatchCost::BatchCost(const IterationCost& cost, Tokens batch_tokens, std::int64_t sequences) {
  const auto n = static_cast<double>(sequences);
  const double above_knee =
      std::max(0.0, static_cast<double>(batch_tokens.count()) - cost.knee_tokens);
  base_ms_ = cost.alpha_ms + cost.beta_ms * above_knee;
  gamma_ms_ = cost.gamma_ms;
  sequences_ms_ = cost.per_request_ms * n;
  cpu_ms_ = cost.cpu_ms + cost.cpu_per_request_ms * n;
  async_ = cost.async_scheduling;
}

std::int64_t EngineConfig::blocks_for(std::int64_t tokens, std::int64_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens + 1;
}

Result<void> EngineConfig::check() const {
  for (const auto& [field, value] : {std::pair{"alpha", cost.alpha_ms},
                                     {"beta", cost.beta_ms},
                                     {"gamma", cost.gamma_ms},
                                     {"knee tokens", cost.knee_tokens},
                                     {"per_request", cost.per_request_ms},
                                     {"cpu", cost.cpu_ms},
                                     {"cpu_per_request", cost.cpu_per_request_ms}}) {
    if (auto ok = check_cost(field, value); !ok) return ok;
  }
  for (const auto& [field, value, least] : {std::tuple{"max_num_seqs", max_num_seqs, 1},
                                            {"max_batched_tokens", max_batched_tokens, 1},
                                            {"kv_blocks", kv_blocks, 2},
                                            {"max_model_len", max_model_len, 2},
                                            {"long_prefill_tokens", long_prefill_tokens, 0},
                                            {"watermark_blocks", watermark_blocks, 0}}) {
    if (auto ok = check_count(field, value, least); !ok) return ok;
  }
  return check_count("block_tokens", block_tokens, 1, kMostBlockTokens);
}

}  // namespace tailrace::engine
