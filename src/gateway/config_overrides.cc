// Which environment variables override keys, and which only look as if they did?
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "gateway/config_schema.h"
#include "tailrace/core/words.h"

namespace tailrace::gateway {
namespace {

constexpr std::size_t kTypoMax = 3;
constexpr std::size_t kNameBytesMax = 64;  // of what is compared; longer names are no typing errors

/// Collects the names of all overrides.
class NameReader final : public OverrideVisitor {
 public:
  std::vector<std::string> names;

  void variable(std::string name, Field) override { names.push_back(std::move(name)); }
};

bool named_as_secret(const Config& config, std::string_view name) {
  return config.admin.token_env == name ||
         std::any_of(config.backends.begin(), config.backends.end(),
                     [&](const BackendConfig& backend) { return backend.api_key_env == name; });
}

}  // namespace

std::vector<std::string> doubtful_overrides(const Config& config,
                                            const std::vector<std::string>& names) {
  NameReader known;
  Config scratch;
  visit_config(known, scratch);
  std::vector<std::string> doubts;
  for (const std::string& name : names) {
    if (!name.starts_with("TAILRACE_") || name.size() > kNameBytesMax) continue;
    if (named_as_secret(config, name)) continue;
    const auto nearest =
        std::min_element(known.names.begin(), known.names.end(), [&](const auto& a, const auto& b) {
          return core::edit_distance(name, a) < core::edit_distance(name, b);
        });
    const std::size_t distance = core::edit_distance(name, *nearest);
    if (distance == 0 || distance > kTypoMax) continue;
    doubts.push_back(
        fmt::format("environment variable {} sets nothing; did you mean {}?", name, *nearest));
  }
  return doubts;
}

std::vector<std::string> process_environment_names() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

}  // namespace tailrace::gateway
