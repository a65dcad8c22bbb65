// What varies from cell to cell of an experiment, as its file says it?
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tailrace/core/settings.h"
#include "tailrace/core/yaml_tree.h"

namespace tailrace::simulate {

/// A dimension as the file has it: what each label changes.
struct Axis {
  std::string name;
  struct Value {
    std::string label;
    std::vector<std::pair<std::string, core::YamlNode>> changes;
  };
  std::vector<Value> values;
};

/// The dimensions of the sections `grid` and `arms`, either of which may be null. What is wrong
/// with them goes to `problems`.
std::vector<Axis> read_grid(const core::YamlNode& grid, const core::YamlNode& arms,
                            core::Problems& problems);

}  // namespace tailrace::simulate
