// What does one ConfigMap hold, and how is it written by several who do not wait for each other?
//
// Reading, creating, and changing keys of one ConfigMap as compare and swap on its version. Needs
// the verbs get, create and patch on `configmaps`. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tailrace/kubernetes/api.h"

namespace tailrace::kubernetes {

struct ConfigMap {
  std::string ns, name;
  std::map<std::string, std::string> labels, data;
  std::string resource_version;  ///< "": there is none yet
};
/// Errors: kDataLoss for what is no ConfigMap.
Result<ConfigMap> parse_config_map(std::string_view document);

/// "/api/v1/namespaces/NS/configmaps/NAME"; without a name, that of the list.
std::string config_map_path(std::string_view ns, std::string_view name = "");

/// Empty: there is none. Errors: those of the Api, and of the status.
[[nodiscard]] std::unique_ptr<ApiCall> read_config_map(
    Api& api, const std::string& ns, const std::string& name,
    UniqueFunction<void(Result<std::optional<ConfigMap>>)> done);

/// Sets the keys of `map.data` and leaves others, labels and owners alone, provided that the map
/// still has `map.resource_version`; creates it, with its labels, where that is "". The result is
/// the map afterwards. Errors: kAlreadyExists where somebody else wrote or created it meanwhile
/// (read and decide again), kNotFound where it was deleted, kInvalidArgument for more than the 1
/// MiB that a ConfigMap may hold.
[[nodiscard]] std::unique_ptr<ApiCall> write_config_map(
    Api& api, const ConfigMap& map, UniqueFunction<void(Result<ConfigMap>)> done);

}  // namespace tailrace::kubernetes
