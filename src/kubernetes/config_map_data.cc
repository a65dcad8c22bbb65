#include "tailrace/kubernetes/config_map_data.h"

#include "kubernetes/discovery_paths.h"
#include "kubernetes/fields.h"

namespace tailrace::kubernetes {

Result<ConfigMapData> read_config_map_data(std::string_view json) {
  fields::Parser parser;
  const auto root = parser.parse(json);
  if (!root) return fail(root.error());
  ConfigMapData map;
  map.name = fields::text_at(*root, {"metadata", "name"});
  if (map.name.empty()) return fail(ErrorCode::kDataLoss, "a ConfigMap without metadata.name");
  map.data = fields::texts_at(*root, {"data"});
  return map;
}

std::string config_map_watch_path(const std::string& ns, const std::string& name) {
  return "/api/v1/namespaces/" + paths::escape(ns) +
         "/configmaps?fieldSelector=" + paths::escape("metadata.name=" + name);
}

}  // namespace tailrace::kubernetes
