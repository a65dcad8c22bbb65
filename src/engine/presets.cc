#include "tailrace/engine/presets.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "tailrace/core/text.h"

namespace tailrace::engine {
namespace {

constexpr std::int64_t kUnbounded = 1'000'000'000;
constexpr double kBytesPerGib = 1024.0 * 1024 * 1024;
constexpr double kWeightBytes = 2;  // 16-bit

// Keys and values of one token over all layers, 16-bit, 8 KV heads of 128: 32 layers and 80.
constexpr double kKvKib8b = 128;
constexpr double kKvKib70b = 320;

constexpr double kWeightsGib8b = 8.0303e9 * kWeightBytes / kBytesPerGib;
constexpr double kWeightsGib70b = 70.554e9 * kWeightBytes / kBytesPerGib;

struct Limits {
  std::int64_t max_num_seqs;
  std::int64_t max_batched_tokens;
};
// A vLLM server's defaults: GPUs of 70 GiB and more, and the A100, which it counts among the
// others.
constexpr Limits kH100Limits{1024, 8192};
constexpr Limits kA100Limits{256, 2048};

EngineConfig config(const IterationCost& cost, Limits limits, std::int64_t usable_blocks) {
  EngineConfig engine;
  engine.cost = cost;
  engine.max_num_seqs = limits.max_num_seqs;
  engine.max_batched_tokens = limits.max_batched_tokens;
  engine.kv_blocks = usable_blocks + 1;  // and the null block
  return engine;
}

std::int64_t blocks_8b() {
  return kv_blocks_that_fit({.weights_gib = kWeightsGib8b}, kKvKib8b, EngineConfig{}.block_tokens);
}
std::int64_t blocks_70b(int gpus) {
  const MemoryBudget memory{.gpus = gpus,
                            .weights_gib = kWeightsGib70b,
                            .activations_gib = 5.5,
                            .other_gib_per_gpu = 0.6};
  return kv_blocks_that_fit(memory, kKvKib70b, EngineConfig{}.block_tokens);
}

// What tests/engine/presets_test.cc holds the presets to.
#define TAILRACE_ACCURACY                                                                        \
  "Within 16 % of those medians up to half the knee and from twice the knee on, up to 29 % too " \
  "fast between them; the profile leaves out the output layer and the engine's own overhead. "
constexpr std::string_view kCaveat8b = TAILRACE_ACCURACY
    "Memory is 0.9 of 80 GiB less 16-bit weights, with nothing taken off for activations: engines "
    "log up to a tenth fewer blocks. Where memory binds, use the count that yours logs";
constexpr std::string_view kCaveat70b = TAILRACE_ACCURACY
    "Memory is computed, not read from an engine: where it binds, use the block count that yours "
    "logs";
#undef TAILRACE_ACCURACY

std::array<Preset, 6> make_presets() {
  const auto cost = [](double alpha, double beta, double gamma, double knee) {
    IterationCost c;
    c.alpha_ms = alpha;
    c.beta_ms = beta;
    c.gamma_ms = gamma;
    c.knee_tokens = knee;
    return c;
  };
  return {
      Preset{"h100-8b", "8B model on one H100 80 GB",
             config(cost(6.0, 0.0205, 7.6e-5, 200), kH100Limits, blocks_8b()),
             "Medians of a published operator profile (Vidur, Llama-2-7B on an H100), summed over "
             "the layers; a published fit to vLLM on Llama-3.1-8B puts a token at 17 to 20 us, "
             "here 20.5. Context: 128 KiB of keys and values a token at about half of the memory's "
             "peak rate. Limits: vLLM's for this GPU",
             kCaveat8b},
      Preset{"a100-8b", "8B model on one A100 80 GB",
             config(cost(10.0, 0.0685, 9.2e-5, 128), kA100Limits, blocks_8b()),
             "Medians of a published operator profile (Vidur, Llama-3-8B on an A100), summed over "
             "the layers. Context: 128 KiB of keys and values a token at 70 % of the memory's peak "
             "rate. Limits: vLLM's for this GPU",
             kCaveat8b},
      Preset{"h100-70b-tp4", "70B model on four H100 80 GB",
             config(cost(15.0, 0.059, 4.8e-5, 256), kH100Limits, blocks_70b(4)),
             "Medians of a published operator profile (Vidur, Llama-2-70B on four H100), summed "
             "over the layers. Context: 320 KiB a token, split over the GPUs. Memory: 0.9 of it "
             "less 16-bit weights, 5.5 GiB of activations and 0.6 GiB a GPU. Limits: vLLM's",
             kCaveat70b},
      Preset{"h100-70b-tp8", "70B model on eight H100 80 GB",
             config(cost(9.0, 0.032, 2.4e-5, 256), kH100Limits, blocks_70b(8)),
             "Medians of a published operator profile (Vidur, Llama-2-70B on eight H100), summed "
             "over the layers. Context and memory as for four GPUs. Limits: vLLM's",
             kCaveat70b},
      Preset{"a100-70b-tp4", "70B model on four A100 80 GB",
             config(cost(26.0, 0.165, 6e-5, 160), kA100Limits, blocks_70b(4)),
             "Medians of a published operator profile (Vidur, Llama-3-70B on four A100), summed "
             "over the layers. Context: 320 KiB a token, split over the GPUs. Memory: 0.9 of it "
             "less 16-bit weights, 5.5 GiB of activations and 0.6 GiB a GPU. Limits: vLLM's",
             kCaveat70b},
      Preset{"steady-25ms", "idealised: 32 slots, every iteration takes 25 ms, memory without end",
             config(cost(25.0, 0, 0, 0), {32, kUnbounded}, kUnbounded / 16),
             "No engine: the batch of queueing models, where only slots are scarce",
             "Prompts cost nothing and nobody is ever preempted"},
  };
}

}  // namespace

std::span<const Preset> presets() {
  static const std::array<Preset, 6> all = make_presets();
  return all;
}

Result<Preset> find_preset(std::string_view name) {
  std::string names;
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", preset.name);
  }
  return fail(ErrorCode::kNotFound, fmt::format("there is no engine preset {}; use one of {}",
                                                core::quoted(name), names));
}

std::int64_t kv_blocks_that_fit(const MemoryBudget& memory, double kv_kib_per_token,
                                std::int64_t block_tokens) {
  const double left_gib = memory.gpus * memory.gib_per_gpu * memory.utilization -
                          memory.weights_gib - memory.activations_gib -
                          memory.gpus * memory.other_gib_per_gpu;
  const double block_bytes = kv_kib_per_token * 1024 * static_cast<double>(block_tokens);
  return static_cast<std::int64_t>(
      std::max(0.0, std::floor(left_gib * kBytesPerGib / block_bytes)));
}

}  // namespace tailrace::engine
