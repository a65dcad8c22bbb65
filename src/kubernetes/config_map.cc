#include "tailrace/kubernetes/config_map.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "kubernetes/documents.h"
#include "kubernetes/fields.h"
#include "tailrace/core/text.h"

namespace tailrace::kubernetes {
namespace {

namespace json = boost::json;

std::map<std::string, std::string> texts(const simdjson::dom::object& in, std::string_view key) {
  const auto held = member_object(in, key);
  if (!held) return {};
  return fields::texts_of(*held);
}

json::object as_json(const std::map<std::string, std::string>& map) {
  json::object object;
  for (const auto& [key, value] : map) object[key] = core::valid_utf8(value);
  return object;
}

ApiRequest writing(const ConfigMap& map) {
  json::object metadata{{"name", map.name}};
  json::object document{{"data", as_json(map.data)}};
  ApiRequest request;
  if (map.resource_version.empty()) {
    request.method = "POST";
    request.path = config_map_path(map.ns);
    document["apiVersion"] = "v1";
    document["kind"] = "ConfigMap";
    metadata["namespace"] = map.ns;
    metadata["labels"] = as_json(map.labels);
  } else {
    request.method = "PATCH";
    request.path = config_map_path(map.ns, map.name);
    request.content_type = kMergePatch;
    metadata = {{"resourceVersion", map.resource_version}};
  }
  document["metadata"] = std::move(metadata);
  request.body = json::serialize(document);
  return request;
}

}  // namespace

Result<ConfigMap> parse_config_map(std::string_view document) {
  DocumentReader reader;
  const auto root = reader.read(document);
  if (!root) return fail(root.error().with_context("a ConfigMap"));
  const auto metadata = member_object(*root, "metadata");
  const auto name = metadata ? member_text(*metadata, "name") : std::nullopt;
  const auto version = metadata ? member_text(*metadata, "resourceVersion") : std::nullopt;
  // Items of a list have no kind.
  if (member_text(*root, "kind").value_or("ConfigMap") != "ConfigMap" || !name || !version ||
      version->empty()) {
    return fail(ErrorCode::kDataLoss, "a ConfigMap is expected, and this is none");
  }
  ConfigMap map;
  map.ns = member_text(*metadata, "namespace").value_or("");
  map.name = *name;
  map.resource_version = *version;
  map.labels = texts(*metadata, "labels");
  map.data = texts(*root, "data");
  return map;
}

std::string config_map_path(std::string_view ns, std::string_view name) {
  return fmt::format("/api/v1/namespaces/{}/configmaps{}{}", ns, name.empty() ? "" : "/", name);
}

std::unique_ptr<ApiCall> read_config_map(
    Api& api, const std::string& ns, const std::string& name,
    UniqueFunction<void(Result<std::optional<ConfigMap>>)> done) {
  ApiRequest request;
  request.path = config_map_path(ns, name);
  const ApiRequest copy = request;
  return api.send(std::move(request),
                  [copy, done = std::move(done)](const Result<ApiAnswer>& answer) mutable {
                    if (answer && answer->status == 404) return done(std::nullopt);
                    auto map = read_answer(copy, answer, parse_config_map);
                    if (!map) return done(fail(std::move(map).error()));
                    done(std::move(*map));
                  });
}

std::unique_ptr<ApiCall> write_config_map(Api& api, const ConfigMap& map,
                                          UniqueFunction<void(Result<ConfigMap>)> done) {
  ApiRequest request = writing(map);
  const ApiRequest copy = request;
  return api.send(std::move(request),
                  [copy, done = std::move(done)](const Result<ApiAnswer>& answer) mutable {
                    done(read_answer(copy, answer, parse_config_map));
                  });
}

}  // namespace tailrace::kubernetes
