// What may a dimension, an arm or a tenant be called?
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "tailrace/core/yaml_tree.h"

namespace tailrace::simulate {

/// What is wrong with a name that tables, CSV and JSON show; empty if nothing is.
std::string_view name_fault(std::string_view name);

/// Has the request CSV a column of this name, whatever the experiment?
bool is_column(std::string_view name);

/// The dotted keys that putting `node` at `key` sets.
void leaves(const std::string& key, const core::YamlNode& node, std::set<std::string>& into);

}  // namespace tailrace::simulate
