#include "tailrace/engine/presets.h"

#include <fmt/format.h>

#include <array>

namespace tailrace::engine {
namespace {

constexpr std::int64_t kUnbounded = 1'000'000'000;

EngineConfig config(IterationCost cost, std::int64_t max_num_seqs, std::int64_t max_batched_tokens,
                    std::int64_t kv_tokens) {
  EngineConfig engine;
  engine.cost = cost;
  engine.max_num_seqs = max_num_seqs;
  engine.max_batched_tokens = max_batched_tokens;
  engine.kv_blocks = EngineConfig::blocks_for(kv_tokens, engine.block_tokens);
  return engine;
}

// alpha ms, beta ms per token above the knee, gamma ms per KV token, knee (facts/capacity.md 1.3).
// Sequence and token limits are vLLM's defaults for that GPU. KV of the 8B models: 29,205 blocks of
// 16; of the 70B ones: 0.9 of the memory less weights and activations, at 320 KiB a token.
const std::array kPresets = {
    Preset{"h100-8b", "8B model on one H100 80 GB",
           config({6.0, 0.0205, 7.6e-5, 200}, 1024, 8192, 467'280)},
    Preset{"a100-8b", "8B model on one A100 80 GB",
           config({10.0, 0.0685, 9.2e-5, 128}, 256, 2048, 467'280)},
    Preset{"h100-70b-tp4", "70B model on four H100 80 GB",
           config({15.0, 0.059, 4.8e-5, 256}, 1024, 8192, 480'000)},
    Preset{"h100-70b-tp8", "70B model on eight H100 80 GB",
           config({9.0, 0.032, 2.4e-5, 256}, 1024, 8192, 1'410'000)},
    Preset{"a100-70b-tp4", "70B model on four A100 80 GB",
           config({26.0, 0.165, 6e-5, 160}, 256, 2048, 480'000)},
    Preset{"steady-25ms", "idealised: 32 slots, every iteration takes 25 ms, memory without end",
           config({25.0, 0, 0, 0}, 32, kUnbounded, kUnbounded)},
};

}  // namespace

std::span<const Preset> presets() {
  return kPresets;
}

Result<Preset> find_preset(std::string_view name) {
  std::string names;
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return preset;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", preset.name);
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("there is no engine preset \"{}\"; use one of {}", name, names));
}

}  // namespace tailrace::engine
