#include "simulate/experiment_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tailrace::simulate {
namespace {

using core::YamlNode;
using Kind = YamlNode::Kind;

constexpr int kDottedKeyMax = 8;

void put_at(YamlNode& root, std::string_view dotted, const YamlNode& value, int depth) {
  if (root.kind != Kind::kMap) {
    root = YamlNode{};
    root.kind = Kind::kMap;
    root.line = value.line;
  }
  const std::size_t dot = depth < kDottedKeyMax ? dotted.find('.') : std::string_view::npos;
  const std::string key(dotted.substr(0, dot));
  YamlNode* node = member(root, key);
  if (node == nullptr) {
    root.members.push_back({key, {}});
    node = &root.members.back().node;
    node->line = value.line;
  }
  if (dot != std::string_view::npos) {
    put_at(*node, dotted.substr(dot + 1), value, depth + 1);
  } else if (value.kind == Kind::kMap && node->kind == Kind::kMap) {
    for (const auto& [name, below] : value.members) put_at(*node, name, below, depth + 1);
  } else if (value.kind == Kind::kMap) {
    // Its keys may be dotted too.
    *node = YamlNode{};
    node->kind = Kind::kMap;
    node->line = value.line;
    for (const auto& [name, below] : value.members) put_at(*node, name, below, depth + 1);
  } else {
    *node = value;
  }
}

/// Adds what is not there yet; false if something else is.
bool join(YamlNode& root, std::string_view dotted, const YamlNode& value, int depth) {
  const std::size_t dot = depth < kDottedKeyMax ? dotted.find('.') : std::string_view::npos;
  const std::string key(dotted.substr(0, dot));
  YamlNode* node = member(root, key);
  if (node == nullptr) {
    root.members.push_back({key, {}});
    node = &root.members.back().node;
    node->kind = Kind::kMap;
    node->line = value.line;
    if (dot == std::string_view::npos) {
      *node = value;
      return true;
    }
  }
  if (node->kind == Kind::kNull) node->kind = Kind::kMap;
  if (node->kind != Kind::kMap) return false;
  if (dot != std::string_view::npos) return join(*node, dotted.substr(dot + 1), value, depth + 1);
  if (value.kind == Kind::kNull) return true;
  if (value.kind != Kind::kMap) return false;
  for (const auto& [name, below] : value.members) {
    // A name may hold dots of its own: what they stand for is taken apart already.
    if (!join(*node, name, below, kDottedKeyMax)) return false;
  }
  return true;
}

}  // namespace

bool expand_dotted(YamlNode& map, std::string& twice) {
  YamlNode expanded = map;
  expanded.members.clear();
  for (auto& [key, node] : map.members) {
    const std::string_view last = std::string_view(key).substr(key.rfind('.') + 1);
    const bool free_names = last == "classes" || last == "arms" || last == "grid";
    if (node.kind == Kind::kMap && !free_names && !expand_dotted(node, twice)) return false;
    if (!join(expanded, key, node, 0)) {
      twice = key;
      return false;
    }
  }
  map = std::move(expanded);
  return true;
}

const YamlNode* member(const YamlNode& map, std::string_view key) {
  for (const auto& [name, node] : map.members) {
    if (name == key) return &node;
  }
  return nullptr;
}

YamlNode* member(YamlNode& map, std::string_view key) {
  return const_cast<YamlNode*>(member(std::as_const(map), key));
}

void put(YamlNode& root, std::string_view dotted, const YamlNode& value) {
  put_at(root, dotted, value, 0);
}

YamlNode take(YamlNode& map, std::string_view key) {
  for (auto it = map.members.begin(); it != map.members.end(); ++it) {
    if (it->key != key) continue;
    YamlNode node = std::move(it->node);
    map.members.erase(it);
    return node;
  }
  return {};
}

std::string canonical(const YamlNode& node) {
  switch (node.kind) {
    case Kind::kNull:
      return "~";
    case Kind::kScalar:
      return fmt::format("{}:{}", node.text.size(), node.text);
    case Kind::kList: {
      std::string text = "[";
      for (const YamlNode& item : node.items) text += canonical(item) + ",";
      return text + "]";
    }
    case Kind::kMap: {
      std::vector<std::string> members;
      for (const auto& [key, below] : node.members) {
        members.push_back(fmt::format("{}:{}={}", key.size(), key, canonical(below)));
      }
      std::sort(members.begin(), members.end());
      return fmt::format("{{{}}}", fmt::join(members, ","));
    }
  }
  return "";
}

}  // namespace tailrace::simulate
