#include "tailrace/core/settings_reference.h"

#include <fmt/format.h>

#include <algorithm>

namespace tailrace::core {

void SettingsReference::field(Field field) {
  if (field.help.empty()) return;  // it only answers what is no key
  auto line = fmt::format("| `{}{}` | {} | {} | {} |\n", prefix_, field.name, field.type,
                          field.default_text.empty() ? "–" : field.default_text, field.help);
  rows_.emplace_back(std::move(field.name), std::move(line));
}

void SettingsReference::section(std::string_view name, std::string_view help,
                                const std::function<void()>& body) {
  const std::string outer = prefix_;
  heading(outer + std::string(name), help);
  prefix_ += fmt::format("{}.", name);
  body();
  end_table();
  prefix_ = outer;
}

void SettingsReference::list(std::string_view, std::string_view, const std::function<void()>&) {}

void SettingsReference::map(std::string_view name, std::string_view help,
                            const std::function<void(const std::string&)>& element) {
  const std::string outer = prefix_;
  heading(outer + std::string(name), help);
  prefix_ += fmt::format("{}.NAME.", name);
  element("NAME");
  end_table();
  prefix_ = outer;
}

std::string SettingsReference::text() {
  end_table();
  return text_;
}

void SettingsReference::end_table() {
  if (rows_.empty()) return;
  if (sorted_) std::sort(rows_.begin(), rows_.end());
  text_ += "\n| key | value | default | effect |\n|---|---|---|---|\n";
  for (const auto& [key, line] : rows_) text_ += line;
  rows_.clear();
}

void SettingsReference::heading(const std::string& path, std::string_view help) {
  end_table();
  text_ += fmt::format("\n### {}\n\n{}\n", path, help);
}

}  // namespace tailrace::core
