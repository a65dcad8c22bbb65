#include "tailrace/autoscaler/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "autoscaler/config_schema.h"
#include "tailrace/core/settings_reference.h"
#include "tailrace/core/text.h"
#include "tailrace/core/yaml_tree.h"
#include "tailrace/net/address_field.h"

namespace tailrace::autoscaler {
namespace {

namespace json = boost::json;

/// The keys of the file's top.
class TopKeys final : public core::SchemaVisitor {
 public:
  std::vector<std::string> keys;

  void field(core::Field field) override { keys.push_back(std::move(field.name)); }
  void section(std::string_view name, std::string_view, const std::function<void()>&) override {
    keys.emplace_back(name);
  }
  void list(std::string_view name, std::string_view, const std::function<void()>&) override {
    keys.emplace_back(name);
  }
  void map(std::string_view name, std::string_view,
           const std::function<void(const std::string&)>&) override {
    keys.emplace_back(name);
  }
};

std::string source_text(const Config& config) {
  if (config.source == SourceKind::kPrometheus) {
    return "Prometheus at " + net::to_string(config.prometheus.url);
  }
  return config.gateway_metrics ? fmt::format("exporters and the gateway at {}",
                                              net::to_string(*config.gateway_metrics))
                                : std::string("exporters");
}

std::string settings_text(const SettingsConfig& settings) {
  if (!settings.file.empty()) return settings.file;
  if (!settings.config_map.empty()) return "ConfigMap " + settings.config_map;
  return "built in";
}

}  // namespace

Result<Config> parse_config(std::string_view text, std::string_view origin,
                            const core::Environment& environment) {
  Config config;
  const auto read = core::read_settings(
      {text, origin, kConfigBytesMax, kEnvironmentPrefix}, environment,
      [&](core::SchemaVisitor& visitor) { visit_config(visitor, config); },
      [&](core::Problems& problems) { check_together(config, problems); });
  if (!read) return fail(read.error());
  return config;
}

Result<void> read_secrets(Config& config, const core::Environment& environment) {
  core::Problems problems("secrets");
  const auto read = [&](std::string_view section, const std::string& variable,
                        const std::string& file, std::string& into) {
    auto token = core::read_secret(variable, file, environment);
    if (token) {
      into = std::move(*token);
      return;
    }
    problems.add_raw(token.error()
                         .with_context(fmt::format("{}.{}", section,
                                                   variable.empty() ? "token_file" : "token_env"))
                         .message);
  };
  read("prometheus", config.prometheus.token_env, "", config.prometheus.token);
  read("processes", config.processes.token_env, config.processes.token_file,
       config.processes.token);
  if (!problems.none()) return fail(problems.error());
  return {};
}

Result<Config> load_config(const std::string& path, const core::Environment& environment) {
  return core::load_settings<Config>(
      path, kConfigBytesMax,
      [&](std::string_view text) { return parse_config(text, path, environment); },
      [&](Config& config) { return read_secrets(config, environment); });
}

bool looks_like_autoscaler(std::string_view text) {
  const auto tree = core::parse_yaml(text);
  if (!tree) return false;
  TopKeys top;
  Config scratch;
  visit_config(top, scratch);
  constexpr std::string_view kAlsoGateways[] = {"logging"};
  return std::any_of(tree->members.begin(), tree->members.end(), [&](const auto& member) {
    return std::find(top.keys.begin(), top.keys.end(), member.key) != top.keys.end() &&
           std::find(std::begin(kAlsoGateways), std::end(kAlsoGateways), member.key) ==
               std::end(kAlsoGateways);
  });
}

std::string summarize(const Config& config) {
  std::string text = fmt::format("decides every {}, from {}, by the settings of {}\n",
                                 core::print_duration(config.interval), source_text(config),
                                 settings_text(config.settings));
  text += config.scale ? "moves replicas" : "recommends only";
  if (!config.database.empty()) {
    text += fmt::format(", keeps its records in {}", config.database);
  } else if (!config.state.config_map.empty()) {
    text += fmt::format(", keeps what it learns in ConfigMap {}", config.state.config_map);
  } else {
    text += ", keeps nothing over a restart";
  }
  text += config.metrics.enabled
              ? fmt::format("\nmetrics on {}", net::to_string(config.metrics.listen))
              : std::string("\nno metrics listener");
  if (config.keda.enabled) text += fmt::format("\nKEDA on {}", net::to_string(config.keda.listen));
  if (config.processes.gateway) {
    text += fmt::format("\nregisters replicas at {}", net::to_string(*config.processes.gateway));
  }
  for (const MachineVariant& variant : config.variants) {
    text += fmt::format("\nvariant {}: {}/{}, {} to {} replicas, cost {:g}, ports from {}",
                        variant.name, variant.ns, variant.model, variant.min, variant.max,
                        variant.cost, variant.first_port);
  }
  if (config.platform == Platform::kKubernetes) {
    const auto& namespaces = config.kubernetes.namespaces;
    text += fmt::format(
        "\nvariants of {}",
        namespaces.empty() ? "all namespaces" : "namespaces " + core::join_words(namespaces, ", "));
  }
  return text + "\n";
}

std::string summarize_json(const Config& config) {
  json::array variants;
  for (const MachineVariant& v : config.variants) {
    variants.push_back({{"name", v.name},
                        {"namespace", v.ns},
                        {"model", v.model},
                        {"min", v.min},
                        {"max", v.max},
                        {"cost", v.cost},
                        {"first_port", v.first_port}});
  }
  return json::serialize(json::object{
      {"platform", config.platform == Platform::kMachine ? "machine" : "kubernetes"},
      {"interval_s", static_cast<double>(config.interval.count()) / 1e9},
      {"source", config.source == SourceKind::kScrape ? "scrape" : "prometheus"},
      {"settings", settings_text(config.settings)},
      {"scale", config.scale},
      {"database", config.database},
      {"metrics", config.metrics.enabled ? json::value(net::to_string(config.metrics.listen))
                                         : json::value(nullptr)},
      {"keda", config.keda.enabled ? json::value(net::to_string(config.keda.listen))
                                   : json::value(nullptr)},
      {"variants", std::move(variants)}});
}

std::string configuration_reference() {
  static constexpr std::string_view kOpening = R"(# Configuration of the autoscaler

`tailrace autoscale -c autoscaler.yaml` reads one YAML file; `tailrace check autoscaler.yaml` says what is wrong with
it. [autoscaler.md](autoscaler.md) tells how to run it, and [capacity.md](capacity.md) has the keys of the analyzer's
own settings: SLOs, windows, steps. This page is generated from the schema (`tailrace check --reference-autoscaler`);
do not edit it.

Durations are a number and a unit (`250ms`, `5s`, `2m`, `1h`), sizes a number of bytes or one with a unit (`512KiB`,
`32MiB`). An unknown key, a wrong type or a value out of range is an error that names its path and line. An environment
variable overrides a key that stands outside of `variants`: `TAILRACE_AUTOSCALER_` and its path in capitals, so
`TAILRACE_AUTOSCALER_PROMETHEUS_URL` for `prometheus.url`.

## The file's keys
)";
  Config config;
  core::SettingsReference reference;
  visit_config(reference, config);
  return std::string(kOpening) + reference.text();
}

}  // namespace tailrace::autoscaler
