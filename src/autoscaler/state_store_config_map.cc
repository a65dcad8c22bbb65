#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <utility>
#include <vector>

#include "tailrace/autoscaler/state_store.h"
#include "tailrace/core/log.h"
#include "tailrace/core/text.h"
#include "tailrace/kubernetes/config_map.h"

namespace tailrace::autoscaler {
namespace {

namespace json = boost::json;

constexpr const char* kKey = "state.json";
/// An object may have 1 MiB, with its names, labels and managed fields.
constexpr std::size_t kBytesMax = 900 * 1024;

double seen_s(const json::value& entry) {
  const auto* object = entry.if_object();
  const auto* seen = object == nullptr ? nullptr : object->if_contains("seen_s");
  return seen != nullptr && seen->is_number() ? seen->to_number<double>() : 0;
}

class ConfigMapStateStore final : public StateStore {
 public:
  ConfigMapStateStore(kubernetes::Api& api, std::string ns, std::string name)
      : api_(api), ns_(std::move(ns)), name_(std::move(name)) {}

  void load(UniqueFunction<void(Result<std::optional<std::string>>)> done) override {
    call_ = kubernetes::read_config_map(
        api_, ns_, name_,
        [this, done = std::move(done)](Result<std::optional<kubernetes::ConfigMap>> map) mutable {
          if (!map) return done(fail(map.error()));
          known_ = *map ? std::move(**map) : kubernetes::ConfigMap{};
          const auto found = known_.data.find(kKey);
          done(found == known_.data.end() ? std::nullopt : std::optional(found->second));
        });
  }

  void save(std::string document, UniqueFunction<void(Result<void>)> done) override {
    std::size_t dropped = 0;
    document = shrink_state(std::move(document), kBytesMax, dropped);
    if (dropped > 0) {
      log::warn("state", {{"forgotten", static_cast<std::uint64_t>(dropped)},
                          {"because", "a ConfigMap holds 1 MiB at most"}});
    }
    if (document.size() > kBytesMax) {
      return done(fail(ErrorCode::kResourceExhausted,
                       fmt::format("state of {} bytes does not fit into ConfigMap {}/{}",
                                   document.size(), ns_, name_)));
    }
    known_.ns = ns_;
    known_.name = name_;
    known_.data[kKey] = std::move(document);
    call_ = kubernetes::write_config_map(
        api_, known_,
        [this, done = std::move(done)](Result<kubernetes::ConfigMap> written) mutable {
          if (!written) return refresh(written.error(), std::move(done));
          known_ = std::move(*written);
          done({});
        });
  }

 private:
  /// Somebody else may have written: the next save is over what is there now.
  void refresh(const Error& error, UniqueFunction<void(Result<void>)> done) {
    call_ = kubernetes::read_config_map(
        api_, ns_, name_,
        [this, error,
         done = std::move(done)](const Result<std::optional<kubernetes::ConfigMap>>& map) mutable {
          if (map) known_.resource_version = *map ? (*map)->resource_version : "";
          done(fail(error));
        });
  }

  kubernetes::Api& api_;
  std::string ns_, name_;
  kubernetes::ConfigMap known_;
  std::unique_ptr<kubernetes::ApiCall> call_;
};

}  // namespace

std::string shrink_state(std::string document, std::size_t bytes_max, std::size_t& dropped) {
  dropped = 0;
  if (document.size() <= bytes_max) return document;
  boost::system::error_code error;
  json::value root = json::parse(document, error);
  if (error || !root.is_object()) return document;
  auto* parameters = root.get_object().if_contains("parameters");
  auto* store = parameters == nullptr ? nullptr : parameters->if_object();
  auto* entries = store == nullptr ? nullptr : store->if_contains("entries");
  if (entries == nullptr || !entries->is_array()) return document;
  json::array& list = entries->get_array();
  std::size_t bytes = json::serialize(root).size();
  while (bytes > bytes_max && !list.empty()) {
    const auto* oldest =
        std::min_element(list.begin(), list.end(),
                         [](const auto& a, const auto& b) { return seen_s(a) < seen_s(b); });
    bytes -= std::min(bytes, json::serialize(*oldest).size() + 1);
    list.erase(oldest);
    ++dropped;
  }
  return json::serialize(root);
}

std::unique_ptr<StateStore> config_map_state_store(kubernetes::Api& api, const std::string& ns,
                                                   const std::string& name) {
  return std::make_unique<ConfigMapStateStore>(api, ns, name);
}

}  // namespace tailrace::autoscaler
