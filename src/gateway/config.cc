#include "tailrace/gateway/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "gateway/config_schema.h"
#include "gateway/metrics.h"
#include "tailrace/core/text.h"
#include "tailrace/core/yaml_tree.h"

namespace tailrace::gateway {
namespace {

bool is_loopback(const net::Endpoint& endpoint) {
  // "127.example.org" is a name like any other.
  return endpoint.host == "localhost" || endpoint.host == "::1" ||
         (endpoint.host.starts_with("127.") &&
          endpoint.host.find_first_not_of("0123456789.") == std::string::npos);
}

void check_backend(const BackendConfig& backend, const std::string& prefix,
                   core::Problems& problems) {
  // A missing name is reported already.
  if (!backend.name.empty() && !core::is_plain_name(backend.name, 64)) {
    problems.add(prefix + "name",
                 fmt::format("{} must be 1 to 64 letters, digits, dots, dashes or underscores",
                             core::quoted(backend.name)));
  }
  if (!backend.api_key_env.empty() && !backend.api_key_file.empty()) {
    problems.add(prefix + "api_key_file", "stands beside api_key_env; keep one of them");
  }
  if (!backend.health_path.starts_with('/')) {
    problems.add(prefix + "health_path",
                 fmt::format("{} must begin with /", core::quoted(backend.health_path)));
  }
}

void check_models(const Config& config, core::Problems& problems) {
  if (config.models.contains("")) {
    problems.add("models", "an entry has an empty name; name the model, as requests spell it");
  }
  for (const auto& [name, model] : config.models) {
    if (model.slots == 0 || model.awaited) continue;
    problems.add(fmt::format("models.{}.slots", name),
                 "says what is to come for an awaited model; add \"awaited: true\" or take it out");
  }
  const auto awaited = std::count_if(config.models.begin(), config.models.end(),
                                     [](const auto& entry) { return entry.second.awaited; });
  // Nobody would bring an engine for what waits unseen.
  if (static_cast<std::size_t>(awaited) > kLabelNamesMax) {
    problems.add("models", fmt::format("{} of them are awaited; at most {} can be, since no more "
                                       "have series of their own in /metrics for an autoscaler to "
                                       "see; take \"awaited\" from the others",
                                       awaited, kLabelNamesMax));
  }
}

/// What no single key can tell.
void check_together(const Config& config, core::Problems& problems) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < config.backends.size(); ++i) {
    const BackendConfig& backend = config.backends[i];
    const std::string prefix = fmt::format("backends[{}].", i);
    check_backend(backend, prefix, problems);
    if (!backend.name.empty() && !names.insert(backend.name).second) {
      problems.add(prefix + "name", fmt::format("{} is the name of another backend too; rename one",
                                                core::quoted(backend.name)));
    }
  }
  check_models(config, problems);
  const AdminConfig& admin = config.admin;
  if (!admin.token_env.empty() && !admin.token_file.empty()) {
    problems.add("admin.token_file", "stands beside admin.token_env; keep one of them");
  }
  if (admin.enabled && !is_loopback(admin.listen) && admin.token_env.empty() &&
      admin.token_file.empty()) {
    problems.add("admin.listen",
                 fmt::format("{} can be reached from other machines; set admin.token_env or "
                             "admin.token_file, or listen on 127.0.0.1",
                             core::quoted(net::to_string(admin.listen))));
  }
  if (admin.enabled && admin.listen == config.listen && config.listen.port != 0) {
    problems.add("admin.listen", "is the address of \"listen\" too; choose another port");
  }
  if (config.body_bytes_max > config.dispatch.queued_bytes_max) {
    problems.add(
        "schedule.queued_bytes_max",
        fmt::format("{} is less than limits.body_bytes_max ({}): such a body could never wait",
                    core::print_bytes(config.dispatch.queued_bytes_max),
                    core::print_bytes(config.body_bytes_max)));
  }
  const auto& options = config.dispatch.policy_options;
  if (options.beta_min > options.beta_max) {
    problems.add("schedule.beta_min", fmt::format("{} is more than schedule.beta_max ({})",
                                                  options.beta_min, options.beta_max));
  }
}

Result<Secret> read_secret(const std::string& variable, const std::string& file,
                           const Environment& environment) {
  auto value = core::read_secret(variable, file, environment);
  if (!value) return fail(value.error());
  return value->empty() ? Secret{} : Secret{std::move(*value)};
}

/// Where what was learned is kept must be able to hold it: found out now, and not an hour later.
Result<void> check_model_file(const std::string& file) {
  if (file.empty()) return {};
  namespace fs = std::filesystem;
  std::error_code unknown;
  const fs::path folder = fs::path(file).has_parent_path() ? fs::path(file).parent_path() : ".";
  if (!fs::is_directory(folder, unknown)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("predict.model_file: {} is not a folder; create it",
                            core::quoted(folder.string(), 256)));
  }
  const auto kind = fs::status(file, unknown).type();
  if (kind != fs::file_type::regular && kind != fs::file_type::not_found) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("predict.model_file: {} is not a regular file; name one, such as "
                            "/var/lib/tailrace/predictor.bin",
                            core::quoted(file, 256)));
  }
  return {};
}

Result<void> read_backend_secret(BackendConfig& backend, const std::string& prefix,
                                 const Environment& environment) {
  auto secret = read_secret(backend.api_key_env, backend.api_key_file, environment);
  if (!secret) {
    return fail(secret.error().with_context(
        prefix + (backend.api_key_env.empty() ? "api_key_file" : "api_key_env")));
  }
  backend.api_key = std::move(*secret);
  return {};
}

}  // namespace

ModelConfig Config::model(std::string_view name) const {
  const auto found = models.find(std::string(name));
  return found == models.end() ? ModelConfig{} : found->second;
}

Environment process_environment() {
  return core::process_environment();
}

Environment no_environment() {
  return core::no_environment();
}

Result<Config> parse_config(std::string_view text, std::string_view origin,
                            const Environment& environment) {
  Config config;
  const auto read = core::read_settings(
      {text, origin, kConfigBytesMax}, environment,
      [&](core::SchemaVisitor& visitor) { visit_config(visitor, config); },
      [&](core::Problems& problems) { check_together(config, problems); });
  if (!read) return fail(read.error());
  return config;
}

Result<void> read_secrets(Config& config, const Environment& environment) {
  core::Problems problems("secrets");
  for (std::size_t i = 0; i < config.backends.size(); ++i) {
    auto read =
        read_backend_secret(config.backends[i], fmt::format("backends[{}].", i), environment);
    if (!read) problems.add_raw(read.error().message);
  }
  auto token = read_secret(config.admin.token_env, config.admin.token_file, environment);
  if (token) {
    config.admin.token = std::move(*token);
  } else {
    problems.add_raw(
        token.error()
            .with_context(config.admin.token_env.empty() ? "admin.token_file" : "admin.token_env")
            .message);
  }
  if (!problems.none()) return fail(problems.error());
  return {};
}

Result<Config> load_config(const std::string& path, const Environment& environment) {
  return core::load_settings<Config>(
      path, kConfigBytesMax,
      [&](std::string_view text) { return parse_config(text, path, environment); },
      [&](Config& config) -> Result<void> {
        if (auto secrets = read_secrets(config, environment); !secrets) return secrets;
        return check_model_file(config.predict.model_file);
      });
}

Result<BackendConfig> parse_backend(std::string_view name, std::string_view json,
                                    const Environment& environment, bool may_name_secrets) {
  if (json.size() > kConfigBytesMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("body: longer than {} bytes", kConfigBytesMax));
  }
  auto tree = core::parse_yaml(json);  // JSON is YAML
  if (!tree) return fail(tree.error().with_context("body"));
  const auto has_name = [](const auto& member) { return member.key == "name"; };
  if (std::none_of(tree->members.begin(), tree->members.end(), has_name)) {
    tree->members.push_back(
        {"name", core::YamlNode{core::YamlNode::Kind::kScalar, 1, std::string(name), {}, {}}});
  }
  BackendConfig backend;
  core::Problems problems("body");
  core::SettingsReader reader(problems);
  reader.read(*tree, "", [&] { visit_backend(reader, backend); });
  check_backend(backend, "", problems);
  if (backend.name != name && !backend.name.empty()) {
    problems.add("name", fmt::format("{} is not the name in the path, {}",
                                     core::quoted(backend.name), core::quoted(name)));
  }
  if (!may_name_secrets && !(backend.api_key_env.empty() && backend.api_key_file.empty())) {
    problems.add(backend.api_key_env.empty() ? "api_key_file" : "api_key_env",
                 "an admin listener without a token takes no keys, since anybody could have them "
                 "sent anywhere; set admin.token_env or admin.token_file");
  }
  if (!problems.none()) return fail(problems.error());
  if (auto read = read_backend_secret(backend, "", environment); !read) return fail(read.error());
  return backend;
}

}  // namespace tailrace::gateway
