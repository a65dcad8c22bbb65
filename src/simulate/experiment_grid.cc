#include "simulate/experiment_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "simulate/experiment_names.h"
#include "simulate/experiment_schema.h"
#include "simulate/experiment_tree.h"
#include "tailrace/core/text.h"

namespace tailrace::simulate {
namespace {

using core::Problems;
using core::YamlNode;
using Kind = YamlNode::Kind;

constexpr std::size_t kDimensionsMax = 8;
constexpr std::size_t kLabelsMax = 500;
constexpr std::size_t kLabelBytesMax = 64;
/// What cannot vary from cell to cell.
constexpr std::array<std::string_view, 8> kShared = {"name",     "seeds", "warm_up", "compare",
                                                     "baseline", "slo",   "arms",    "grid"};

std::string label_of(const YamlNode& node) {
  if (node.kind == Kind::kList) {
    std::vector<std::string> items;
    for (const YamlNode& item : node.items) items.push_back(label_of(item));
    return core::join_words(items, "+");
  }
  return std::string(core::utf8_prefix(node.text, kLabelBytesMax));
}

class GridReader {
 public:
  explicit GridReader(Problems& problems) : problems_(problems) {}

  std::vector<Axis> axes;

  void read(const YamlNode& grid, const YamlNode& arms) {
    if (present(grid, "grid")) {
      for (const auto& [key, node] : grid.members) add_key(key, node);
    }
    if (present(arms, "arms")) add_arms("arm", "arms", arms);
  }

 private:
  bool present(const YamlNode& node, const std::string& path) {
    if (node.kind == Kind::kNull) return false;
    if (node.kind == Kind::kMap) return true;
    problems_.remember_line(path, node.line);
    problems_.add(path, "must be a mapping, such as " +
                            std::string(path == "grid" ? "{workload.load: [0.5, 1.5]}"
                                                       : "{NAME: {policy.name: tie}}"));
    return false;
  }

  void add_key(const std::string& key, const YamlNode& node) {
    const std::string path = "grid." + key;
    problems_.remember_line(path, node.line);
    if (node.kind == Kind::kMap) return add_arms(key, path, node);
    if (node.kind != Kind::kList || node.items.empty()) {
      problems_.add(path, "must be a list of values, such as [0.5, 1, 1.5], or named settings");
      return;
    }
    Axis axis{key, {}};
    for (const YamlNode& item : node.items) axis.values.push_back({label_of(item), {{key, item}}});
    add(std::move(axis), path);
  }

  void add_arms(const std::string& name, const std::string& path, const YamlNode& node) {
    Axis axis{name, {}};
    for (const auto& [label, settings] : node.members) {
      const std::string at = fmt::format("{}.{}", path, label);
      problems_.remember_line(at, settings.line);
      if (settings.kind != Kind::kMap && settings.kind != Kind::kNull) {
        problems_.add(
            at, settings.kind == Kind::kList
                    ? fmt::format("is a list; to vary a key write it dotted, such as {}.{}: [1, 2]",
                                  core::quoted(name), label)
                    : "must be a mapping from keys to values, such as {policy.name: tie}");
        continue;
      }
      Axis::Value value{std::string(core::utf8_prefix(label, kLabelBytesMax)), {}};
      for (const auto& [key, change] : settings.members) value.changes.emplace_back(key, change);
      axis.values.push_back(std::move(value));
    }
    problems_.remember_line(path, node.line);
    if (node.members.empty()) {
      problems_.add(path, "names no arm; give at least one");
      return;
    }
    add(std::move(axis), path);
  }

  void add(Axis axis, const std::string& path) {
    for (const auto& value : axis.values) {
      for (const auto& [key, change] : value.changes) {
        const std::string_view root = std::string_view(key).substr(0, key.find('.'));
        if (std::find(kShared.begin(), kShared.end(), root) != kShared.end()) {
          problems_.remember_line(path, change.line);
          problems_.add(path, fmt::format("{} is one for the whole experiment; set it at the top",
                                          core::quoted(root)));
          return;
        }
      }
    }
    if (!may_be_named(axis, path) || !sets_its_own_keys(axis, path)) return;
    std::set<std::string_view> labels;
    for (const auto& value : axis.values) {
      if (!labels.insert(value.label).second) {
        problems_.add(path, fmt::format("has {} twice; keep one", core::quoted(value.label)));
        return;
      }
    }
    if (axis.values.size() > kLabelsMax) {
      problems_.add(path, fmt::format("has {} values, more than {}; make it smaller",
                                      axis.values.size(), kLabelsMax));
      return;
    }
    if (axes.size() == kDimensionsMax) {
      problems_.add(path, fmt::format("is one of more than {} that vary", kDimensionsMax));
      return;
    }
    axes.push_back(std::move(axis));
  }

  bool may_be_named(const Axis& axis, const std::string& path) {
    if (const auto fault = name_fault(axis.name); !fault.empty()) {
      problems_.add(path, fmt::format("{} {}", core::quoted(axis.name), fault));
      return false;
    }
    for (const auto& value : axis.values) {
      if (const auto fault = name_fault(value.label); !fault.empty()) {
        problems_.add(path, fmt::format("{} {}", core::quoted(value.label), fault));
        return false;
      }
    }
    const bool twice = std::any_of(axes.begin(), axes.end(),
                                   [&](const Axis& other) { return other.name == axis.name; });
    if (twice || is_column(axis.name)) {
      problems_.add(path,
                    fmt::format("{} is the name of {}; choose another", core::quoted(axis.name),
                                twice ? "another dimension" : "a column of --csv"));
    }
    return !twice && !is_column(axis.name);
  }

  /// No key may be set by two dimensions: which of them would a cell's label tell?
  bool sets_its_own_keys(const Axis& axis, const std::string& path) {
    std::set<std::string> mine;
    for (const auto& value : axis.values) {
      for (const auto& [key, change] : value.changes) leaves(key, change, mine);
    }
    for (const std::string& key : mine) {
      if (const auto other = keys_.find(key); other != keys_.end()) {
        problems_.add(path, fmt::format("sets {}, as {} does; keep it in one of them",
                                        core::quoted(key), core::quoted(other->second)));
        return false;
      }
    }
    for (const std::string& key : mine) keys_[key] = axis.name;
    return true;
  }

  Problems& problems_;
  std::map<std::string, std::string> keys_;  ///< what a dimension sets: its name
};

}  // namespace

std::vector<Axis> read_grid(const YamlNode& grid, const YamlNode& arms, Problems& problems) {
  GridReader reader(problems);
  reader.read(grid, arms);
  return std::move(reader.axes);
}

}  // namespace tailrace::simulate
