#include "tailrace/core/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "tailrace/core/printable.h"
#include "tailrace/core/text.h"
#include "tailrace/core/words.h"

namespace tailrace::core {
namespace {

constexpr std::size_t kProblemsMax = 50;
constexpr std::size_t kEntriesMax = 10'000;

/// A type as messages have it: the tables of the docs need a backslash before "|".
std::string plain(std::string text) {
  for (std::size_t at; (at = text.find("\\|")) != std::string::npos;) text.erase(at, 1);
  return text;
}

std::string missing(const Field& field) {
  return fmt::format("is missing; add \"{}:\" with a {}", field.name, plain(field.type));
}

}  // namespace

void Problems::add(const std::string& path, std::string_view what) {
  const auto line = lines_.find(path);
  const std::string place = line == lines_.end() ? "" : fmt::format("{}:", line->second);
  // Names of files and of keys are from outside.
  add_raw(printable(fmt::format("{}:{} {}: {}", origin_, place, path, what)));
}

void Problems::add_raw(std::string text) {
  ++count_;
  if (texts_.size() < kProblemsMax) texts_.push_back(std::move(text));
}

bool Problems::full() const {
  return texts_.size() >= kProblemsMax;
}

Error Problems::error() const {
  std::string message = join_words(texts_, "\n");
  if (count_ > texts_.size()) message += fmt::format("\n… and {} more", count_ - texts_.size());
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

void SettingsReader::read(const YamlNode& node, const std::string& path,
                          const std::function<void()>& body) {
  if (node.kind != YamlNode::Kind::kMap) {
    problems_.add(path.empty() ? "the file" : path, "must be a mapping of keys to values");
    return;
  }
  levels_.push_back({&node, path, {}});
  body();
  report_unknown_keys(levels_.back());
  levels_.pop_back();
}

void SettingsReader::field(Field field) {
  const std::string path = path_of(field.name);
  const YamlNode* node = take(field.name);
  if (node == nullptr) {
    if (field.required) problems_.add(path_or_parent(path), missing(field));
    return;
  }
  problems_.remember_line(path, node->line);
  if (node->kind == YamlNode::Kind::kNull) {
    problems_.add(path,
                  fmt::format("has no value; give a {} or leave the key out", plain(field.type)));
  } else if (field.is_list) {
    read_list(field, *node, path);
  } else if (node->kind != YamlNode::Kind::kScalar) {
    problems_.add(path, fmt::format("must be a single value: {}", plain(field.type)));
  } else {
    assign(field, node->text, path);
  }
}

void SettingsReader::section(std::string_view name, std::string_view,
                             const std::function<void()>& body) {
  const YamlNode* node = take(std::string(name));
  if (node == nullptr) return;
  const std::string path = path_of(name);
  problems_.remember_line(path, node->line);
  if (node->kind == YamlNode::Kind::kNull) return;  // every key under it is commented out
  read(*node, path, body);
}

void SettingsReader::list(std::string_view name, std::string_view,
                          const std::function<void()>& element) {
  const std::string path = path_of(name);
  const YamlNode* node = take(std::string(name));
  if (node == nullptr) {
    problems_.add(path, "is missing; list its entries, or write []");
    return;
  }
  problems_.remember_line(path, node->line);
  if (node->kind != YamlNode::Kind::kList) {
    problems_.add(path, "must be a list: lines that begin with \"- \", or []");
    return;
  }
  if (node->items.size() > kEntriesMax) {
    problems_.add(path, fmt::format("has more than {} entries", kEntriesMax));
    return;
  }
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    const std::string item_path = fmt::format("{}[{}]", path, i);
    problems_.remember_line(item_path, node->items[i].line);
    read(node->items[i], item_path, element);
  }
}

void SettingsReader::map(std::string_view name, std::string_view,
                         const std::function<void(const std::string&)>& element) {
  const std::string path = path_of(name);
  const YamlNode* node = take(std::string(name));
  if (node == nullptr) return;
  problems_.remember_line(path, node->line);
  if (node->kind == YamlNode::Kind::kNull) return;
  if (node->kind != YamlNode::Kind::kMap) {
    problems_.add(path, "must be a mapping from names to keys");
    return;
  }
  for (const auto& [key, member] : node->members) {
    const std::string member_path = fmt::format("{}.{}", path, key);
    problems_.remember_line(member_path, member.line);
    read(member, member_path, [&] { element(key); });
  }
}

std::string SettingsReader::path_of(std::string_view name) const {
  const std::string& parent = levels_.back().path;
  return parent.empty() ? std::string(name) : fmt::format("{}.{}", parent, name);
}
/// A missing key has no line; its mapping has.
std::string SettingsReader::path_or_parent(const std::string& path) {
  problems_.remember_line(path, levels_.back().node->line);
  return path;
}

const YamlNode* SettingsReader::take(const std::string& name) {
  Level& level = levels_.back();
  level.known.push_back(name);
  for (const auto& [key, member] : level.node->members) {
    if (key == name) return &member;
  }
  return nullptr;
}

void SettingsReader::assign(const Field& field, std::string_view text, const std::string& path) {
  if (auto set = field.assign(text); !set) {
    problems_.add(path, fmt::format("{} {}", shown(field, text), set.error().message));
  }
}

void SettingsReader::read_list(const Field& field, const YamlNode& node, const std::string& path) {
  field.clear();
  if (node.kind == YamlNode::Kind::kScalar) return assign(field, node.text, path);  // a list of one
  if (node.kind != YamlNode::Kind::kList) {
    problems_.add(path, fmt::format("must be a {}, such as [a, b]", plain(field.type)));
    return;
  }
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::string item_path = fmt::format("{}[{}]", path, i);
    problems_.remember_line(item_path, node.items[i].line);
    if (node.items[i].kind == YamlNode::Kind::kScalar) {
      assign(field, node.items[i].text, item_path);
    } else {
      problems_.add(item_path, "must be a single text");
    }
  }
  if (node.items.empty()) {
    problems_.add(path, field.required ? "is empty; name at least one"
                                       : "is empty; name at least one, or leave the key out");
  }
}

void SettingsReader::report_unknown_keys(const Level& level) {
  for (const auto& [key, member] : level.node->members) {
    if (std::find(level.known.begin(), level.known.end(), key) != level.known.end()) continue;
    if (problems_.full()) {
      problems_.add_raw({});  // only counted
      continue;
    }
    const auto nearest =
        std::min_element(level.known.begin(), level.known.end(), [&](const auto& a, const auto& b) {
          return edit_distance(key.substr(0, 64), a) < edit_distance(key.substr(0, 64), b);
        });
    const bool near =
        edit_distance(key.substr(0, 64), *nearest) <= std::max<std::size_t>(2, key.size() / 3);
    const std::string shown = quoted(key);
    const std::string path =
        level.path.empty() ? key.substr(0, 64) : level.path + "." + key.substr(0, 64);
    problems_.remember_line(path, member.line);
    problems_.add(path, near ? fmt::format("unknown key {}; did you mean \"{}\"?", shown, *nearest)
                             : fmt::format("unknown key {}; known here: {}", shown,
                                           join_words(level.known, ", ")));
  }
}

}  // namespace tailrace::core
