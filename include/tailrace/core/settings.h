// Which keys does a settings file have, and what is wrong with the one at hand?
//
// A schema is a function that shows every key to a SchemaVisitor, once; reading, checking and
// reference pages are visitors. SettingsReader fills what the schema points to from a YAML tree.
// Problems collects everything that is wrong, each with its line, its dotted path, the value and
// the remedy. One thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/field.h"
#include "tailrace/core/result.h"
#include "tailrace/core/yaml_tree.h"

namespace tailrace::core {

class SchemaVisitor {
 public:
  virtual ~SchemaVisitor() = default;

  virtual void field(Field field) = 0;
  /// A mapping with fixed keys.
  virtual void section(std::string_view name, std::string_view help,
                       const std::function<void()>& body) = 0;
  /// A sequence of mappings: `element` visits the keys of a new last one.
  virtual void list(std::string_view name, std::string_view help,
                    const std::function<void()>& element) = 0;
  /// A mapping from free names to mappings.
  virtual void map(std::string_view name, std::string_view help,
                   const std::function<void(const std::string& key)>& element) = 0;
};

/// Everything that is wrong with a file, each with the line of its key where it has one. Texts are
/// kept of the first 50; the others are counted.
class Problems {
 public:
  explicit Problems(std::string_view origin) : origin_(origin) {}

  void remember_line(const std::string& path, int line) { lines_[path] = line; }
  /// "tailrace.yaml:12 predict.mode: what": with the line, if one is remembered for `path`.
  void add(const std::string& path, std::string_view what);
  void add_raw(std::string text);
  bool full() const;
  bool none() const { return count_ == 0; }
  /// kInvalidArgument, one line per problem.
  Error error() const;

 private:
  std::string origin_;
  std::map<std::string, int> lines_;
  std::vector<std::string> texts_;
  std::size_t count_ = 0;
};

/// Reads a tree by a schema; what does not fit goes to `problems`.
class SettingsReader final : public SchemaVisitor {
 public:
  explicit SettingsReader(Problems& problems) : problems_(problems) {}

  /// `body` visits the keys that `node`, a mapping at `path`, may have.
  void read(const YamlNode& node, const std::string& path, const std::function<void()>& body);

  void field(Field field) override;
  void section(std::string_view name, std::string_view help,
               const std::function<void()>& body) override;
  void list(std::string_view name, std::string_view help,
            const std::function<void()>& element) override;
  void map(std::string_view name, std::string_view help,
           const std::function<void(const std::string&)>& element) override;

 private:
  struct Level {
    const YamlNode* node;
    std::string path;
    std::vector<std::string> known;
  };

  std::string path_of(std::string_view name) const;
  std::string path_or_parent(const std::string& path);
  const YamlNode* take(const std::string& name);
  void assign(const Field& field, std::string_view text, const std::string& path);
  void read_list(const Field& field, const YamlNode& node, const std::string& path);
  void report_unknown_keys(const Level& level);

  Problems& problems_;
  std::vector<Level> levels_;
};

}  // namespace tailrace::core
