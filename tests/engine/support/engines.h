// Small engines whose arithmetic a reader can do in the head: one token a KV block.
#pragma once

#include "tailrace/engine/engine_config.h"

namespace tailrace::engine {

inline IterationCost linear_cost(double alpha_ms, double beta_ms, double gamma_ms, double knee) {
  IterationCost cost;
  cost.alpha_ms = alpha_ms;
  cost.beta_ms = beta_ms;
  cost.gamma_ms = gamma_ms;
  cost.knee_tokens = knee;
  return cost;
}

inline EngineConfig token_engine(const IterationCost& cost, std::int64_t seqs, std::int64_t budget,
                                 std::int64_t kv_tokens) {
  EngineConfig config;
  config.cost = cost;
  config.max_num_seqs = seqs;
  config.max_batched_tokens = budget;
  config.block_tokens = 1;
  config.kv_blocks = kv_tokens + 1;
  return config;
}

}  // namespace tailrace::engine
