#include "tailrace/engine/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include "tailrace/core/printable.h"
#include "tailrace/core/text.h"
#include "tailrace/core/words.h"
#include "tailrace/core/yaml_tree.h"
#include "tailrace/engine/presets.h"

namespace tailrace::engine {
namespace {

using core::YamlNode;

constexpr std::size_t kFileBytesMax = 1024 * 1024;

class ProfileReader {
 public:
  ProfileReader(const YamlNode& root, std::string_view origin) : root_(root), origin_(origin) {}

  Result<Profile> read() {
    if (root_.kind != YamlNode::Kind::kMap) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}:{}: an engine's profile must be a mapping of keys to values, "
                              "such as \"alpha_ms: 6\"",
                              origin_, std::max(root_.line, 1)));
    }
    for (const auto& step :
         {&ProfileReader::check_keys, &ProfileReader::read_base, &ProfileReader::read_fields,
          &ProfileReader::read_measured, &ProfileReader::read_memory}) {
      if (auto ok = (this->*step)(); !ok) return fail(ok.error());
    }
    return std::move(profile_);
  }

 private:
  using Place = std::variant<double*, std::int64_t*, bool*>;
  struct Field {
    std::string_view key;
    Place place;
  };

  std::vector<Field> fields() {
    EngineConfig& c = profile_.config;
    return {{"alpha_ms", &c.cost.alpha_ms},
            {"beta_ms", &c.cost.beta_ms},
            {"gamma_ms", &c.cost.gamma_ms},
            {"knee_tokens", &c.cost.knee_tokens},
            {"per_request_ms", &c.cost.per_request_ms},
            {"cpu_ms", &c.cost.cpu_ms},
            {"cpu_per_request_ms", &c.cost.cpu_per_request_ms},
            {"async_scheduling", &c.cost.async_scheduling},
            {"max_num_seqs", &c.max_num_seqs},
            {"max_batched_tokens", &c.max_batched_tokens},
            {"max_model_len", &c.max_model_len},
            {"block_tokens", &c.block_tokens},
            {"kv_blocks", &c.kv_blocks},
            {"long_prefill_tokens", &c.long_prefill_tokens},
            {"chunked_prefill", &c.chunked_prefill},
            {"prefix_caching", &c.prefix_caching},
            {"reserve_full_sequence", &c.reserve_full_sequence},
            {"watermark_blocks", &c.watermark_blocks}};
  }

  tl::unexpected<Error> bad(std::string_view key, const YamlNode& node,
                            std::string_view what) const {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}:{}: {}: {}", origin_, node.line, key, what));
  }

  const YamlNode* find(std::string_view key) const {
    const auto found = std::find_if(root_.members.begin(), root_.members.end(),
                                    [key](const auto& member) { return member.key == key; });
    return found == root_.members.end() ? nullptr : &found->node;
  }

  Result<void> check_keys() {
    std::vector<std::string_view> known{"preset", "name", "kv_tokens", "watermark", "measured_ms"};
    for (const Field& field : fields()) known.push_back(field.key);
    for (const auto& [key, node] : root_.members) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const auto nearest = core::nearest_word(key, known);
      std::string remedy = nearest ? fmt::format("did you mean \"{}\"?", *nearest)
                                   : fmt::format("known keys: {}", fmt::join(known, ", "));
      return fail(ErrorCode::kInvalidArgument, fmt::format("{}:{}: unknown key {}; {}", origin_,
                                                           node.line, core::quoted(key), remedy));
    }
    return {};
  }

  Result<std::string_view> scalar(std::string_view key, const YamlNode& node,
                                  std::string_view remedy) const {
    if (node.kind == YamlNode::Kind::kScalar) return node.text;
    return bad(key, node, fmt::format("must be {}; give one value or leave the key out", remedy));
  }

  Result<void> read_base() {
    std::string name(presets().front().name);
    if (const YamlNode* node = find("preset")) {
      const auto text = scalar("preset", *node, "the name of a preset");
      if (!text) return fail(text.error());
      auto preset = find_preset(*text);
      if (!preset) return bad("preset", *node, preset.error().message);
      name = *text;
    }
    profile_.config = find_preset(name)->config;
    base_kv_tokens_ = profile_.config.usable_blocks() * profile_.config.block_tokens;
    profile_.name = name;
    if (const YamlNode* node = find("name")) {
      const auto text = scalar("name", *node, "a name");
      if (!text) return fail(text.error());
      profile_.name = *text;
    }
    return {};
  }

  Result<void> read_fields() {
    for (const Field& field : fields()) {
      const YamlNode* node = find(field.key);
      if (node == nullptr) continue;
      auto read =
          std::visit([&](auto* into) { return read_into(field.key, *node, *into); }, field.place);
      if (!read) return read;
      // The configuration was sound before this field.
      if (auto sound = profile_.config.check(); !sound) {
        return bad(field.key, *node, sound.error().message);
      }
    }
    return {};
  }

  Result<void> read_into(std::string_view key, const YamlNode& node, double& into) const {
    const auto text = scalar(key, node, "a number");
    if (!text) return fail(text.error());
    const auto value = core::parse_double(*text);
    if (!value || !std::isfinite(*value)) {
      return bad(key, node,
                 fmt::format("{} is not a number; give one such as {}", core::quoted(*text), into));
    }
    into = *value;
    return {};
  }
  Result<void> read_into(std::string_view key, const YamlNode& node, std::int64_t& into) const {
    const auto text = scalar(key, node, "a whole number");
    if (!text) return fail(text.error());
    const auto value = core::parse_int(*text);
    if (!value) {
      return bad(
          key, node,
          fmt::format("{} is not a whole number; give one such as {}", core::quoted(*text), into));
    }
    into = *value;
    return {};
  }
  Result<void> read_into(std::string_view key, const YamlNode& node, bool& into) const {
    const auto text = scalar(key, node, "true or false");
    if (!text) return fail(text.error());
    if (*text != "true" && *text != "false") {
      return bad(key, node, fmt::format("{} is neither true nor false", core::quoted(*text)));
    }
    into = *text == "true";
    return {};
  }

  Result<void> read_measured() {
    const YamlNode* node = find("measured_ms");
    if (node == nullptr) return {};
    for (const std::string_view key : {"alpha_ms", "beta_ms", "knee_tokens"}) {
      if (find(key) == nullptr) continue;
      return bad("measured_ms", *node,
                 fmt::format("stands beside {}, which is fitted to it; keep one of them", key));
    }
    if (node->kind != YamlNode::Kind::kMap) {
      return bad("measured_ms", *node,
                 "must be a mapping from tokens to milliseconds, such as {1: 9.8, 512: 35.5}");
    }
    std::vector<IterationSample> samples;
    for (const auto& [tokens, ms] : node->members) {
      const std::string key = fmt::format("measured_ms.{}", core::valid_utf8(tokens.substr(0, 64)));
      const auto count = core::parse_double(tokens);
      if (!count) return bad("measured_ms", ms, core::quoted(tokens) + " is no number of tokens");
      samples.push_back({*count, 1.0});
      if (auto read = read_into(key, ms, samples.back().ms); !read) return read;
    }
    const auto fit = fit_iteration_times(samples);
    if (!fit) return bad("measured_ms", *node, fit.error().message);
    profile_.config.cost.alpha_ms = fit->alpha_ms;
    profile_.config.cost.beta_ms = fit->beta_ms;
    profile_.config.cost.knee_tokens = fit->knee_tokens;
    profile_.fit = *fit;
    return {};
  }

  /// kv_tokens and the watermark's share, which depend on other keys wherever they stand.
  Result<void> read_memory() {
    EngineConfig& config = profile_.config;
    if (const YamlNode* node = find("kv_tokens")) {
      if (find("kv_blocks") != nullptr) {
        return bad("kv_tokens", *node, "stands beside kv_blocks; keep one of them");
      }
      std::int64_t tokens = config.usable_blocks() * config.block_tokens;
      if (auto read = read_into("kv_tokens", *node, tokens); !read) return read;
      constexpr std::int64_t kMost = 1'000'000'000'000;
      if (tokens < 1 || tokens > kMost) {
        return bad("kv_tokens", *node, fmt::format("{} must be from 1 to {}", tokens, kMost));
      }
      config.kv_blocks = EngineConfig::blocks_for(tokens, config.block_tokens);
    } else if (find("kv_blocks") == nullptr) {
      config.kv_blocks = EngineConfig::blocks_for(base_kv_tokens_, config.block_tokens);
    }
    if (const YamlNode* node = find("watermark")) {
      if (find("watermark_blocks") != nullptr) {
        return bad("watermark", *node, "stands beside watermark_blocks; keep one of them");
      }
      double share = 0;
      if (auto read = read_into("watermark", *node, share); !read) return read;
      if (share < 0 || share >= 1) {
        return bad("watermark", *node,
                   fmt::format("{} must be a share of the blocks, at least 0 and below 1", share));
      }
      config.watermark_blocks =
          static_cast<std::int64_t>(share * static_cast<double>(config.usable_blocks()));
    }
    return {};
  }

  const YamlNode& root_;
  std::string origin_;
  Profile profile_;
  std::int64_t base_kv_tokens_ = 0;  ///< other blocks do not change how much memory there is
};

bool names_a_file(std::string_view word) {
  return word.find('/') != std::string_view::npos || word.ends_with(".yaml") ||
         word.ends_with(".yml") || word.ends_with(".json");
}

}  // namespace

Result<Profile> parse_profile(std::string_view yaml, std::string_view origin) {
  const auto tree = core::parse_yaml(yaml);
  if (!tree) {
    return fail(tree.error().code, fmt::format("{}:{}", origin, tree.error().message));
  }
  return ProfileReader(*tree, origin).read();
}

Result<Profile> read_profile(const std::string& path) {
  const auto text = core::read_regular_file(path, kFileBytesMax);
  if (!text) return fail(text.error());
  return parse_profile(*text, core::printable(path));
}

Result<Profile> find_profile(const std::string& name_or_file) {
  if (names_a_file(name_or_file)) return read_profile(name_or_file);
  const auto preset = find_preset(name_or_file);
  if (!preset) {
    return fail(preset.error().code,
                preset.error().message + ", or a profile's file that ends in .yaml");
  }
  return Profile{std::string(preset->name), preset->config, std::nullopt};
}

}  // namespace tailrace::engine
