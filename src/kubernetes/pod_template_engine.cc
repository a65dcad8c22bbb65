#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "kubernetes/pod_template.h"
#include "tailrace/core/text.h"

namespace tailrace::kubernetes {
namespace {

constexpr std::string_view kVllm = "vllm", kSglang = "sglang", kTrtLlm = "tensorrt-llm",
                           kLlamaCpp = "llama.cpp", kUnknown = "unknown";
constexpr std::size_t kFlagBytesMax = 1'024, kFlagsMax = 1'000;

/// Another way to write a flag.
struct Alias {
  std::string_view engine, written, name;
};
constexpr std::array kAliases{
    Alias{kVllm, "tp", "tensor-parallel-size"},
    Alias{kVllm, "pp", "pipeline-parallel-size"},
    Alias{kVllm, "dp", "data-parallel-size"},
    Alias{kVllm, "q", "quantization"},
    Alias{kSglang, "tp", "tensor-parallel-size"},
    Alias{kSglang, "tp-size", "tensor-parallel-size"},
    Alias{kSglang, "pp-size", "pipeline-parallel-size"},
    Alias{kSglang, "dp", "data-parallel-size"},
    Alias{kSglang, "dp-size", "data-parallel-size"},
    Alias{kSglang, "ep", "expert-parallel-size"},
    Alias{kSglang, "ep-size", "expert-parallel-size"},
    Alias{kSglang, "model", "model-path"},
    Alias{kLlamaCpp, "np", "parallel"},
    Alias{kLlamaCpp, "c", "ctx-size"},
    Alias{kLlamaCpp, "b", "batch-size"},
    Alias{kLlamaCpp, "ub", "ubatch-size"},
    Alias{kLlamaCpp, "a", "alias"},
    Alias{kLlamaCpp, "m", "model"},
    Alias{kLlamaCpp, "hf", "hf-repo"},
    Alias{kLlamaCpp, "hfr", "hf-repo"},
    Alias{kLlamaCpp, "ngl", "n-gpu-layers"},
    Alias{kLlamaCpp, "gpu-layers", "n-gpu-layers"},
    Alias{kLlamaCpp, "fa", "flash-attn"},
    Alias{kLlamaCpp, "t", "threads"},
};

/// What tells an engine whose command is hidden in its image: the image's name, else a flag.
struct Sign {
  std::string_view text, engine;
};
constexpr std::array kImageSigns{
    Sign{"sglang", kSglang},       Sign{"tensorrt-llm", kTrtLlm}, Sign{"tensorrtllm", kTrtLlm},
    Sign{"tensorrt_llm", kTrtLlm}, Sign{"trtllm", kTrtLlm},       Sign{"llama.cpp", kLlamaCpp},
    Sign{"llama-cpp", kLlamaCpp},  Sign{"llamacpp", kLlamaCpp},   Sign{"llama-server", kLlamaCpp},
    Sign{"vllm", kVllm},           Sign{"inference-sim", kVllm},
};
constexpr std::array kFlagSigns{
    Sign{"max-running-requests", kSglang},
    Sign{"mem-fraction-static", kSglang},
    Sign{"chunked-prefill-size", kSglang},
    Sign{"ctx-size", kLlamaCpp},
    Sign{"n-gpu-layers", kLlamaCpp},
    Sign{"ngl", kLlamaCpp},
    Sign{"kv-cache-free-gpu-memory-fraction", kTrtLlm},
    Sign{"max-num-seqs", kVllm},
    Sign{"max-num-batched-tokens", kVllm},
    Sign{"gpu-memory-utilization", kVllm},
    Sign{"max-model-len", kVllm},
};

std::string_view base_name(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

/// Where in a command an engine begins: the index of its first argument.
struct Launch {
  std::string_view engine;
  std::size_t first = 0;
};

std::optional<Launch> launch_in(const Words& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view name = base_name(words[i]);
    const std::string_view next = i + 1 < words.size() ? words[i + 1] : std::string_view();
    if (name == "vllm" && next == "serve") return Launch{kVllm, i + 2};
    if (words[i].starts_with("vllm.entrypoints.")) return Launch{kVllm, i + 1};
    if (name == "llm-d-inference-sim") return Launch{kVllm, i + 1};
    if (name == "tailrace" && next == "engine") return Launch{kVllm, i + 2};
    if (name == "sglang" && next == "serve") return Launch{kSglang, i + 2};
    if (words[i] == "sglang.launch_server") return Launch{kSglang, i + 1};
    if (name == "llama-server") return Launch{kLlamaCpp, i + 1};
    if (name == "trtllm-serve") return Launch{kTrtLlm, i + 1};
  }
  return {};
}

bool is_flag(const std::string& word) {
  if (word.size() < 2 || word[0] != '-' || word == "--") return false;
  const char c = word[1] == '-' && word.size() > 2 ? word[2] : word[1];
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_secret(std::string_view name) {
  return name.find("api-key") != std::string_view::npos || name.ends_with("-token") ||
         name == "token" || name.find("password") != std::string_view::npos ||
         name.find("secret") != std::string_view::npos;
}

std::string long_name(std::string_view engine, std::string_view written) {
  std::string name(written);
  std::replace(name.begin(), name.end(), '_', '-');
  for (const auto& alias : kAliases) {
    if (alias.engine == engine && alias.written == name) return std::string(alias.name);
  }
  return name;
}

/// Flags as written, the last of equal ones; words that belong to none are `positional`.
struct RawFlags {
  std::map<std::string, std::string> flags;
  Words positional;
};

RawFlags raw_flags(const Words& words, std::size_t first) {
  RawFlags raw;
  for (std::size_t i = first; i < words.size() && raw.flags.size() < kFlagsMax;) {
    const std::string& word = words[i++];
    if (!is_flag(word)) {
      raw.positional.push_back(word);
      continue;
    }
    const auto equals = word.find('=');
    const std::string name(word.substr(
        word[1] == '-' ? 2 : 1,
        equals == std::string::npos ? std::string::npos : equals - (word[1] == '-' ? 2 : 1)));
    if (equals != std::string::npos) {
      raw.flags[name] = word.substr(equals + 1, kFlagBytesMax);
      continue;
    }
    std::string value;
    for (; i < words.size() && !is_flag(words[i]); ++i) {
      if (words[i] == "--" || value.size() > kFlagBytesMax) continue;
      if (!value.empty()) value += ' ';
      value += words[i].substr(0, kFlagBytesMax);
    }
    raw.flags[name] = value.empty() ? "true" : value;
  }
  return raw;
}

/// "64", and as vLLM takes them "8k" (thousands), "8K" (of 1,024), "25.6k".
std::optional<std::int64_t> human_whole(std::string_view text) {
  text = text.substr(0, text.find(' '));
  double factor = 1;
  constexpr std::string_view kUnits = "kmgt";
  if (!text.empty()) {
    const char unit = text.back();
    const char small = unit >= 'A' && unit <= 'Z' ? static_cast<char>(unit - 'A' + 'a') : unit;
    const auto power = kUnits.find(small);
    if (power != std::string_view::npos) {
      factor = std::pow(unit == small ? 1000.0 : 1024.0, static_cast<double>(power + 1));
      text.remove_suffix(1);
    }
  }
  const auto number = core::parse_double(text);
  if (!number) return {};
  const double value = *number * factor;
  if (!(value >= 1 && value <= 1e12) || std::floor(value) != value) return {};
  return static_cast<std::int64_t>(value);
}

/// Reads limits from flags that have their long names, else from the environment.
class LimitReader {
 public:
  LimitReader(EngineFlags& into, const Environment& environment, std::vector<std::string>& notes)
      : into_(into), environment_(environment), notes_(notes) {}

  std::optional<std::int64_t> whole(const std::string& flag, const std::string& variable = "") {
    const auto text = value(flag, variable);
    if (!text) return {};
    const auto number = human_whole(*text);
    // 0, -1 and auto leave it to the engine.
    if (!number && text->find_first_of("$`") != std::string::npos) {
      notes_.push_back(
          fmt::format("flag --{} is {}, which only its shell knows", flag, core::quoted(*text)));
    }
    return number;
  }

  std::optional<std::string> value(const std::string& flag, const std::string& variable) const {
    if (const auto found = into_.all.find(flag); found != into_.all.end()) return found->second;
    if (variable.empty()) return {};
    if (const auto found = environment_.find(variable); found != environment_.end()) {
      return found->second;
    }
    return {};
  }

  void names(const std::string& flag, const std::string& variable = "") {
    if (const auto text = value(flag, variable)) add_names(*text);
  }

  void add_names(const std::string& text) {
    for (const auto word : core::split(text, ' ')) {
      if (word.empty() || word == "true" || word.find_first_of("$`") != std::string_view::npos) {
        continue;
      }
      auto& all = into_.served_names;
      if (std::find(all.begin(), all.end(), word) == all.end() && all.size() < 100) {
        all.emplace_back(word);
      }
    }
  }

 private:
  EngineFlags& into_;
  const Environment& environment_;
  std::vector<std::string>& notes_;
};

/// vLLM names an adapter "name=path", or in JSON, which is left alone.
std::string adapter_names(const EngineFlags& engine) {
  std::string names;
  const auto found = engine.all.find("lora-modules");
  if (found == engine.all.end()) return names;
  for (const auto word : core::split(found->second, ' ')) {
    const auto equals = word.find('=');
    if (equals == std::string_view::npos || word[0] == '{') continue;
    names += fmt::format("{}{}", names.empty() ? "" : " ", word.substr(0, equals));
  }
  return names;
}

void read_limits(EngineFlags& engine, const Environment& environment, const Words& positional,
                 std::vector<std::string>& notes) {
  LimitReader reader(engine, environment, notes);
  const std::string first = positional.empty() ? "" : positional[0];
  engine.data_parallel = reader.whole("data-parallel-size");
  if (engine.engine == kSglang) {
    engine.max_num_seqs = reader.whole("max-running-requests");
    engine.max_batched_tokens = reader.whole("chunked-prefill-size");
    if (!engine.max_batched_tokens) engine.max_batched_tokens = reader.whole("max-prefill-tokens");
    engine.max_model_len = reader.whole("context-length");
    engine.kv_tokens = reader.whole("max-total-tokens");
    reader.names("served-model-name");
    reader.names("model-path");
  } else if (engine.engine == kLlamaCpp) {
    engine.max_num_seqs = reader.whole("parallel", "LLAMA_ARG_N_PARALLEL");
    engine.max_batched_tokens = reader.whole("batch-size", "LLAMA_ARG_BATCH");
    engine.kv_tokens = reader.whole("ctx-size", "LLAMA_ARG_CTX_SIZE");
    // The context is divided among the slots.
    if (engine.kv_tokens) {
      engine.max_model_len = *engine.kv_tokens / engine.max_num_seqs.value_or(1);
    }
    reader.names("alias", "LLAMA_ARG_ALIAS");
    reader.names("hf-repo", "LLAMA_ARG_HF_REPO");
    reader.names("model", "LLAMA_ARG_MODEL");
  } else if (engine.engine == kTrtLlm) {
    engine.max_num_seqs = reader.whole("max-batch-size");
    engine.max_batched_tokens = reader.whole("max-num-tokens");
    engine.max_model_len = reader.whole("max-seq-len");
    // `trtllm-serve MODEL` and `trtllm-serve serve MODEL`
    reader.add_names(first == "serve" && positional.size() > 1 ? positional[1] : first);
  } else {
    engine.max_num_seqs = reader.whole("max-num-seqs");
    engine.max_batched_tokens = reader.whole("max-num-batched-tokens");
    engine.max_model_len = reader.whole("max-model-len");
    reader.names("served-model-name");
    reader.names("model");
    reader.add_names(first);
    reader.add_names(adapter_names(engine));
  }
}

int default_port(std::string_view engine) {
  if (engine == kSglang) return 30000;
  if (engine == kLlamaCpp) return 8080;
  return 8000;
}

std::string_view engine_by_signs(const std::string& image, const RawFlags& raw) {
  const std::string name = lower(image);
  for (const auto& sign : kImageSigns) {
    if (name.find(sign.text) != std::string::npos) return sign.engine;
  }
  for (const auto& sign : kFlagSigns) {
    for (const auto& [flag, value] : raw.flags) {
      if (long_name("", flag) == sign.text) return sign.engine;
    }
  }
  return kUnknown;
}

/// The engines' own variables change how fast they are.
bool is_engine_variable(std::string_view name) {
  return name.starts_with("VLLM_") || name.starts_with("SGLANG_") || name.starts_with("SGL_") ||
         name.starts_with("LLAMA_ARG_") || name.starts_with("TRTLLM_") || name.starts_with("TLLM_");
}

}  // namespace

EngineFlags read_engine_flags(const std::string& image, const std::vector<Words>& commands,
                              const Environment& environment, std::vector<std::string>& notes) {
  EngineFlags engine;
  engine.image = image;
  RawFlags raw;
  std::optional<Launch> launch;
  for (const auto& words : commands) {
    launch = launch_in(words);
    if (!launch) continue;
    raw = raw_flags(words, launch->first);
    break;
  }
  if (!launch && !commands.empty()) raw = raw_flags(commands.back(), 0);
  engine.engine = std::string(launch ? launch->engine : engine_by_signs(image, raw));
  for (const auto& [written, value] : raw.flags) {
    auto name = long_name(engine.engine, written);
    if (!is_secret(name)) engine.all[std::move(name)] = value;
  }
  for (const auto& [name, value] : environment) {
    auto dashed = lower(name);
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    if (is_engine_variable(name) && !is_secret(dashed) && engine.all.size() < 2 * kFlagsMax) {
      engine.all[name] = value.substr(0, kFlagBytesMax);
    }
  }
  read_limits(engine, environment, raw.positional, notes);
  engine.port = default_port(engine.engine);
  LimitReader reader(engine, environment, notes);
  const auto port =
      reader.whole("port", engine.engine == kLlamaCpp ? "LLAMA_ARG_PORT" : std::string());
  if (port && *port <= 65535) engine.port = static_cast<int>(*port);
  return engine;
}

}  // namespace tailrace::kubernetes
