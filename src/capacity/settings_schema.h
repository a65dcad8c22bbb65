// Which keys does an entry of the analyzer's configuration have, and when do they contradict?
#pragma once

#include <optional>
#include <string>

#include "tailrace/capacity/config.h"
#include "tailrace/core/settings.h"

namespace tailrace::capacity {

/// One entry while it is read: `settings` begin as what it inherits.
struct SettingsDraft {
  ModelSettings& settings;
  std::string& model;
  std::string& ns;
  bool is_default = false;
  /// Only what this entry says itself.
  std::optional<double> ttft_ms, itl_ms;
};

void visit_settings(core::SchemaVisitor& visitor, SettingsDraft& draft);
/// What no single key can be blamed for; and moves the entry's own targets into its settings.
void check_settings(SettingsDraft& draft, const std::string& path, core::Problems& problems);

}  // namespace tailrace::capacity
