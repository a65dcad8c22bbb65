#include "tailrace/capacity/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "capacity/settings_schema.h"
#include "tailrace/core/settings.h"
#include "tailrace/core/settings_reference.h"
#include "tailrace/core/text.h"
#include "tailrace/core/yaml_tree.h"

namespace tailrace::capacity {
namespace {

constexpr const char* kDefaultEntry = "default";

const core::YamlNode* member(const core::YamlNode& node, std::string_view key) {
  for (const auto& [name, value] : node.members) {
    if (name == key) return &value;
  }
  return nullptr;
}

/// So that messages name the line of the file rather than of the entry's own document.
void move_lines(core::YamlNode& node, int by) {
  node.line += by;
  for (auto& item : node.items) move_lines(item, by);
  for (auto& [key, value] : node.members) move_lines(value, by);
}

/// What stands after "key:" in a text that is no YAML, for as much as can be seen.
std::string scavenge(std::string_view text, std::string_view key) {
  for (std::string_view line : core::split(text, '\n')) {
    line = core::trim(line);
    if (!line.starts_with(key)) continue;
    line = core::trim(line.substr(key.size()));
    if (!line.starts_with(':')) continue;
    line = core::trim(line.substr(1));
    if (line.empty()) continue;
    if (line[0] == '"' || line[0] == '\'') {
      const auto end = line.find(line[0], 1);
      if (end != std::string_view::npos) return std::string(line.substr(1, end - 1));
      continue;
    }
    return std::string(core::trim(line.substr(0, line.find(" #"))));
  }
  return "";
}

/// One entry's document, or why it is none.
struct Source {
  std::string name;
  Result<core::YamlNode> tree;
  std::string text;  ///< where the tree is none
};

Source source_of(const ConfigEntry& entry) {
  if (entry.tree) return {entry.name, *entry.tree, ""};
  Source source{entry.name, core::parse_yaml(entry.yaml), entry.yaml};
  if (source.tree && entry.line > 0) move_lines(*source.tree, entry.line - 1);
  return source;
}

/// One entry as read, right or wrong.
struct Draft {
  ModelSettings settings;
  std::string model, ns;
  std::optional<std::string> wrong;
};

bool has_value(const core::YamlNode& node) {
  using Kind = core::YamlNode::Kind;
  return node.kind == Kind::kScalar ? !node.text.empty() : node.kind != Kind::kNull;
}

/// Takes out what only `default` may say.
void refuse_fleet_keys(core::YamlNode& entry, const std::string& name, core::Problems& problems) {
  std::erase_if(entry.members, [&](const auto& member) {
    if (!is_fleet_key(member.key)) return false;
    const std::string path = name + "." + member.key;
    problems.remember_line(path, member.node.line);
    problems.add(path, "holds for all models together; move it to the entry `default`");
    return true;
  });
}

/// Reads one entry over `defaults`; `fleet` is null unless it is `default`.
Draft read_entry(const Source& source, FleetSettings* fleet, const ModelSettings& defaults,
                 std::string_view origin) {
  Draft draft;
  draft.settings = defaults;
  if (!source.tree) {
    draft.model = scavenge(source.text, "model_id");
    draft.ns = scavenge(source.text, "namespace");
    draft.wrong = fmt::format("{}: entry {}, line {}", origin, core::quoted(source.name),
                              source.tree.error().message);
    return draft;
  }
  // An entry whose every line is a comment says nothing, which is allowed.
  core::YamlNode nothing;
  nothing.kind = core::YamlNode::Kind::kMap;
  const bool empty = source.tree->kind == core::YamlNode::Kind::kNull;
  core::YamlNode tree = empty ? nothing : *source.tree;
  core::Problems problems(origin);
  problems.remember_line(source.name, source.tree->line);
  if (fleet == nullptr) refuse_fleet_keys(tree, source.name, problems);
  core::SettingsReader reader(problems);
  SettingsDraft fields{.settings = draft.settings,
                       .model = draft.model,
                       .ns = draft.ns,
                       .fleet = fleet,
                       .names_model = fleet == nullptr,
                       .ttft_ms = {},
                       .itl_ms = {},
                       .gpus = {},
                       .quotas = {},
                       .given = {}};
  for (const auto& [key, value] : tree.members) {
    if (has_value(value)) fields.given.insert(key);
  }
  reader.read(tree, source.name, [&] { visit_settings(reader, fields); });
  check_settings(fields, source.name, problems);
  if (!problems.none()) draft.wrong = problems.error().message;
  return draft;
}

}  // namespace

bool ModelSettings::explicit_slo() const {
  return (targets.ttft_ms > 0 && targets.itl_ms > 0) || targets.e2e_ms > 0;
}

void VariantSettings::apply_to(Variant& variant) const {
  const auto set = [](auto& into, const auto& value) {
    if (value) into = static_cast<std::decay_t<decltype(into)>>(*value);
  };
  set(variant.cost, cost);
  set(variant.gpus_per_replica, gpus);
  set(variant.min, min);
  if (max) variant.max = max;
  set(variant.limits.max_num_seqs, max_batch);
  set(variant.limits.max_batched_tokens, max_batched_tokens);
  set(variant.limits.kv_tokens, kv_tokens);
  set(variant.limits.max_queue, max_queue);
  set(variant.knee_tokens, knee_tokens);
  set(variant.accelerator, accelerator);
  set(variant.fingerprint, fingerprint);
  set(variant.role, role);
}

std::string config_reference() {
  ModelSettings settings;
  FleetSettings fleet;
  std::string model, ns;
  SettingsDraft fields{.settings = settings,
                       .model = model,
                       .ns = ns,
                       .fleet = &fleet,
                       .names_model = true,
                       .ttft_ms = {},
                       .itl_ms = {},
                       .gpus = {},
                       .quotas = {},
                       .given = {}};
  core::SettingsReference writer(true);
  visit_settings(writer, fields);
  return writer.text();
}

Config Config::with_defaults() {
  Config config;
  config.active_ = true;
  return config;
}

Config Config::inactive(std::string reason) {
  Config config;
  config.why_inactive_ = std::move(reason);
  return config;
}

/// Fills a Config from its entries.
class ConfigReader {
 public:
  ConfigReader(Config& config, std::string_view origin) : config_(config), origin_(origin) {}

  void read(std::span<const Source> sources) {
    // The others are read over `default`, wherever it stands.
    for (const auto& source : sources) {
      if (source.name == kDefaultEntry) read_default(source);
    }
    for (const auto& source : sources) {
      if (source.name != kDefaultEntry) read_model(source);
    }
  }

 private:
  void read_default(const Source& source) {
    if (config_.active_) {
      config_.default_is_wrong_ = "the entry `default` stands twice";
      config_.problems_.push_back({source.name, "the entry stands twice; keep one", true});
      return;
    }
    config_.active_ = true;
    FleetSettings fleet;
    auto draft = read_entry(source, &fleet, ModelSettings{}, origin_);
    if (draft.wrong) {
      config_.problems_.push_back({source.name, *draft.wrong});
      config_.default_is_wrong_ =
          "the entry `default`, which every model builds on, is wrong: " + *draft.wrong;
      return;
    }
    config_.defaults_ = std::move(draft.settings);
    config_.fleet_ = std::move(fleet);
  }

  void read_model(const Source& source) {
    auto draft = read_entry(source, nullptr, config_.defaults_, origin_);
    const ModelKey key{draft.ns, draft.model};
    const bool names_one = !key.ns.empty() && !key.model.empty();
    if (names_one) config_.named_.insert(key);
    if (draft.wrong) {
      config_.problems_.push_back({source.name, *draft.wrong});
      hold(key, fmt::format("its entry {} is wrong: {}", core::quoted(source.name), *draft.wrong));
      return;
    }
    if (!names_one) {
      config_.notes_.push_back(
          fmt::format("entry {} names no model, so it does nothing; give it model_id and namespace",
                      core::quoted(source.name)));
      return;
    }
    const auto [owner, first] = owner_.emplace(key, source.name);
    if (first) {
      config_.models_.emplace(key, std::move(draft.settings));
      return;
    }
    const auto what = fmt::format(
        "entries {} and {} both name model {} in namespace {}; keep one (which of them holds would "
        "be chance)",
        core::quoted(owner->second), core::quoted(source.name), core::quoted(key.model),
        core::quoted(key.ns));
    config_.problems_.push_back({source.name, what, true});
    config_.held_[key] = what;
  }

  /// Half a name still says whom the entry may have meant.
  void hold(const ModelKey& key, const std::string& reason) {
    if (!key.ns.empty() && !key.model.empty()) {
      config_.held_.emplace(key, reason);
    } else if (!key.model.empty()) {
      config_.held_models_.emplace(key.model, reason);
    } else if (!key.ns.empty()) {
      config_.held_namespaces_.emplace(key.ns, reason);
    }
  }

  Config& config_;
  std::string_view origin_;
  std::map<ModelKey, std::string> owner_;  ///< which entry names a model
};

Config Config::of_entries(std::span<const ConfigEntry> entries, std::string_view origin) {
  std::vector<Source> sources;
  sources.reserve(entries.size());
  for (const auto& entry : entries) sources.push_back(source_of(entry));
  Config config;
  ConfigReader(config, origin).read(sources);
  return config;
}

Result<std::vector<ConfigEntry>> read_entries(std::string_view text, std::string_view origin) {
  const auto bad = [&](std::string_view what) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", origin, what));
  };
  const auto file = core::parse_yaml(text);
  std::vector<ConfigEntry> entries;
  if (!file) return bad("line " + file.error().message);
  if (file->kind == core::YamlNode::Kind::kNull) return entries;
  if (file->kind != core::YamlNode::Kind::kMap) {
    return bad("must be a ConfigMap, or a mapping with an entry `default`");
  }
  const core::YamlNode* map = &*file;
  const core::YamlNode* kind = member(*file, "kind");
  if (kind != nullptr && kind->kind == core::YamlNode::Kind::kScalar) {
    if (kind->text != "ConfigMap") {
      return bad(fmt::format("line {}: kind {}; only a ConfigMap is read", kind->line,
                             core::quoted(kind->text)));
    }
    map = member(*file, "data");
    if (map == nullptr || map->kind == core::YamlNode::Kind::kNull) return entries;
    if (map->kind != core::YamlNode::Kind::kMap) {
      return bad(fmt::format("line {}: data must be a mapping of entries", map->line));
    }
  }
  for (const auto& [name, node] : map->members) {
    if (node.kind != core::YamlNode::Kind::kScalar) {
      entries.push_back({name, "", node.line, node});
      continue;
    }
    // A block begins on the line after its indicator.
    const bool block = node.text.find('\n') != std::string::npos;
    entries.push_back({name, node.text, node.line + (block ? 1 : 0)});
  }
  return entries;
}

Result<Config> Config::parse(std::string_view text, std::string_view origin) {
  const auto entries = read_entries(text, origin);
  if (!entries) return fail(entries.error());
  if (const auto foreign = foreign_entries(*entries)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", origin, *foreign));
  }
  return of_entries(*entries, origin);
}

void Config::change_all(const std::function<void(ModelSettings&)>& change) {
  change(defaults_);
  for (auto& [key, settings] : models_) change(settings);
}

Result<ModelSettings> Config::settings_of(const ModelKey& key) const {
  if (!active_) {
    if (!why_inactive_.empty()) return fail(ErrorCode::kUnavailable, "inactive: " + why_inactive_);
    return fail(ErrorCode::kUnavailable,
                "inactive: the configuration has no `default` entry; add one (`default: {}` will "
                "do) to activate the analyzer");
  }
  if (default_is_wrong_) return fail(ErrorCode::kUnavailable, *default_is_wrong_);
  if (const auto held = held_.find(key); held != held_.end()) {
    return fail(ErrorCode::kUnavailable, held->second);
  }
  if (const auto own = models_.find(key); own != models_.end()) return own->second;
  if (const auto held = held_models_.find(key.model); held != held_models_.end()) {
    return fail(ErrorCode::kUnavailable, held->second);
  }
  if (const auto held = held_namespaces_.find(key.ns); held != held_namespaces_.end()) {
    return fail(ErrorCode::kUnavailable, held->second);
  }
  return defaults_;
}

}  // namespace tailrace::capacity
