#include "gateway/models.h"

#include <boost/json.hpp>
#include <set>
#include <string>

namespace tailrace::gateway {
namespace json = boost::json;
namespace {

std::optional<json::value> parse(std::string_view text) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 64;
  auto value = json::parse(json::string_view(text.data(), text.size()), error, {}, options);
  if (error) return std::nullopt;
  return value;
}

std::string_view id_of(const json::value& entry) {
  const auto* object = entry.if_object();
  const auto* id = object ? object->if_contains("id") : nullptr;
  const auto* text = id ? id->if_string() : nullptr;
  return text ? std::string_view(text->data(), text->size()) : std::string_view();
}

/// Entries in the order of first appearance, one per id.
std::vector<json::value> merge(const std::vector<std::shared_ptr<Backend>>& backends,
                               const std::vector<std::string>& awaited) {
  std::vector<json::value> merged;
  std::set<std::string, std::less<>> listed;
  for (const auto& backend : backends) {
    auto data = parse(backend->models_json);
    if (!data || !data->is_array()) continue;
    const std::set<std::string_view> served(backend->models.begin(), backend->models.end());
    for (auto& entry : data->get_array()) {
      const auto id = id_of(entry);
      if (!served.contains(id) || !listed.emplace(id).second) continue;
      merged.push_back(std::move(entry));
    }
  }
  const auto add_own = [&](const std::vector<std::string>& models) {
    for (const auto& model : models) {
      if (!listed.insert(model).second) continue;
      merged.push_back(json::object{
          {"id", model}, {"object", "model"}, {"created", 0}, {"owned_by", "tailrace"}});
    }
  };
  for (const auto& backend : backends) add_own(backend->models);
  add_own(awaited);
  return merged;
}

}  // namespace

std::optional<std::string> models_data(std::string_view answer) {
  const auto value = parse(answer);
  const auto* object = value ? value->if_object() : nullptr;
  const auto* data = object ? object->if_contains("data") : nullptr;
  if (!data || !data->is_array()) return std::nullopt;
  return json::serialize(*data);
}

std::vector<std::string> model_ids(std::string_view data) {
  std::vector<std::string> ids;
  const auto value = parse(data);
  if (!value || !value->is_array()) return ids;
  for (const auto& entry : value->get_array()) {
    if (const auto id = id_of(entry); !id.empty()) ids.emplace_back(id);
  }
  return ids;
}

std::string merged_models(const std::vector<std::shared_ptr<Backend>>& backends,
                          const std::vector<std::string>& awaited) {
  json::array data;
  for (auto& entry : merge(backends, awaited)) data.push_back(std::move(entry));
  return json::serialize(json::object{{"object", "list"}, {"data", std::move(data)}});
}

std::optional<std::string> merged_model(const std::vector<std::shared_ptr<Backend>>& backends,
                                        const std::vector<std::string>& awaited,
                                        std::string_view id) {
  for (const auto& entry : merge(backends, awaited)) {
    if (id_of(entry) == id) return json::serialize(entry);
  }
  return std::nullopt;
}

}  // namespace tailrace::gateway
