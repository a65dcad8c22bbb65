// What does an engine look like that no preset describes?
//
// A profile is a YAML mapping whose keys are the fields of EngineConfig, each optional:
//
//   preset: h100-8b            # where to begin; else the first preset
//   name: our-h100
//   alpha_ms: 6.2
//   kv_blocks: 27113           # what the engine logs as num_gpu_blocks
//   prefix_caching: true
//
// Instead of alpha_ms, beta_ms and knee_tokens it may give `measured_ms`, a mapping from tokens in
// an iteration to its milliseconds, to which the three are fitted (time_fit.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tailrace/core/result.h"
#include "tailrace/engine/engine_config.h"
#include "tailrace/engine/time_fit.h"

namespace tailrace::engine {

struct Profile {
  std::string name;
  EngineConfig config;         ///< passes check()
  std::optional<TimeFit> fit;  ///< of measured_ms, where it was given
};

/// Errors: kInvalidArgument with the first thing that is wrong, as "origin:line:
/// key: value … remedy": an unknown key, a wrong type, a value out of range, keys that exclude each
/// other.
Result<Profile> parse_profile(std::string_view yaml, std::string_view origin);

/// Of a file. Errors also: those of reading it.
Result<Profile> read_profile(const std::string& path);

/// By the name of a preset, or from a file: a word with a slash or that ends in .yaml, .yml or
/// .json. Errors also: kNotFound (no such preset or file), those of reading a file.
Result<Profile> find_profile(const std::string& name_or_file);

}  // namespace tailrace::engine
