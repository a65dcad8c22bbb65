// Which keys does a settings file have, as a page of tables?
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tailrace/core/settings.h"

namespace tailrace::core {

/// Writes what it visits as Markdown: a heading and a table for each mapping. Keys without a help
/// text are left out. `sorted`: the keys of a table by name, else as the schema shows them.
class SettingsReference final : public SchemaVisitor {
 public:
  explicit SettingsReference(bool sorted = false) : sorted_(sorted) {}

  void field(Field field) override;
  void section(std::string_view name, std::string_view help,
               const std::function<void()>& body) override;
  void list(std::string_view name, std::string_view help,
            const std::function<void()>& element) override;
  void map(std::string_view name, std::string_view help,
           const std::function<void(const std::string&)>& element) override;

  /// Everything visited so far.
  std::string text();

 private:
  void end_table();
  void heading(const std::string& path, std::string_view help);

  bool sorted_;
  std::string text_, prefix_;
  std::vector<std::pair<std::string, std::string>> rows_;  ///< key, line
};

}  // namespace tailrace::core
