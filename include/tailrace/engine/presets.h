// Which engine is being emulated, when only its name is given?
//
// Iteration times per model and GPU, limits as vLLM sets them for that GPU, and memory. Each preset
// says what its numbers were derived from and what they do not know: they are starting points, not
// promises. profile.h reads an engine that no preset describes from a file.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tailrace/engine/engine_config.h"

namespace tailrace::engine {

struct Preset {
  std::string_view name;
  std::string_view description;
  EngineConfig config;
  std::string_view source;  ///< where times and memory come from
  std::string_view caveat;  ///< where they may mislead
};

/// In the order in which they are listed; never empty. The first is the default.
std::span<const Preset> presets();

/// Errors: kNotFound, with the names that exist.
Result<Preset> find_preset(std::string_view name);

/// What GPUs hold besides KV blocks.
struct MemoryBudget {
  int gpus = 1;
  double gib_per_gpu = 80;
  double utilization = 0.9;  ///< vLLM's gpu_memory_utilization
  double weights_gib = 0;    ///< of the whole model
  double activations_gib = 0;
  double other_gib_per_gpu = 0;  ///< graphs, communication buffers
};

/// Blocks of `block_tokens` that fit into the rest, at `kv_kib_per_token` of all layers. 0 if none.
std::int64_t kv_blocks_that_fit(const MemoryBudget& memory, double kv_kib_per_token,
                                std::int64_t block_tokens);

}  // namespace tailrace::engine
