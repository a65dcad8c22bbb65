// What has the operator asked for, as of this cycle?
//
// The analyzer's configuration (capacity/config.h) from where it lives: a plain YAML file, a folder
// into which a ConfigMap is mounted, or the ConfigMap itself, watched through the API. It is read
// again in every cycle. An entry that is wrong is refused with its reason, and its last good
// version stays in force beside the other entries; one that never was good holds the models that it
// names. What cannot be read now leaves everything as it was; what is gone, map or `default` key,
// deactivates the analyzer: replicas are held. Loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tailrace/capacity/config.h"
#include "tailrace/kubernetes/api.h"

namespace tailrace::autoscaler {

/// What is in force, and what of it is not as the operator wrote it.
struct Settings {
  capacity::Config config;
  std::uint64_t version = 0;  ///< counts the changes of what is in force
  bool changed = false;       ///< since the reading before
  /// Every refused entry, with the reason and what holds in its place.
  std::vector<capacity::ConfigProblem> problems;
  /// Why nothing could be read now, or why the analyzer is inactive; "": neither.
  std::string condition;
};

class SettingsSource {
 public:
  virtual ~SettingsSource() = default;
  /// Reads again; valid until the next call.
  virtual const Settings& read() = 0;
  /// False while it is not known yet what there is: soon after the beginning.
  virtual bool known() const { return true; }
  /// Where it reads from, for people: "ConfigMap llm/wva-queueing-model-config".
  virtual std::string_view origin() const = 0;
};

/// What is built in, for ever: `default: {}`.
std::unique_ptr<SettingsSource> built_in_settings();

/// A YAML file (a ConfigMap's manifest or its entries as mappings) or the folder of a mounted
/// ConfigMap: a file for each entry, swapped as a whole by the kubelet's symbolic link `..data`.
std::unique_ptr<SettingsSource> mounted_settings(std::string path);

/// The ConfigMap, followed by a watch. Until its first list has come the analyzer is inactive.
std::unique_ptr<SettingsSource> watched_settings(kubernetes::Api& api, const std::string& ns,
                                                 const std::string& name);

}  // namespace tailrace::autoscaler
