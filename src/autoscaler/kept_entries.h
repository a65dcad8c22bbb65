// Which entries of the analyzer's settings are in force, when some of the new ones are wrong?
//
// Remembers the last good version of each entry. Deterministic; it owns no clock and no file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/autoscaler/settings_source.h"

namespace tailrace::autoscaler {

class KeptEntries {
 public:
  explicit KeptEntries(std::string origin);

  /// Before each reading: nothing has changed yet.
  void begin() { settings_.changed = false; }
  /// All entries as they are written now.
  void take(std::vector<capacity::ConfigEntry> entries);
  /// They could not be read: everything stays as it was.
  void keep(const std::string& why);
  /// There is nothing any more: the analyzer is inactive, and what was good before is forgotten.
  void drop(const std::string& why);
  const Settings& settings() const { return settings_; }
  const std::string& origin() const { return origin_; }

 private:
  void enforce(capacity::Config config, std::string signature, std::string condition);
  std::vector<capacity::ConfigEntry> newest_last(std::vector<capacity::ConfigEntry> entries) const;
  bool replace_or_leave_out(const capacity::ConfigProblem& problem,
                            std::vector<capacity::ConfigEntry>& use);

  std::string origin_;
  std::map<std::string, capacity::ConfigEntry> good_;  ///< last good versions in force, by name
  std::string signature_;                              ///< of what is in force
  Settings settings_;
};

}  // namespace tailrace::autoscaler
