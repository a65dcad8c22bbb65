// Which engine is being emulated, when only its name is given?
//
// Iteration times per model and GPU, derived from published operator profiles (sums of medians over
// the layers, KV reads at 50 to 70 % of the memory's peak). They are starting points, not promises.
#pragma once

#include <span>
#include <string_view>

#include "tailrace/engine/engine_config.h"

namespace tailrace::engine {

struct Preset {
  std::string_view name;
  std::string_view description;
  EngineConfig config;
};

/// In the order in which they are listed; never empty. The first is the default.
std::span<const Preset> presets();

/// Errors: kNotFound, with the names that exist.
Result<Preset> find_preset(std::string_view name);

}  // namespace tailrace::engine
