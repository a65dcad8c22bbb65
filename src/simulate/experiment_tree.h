// How do dotted keys reach into a YAML tree?
#pragma once

#include <string>
#include <string_view>

#include "tailrace/core/yaml_tree.h"

namespace tailrace::simulate {

/// The member of a mapping, or null.
const core::YamlNode* member(const core::YamlNode& map, std::string_view key);
core::YamlNode* member(core::YamlNode& map, std::string_view key);

/// Puts `value` at a dotted key below `root`, making mappings on the way; a mapping is merged into
/// one that is there, key by key. What stands in the way (a single value where a mapping must be)
/// is replaced. A key of more than kDottedKeyMax parts reaches no deeper.
void put(core::YamlNode& root, std::string_view dotted, const core::YamlNode& value);

/// Makes nested mappings of dotted keys, but for names that are free (classes, arms, grid). False
/// where a key is given both ways: `twice` names it.
bool expand_dotted(core::YamlNode& map, std::string& twice);

/// Takes a member out of a mapping; an empty node where there is none.
core::YamlNode take(core::YamlNode& map, std::string_view key);

/// A text that is equal for equal trees, whatever their lines and the order of their keys.
std::string canonical(const core::YamlNode& node);

}  // namespace tailrace::simulate
