// What does a YAML text say, as a bounded tree with line numbers?
//
// Only what a configuration needs: mappings with plain keys, sequences and scalars as text. Anchors
// and aliases are refused (an alias can make a small file stand for a huge one), and so are deep
// nesting, very many nodes and several documents.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"

namespace tailrace::core {

struct YamlMember;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  int line = 0;  ///< from 1
  std::string text;
  std::vector<YamlNode> items;
  std::vector<YamlMember> members;  ///< keys are distinct
};

struct YamlMember {
  std::string key;
  YamlNode node;
};

/// Errors: kInvalidArgument, "12: what is wrong" with the line in front.
Result<YamlNode> parse_yaml(std::string_view text);

}  // namespace tailrace::core
