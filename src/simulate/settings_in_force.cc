#include "simulate/settings_in_force.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "tailrace/core/text.h"

namespace tailrace::simulate {
namespace {

/// Collects what it visits: the text before anything is read is the value, once all is read.
class Collector final : public core::SchemaVisitor {
 public:
  void field(core::Field field) override {
    if (field.help.empty()) return;  // it only answers what is no key
    if (values.size() == kSettingsShownMax) return;
    // A file's name may be any bytes; a report is UTF-8.
    std::string value = core::valid_utf8(core::utf8_prefix(field.default_text, kSettingBytesMax));
    if (field.is_list && !value.empty()) value = "[" + value + "]";
    values.emplace_back(prefix_ + field.name, std::move(value));
  }
  void section(std::string_view name, std::string_view,
               const std::function<void()>& body) override {
    const std::string outer = prefix_;
    prefix_ += std::string(name) + ".";
    body();
    prefix_ = outer;
  }
  void list(std::string_view, std::string_view, const std::function<void()>&) override {}
  void map(std::string_view, std::string_view,
           const std::function<void(const std::string&)>&) override {}

  std::vector<ShownSetting> values;

 private:
  std::string prefix_;
};

}  // namespace

std::vector<ShownSetting> settings_in_force(Settings settings) {
  settings.read = true;
  Collector collector;
  visit_settings(collector, settings);
  return std::move(collector.values);
}

std::vector<ShownSetting> shared_settings(std::vector<Cell>& cells) {
  if (cells.empty()) return {};
  std::set<ShownSetting> alike(cells.front().settings.begin(), cells.front().settings.end());
  for (const Cell& cell : cells) {
    const std::set<ShownSetting> own(cell.settings.begin(), cell.settings.end());
    std::erase_if(alike, [&](const auto& setting) { return !own.contains(setting); });
  }
  std::vector<ShownSetting> shared;
  for (const auto& setting : cells.front().settings) {
    if (alike.contains(setting)) shared.push_back(setting);
  }
  for (Cell& cell : cells) {
    std::erase_if(cell.settings, [&](const auto& setting) { return alike.contains(setting); });
    cell.settings.shrink_to_fit();
  }
  return shared;
}

}  // namespace tailrace::simulate
