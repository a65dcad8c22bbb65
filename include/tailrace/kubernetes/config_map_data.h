// What does a ConfigMap say, and which list holds it alone?
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tailrace/core/result.h"

namespace tailrace::kubernetes {

struct ConfigMapData {
  std::string name;
  std::map<std::string, std::string> data;  ///< texts; binaryData is left out
};

/// Errors: kDataLoss for what is no object with a name.
Result<ConfigMapData> read_config_map_data(std::string_view json);

/// For a watch of one ConfigMap.
std::string config_map_watch_path(const std::string& ns, const std::string& name);

}  // namespace tailrace::kubernetes
