// Which keys does an entry of the analyzer's configuration have, and when do they contradict?
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "tailrace/capacity/config.h"
#include "tailrace/core/settings.h"

namespace tailrace::capacity {

/// One entry while it is read: `settings` begin as what it inherits.
struct SettingsDraft {
  ModelSettings& settings;
  std::string& model;
  std::string& ns;
  FleetSettings* fleet = nullptr;  ///< null unless this is the entry `default`
  bool names_model = true;
  /// Only what this entry says itself.
  std::optional<double> ttft_ms, itl_ms;
  std::map<std::string, std::int64_t> gpus;
  std::map<std::string, std::map<std::string, std::int64_t>> quotas;
  /// Keys with a value. Where nothing came of one, the reader has said why.
  std::set<std::string, std::less<>> given;
};

/// Whether a key belongs to `default` alone.
bool is_fleet_key(std::string_view name);

void visit_settings(core::SchemaVisitor& visitor, SettingsDraft& draft);
/// What no single key can be blamed for; and moves the entry's own targets into its settings.
void check_settings(SettingsDraft& draft, const std::string& path, core::Problems& problems);

}  // namespace tailrace::capacity
