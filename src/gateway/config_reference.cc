#include <fmt/format.h>

#include <boost/json.hpp>

#include "gateway/config_schema.h"

namespace tailrace::gateway {
namespace {

/// Writes the tables of docs/configuration.md.
class ReferenceWriter final : public SchemaVisitor {
 public:
  std::string text;

  void field(Field field) override {
    if (!in_table_) {
      text += "\n| key | value | default | environment | effect |\n|---|---|---|---|---|\n";
      in_table_ = true;
    }
    const std::string path = prefix_ + field.name;
    const std::string standard = field.required ? "required"
                                 : field.default_text.empty()
                                     ? "–"
                                     : fmt::format("`{}`", field.default_text);
    const std::string variable =
        can_override_ ? fmt::format("`{}`", environment_name(path)) : std::string("–");
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", path, field.type, standard, variable,
                        field.help);
  }
  void section(std::string_view name, std::string_view help,
               const std::function<void()>& body) override {
    begin(name, help);
    nested(fmt::format("{}.", name), true, body);
  }
  void list(std::string_view name, std::string_view help,
            const std::function<void()>& element) override {
    begin(name, help);
    nested(fmt::format("{}[].", name), false, element);
  }
  void map(std::string_view name, std::string_view help,
           const std::function<void(const std::string&)>& element) override {
    begin(name, help);
    nested(fmt::format("{}.NAME.", name), false, [&] { element("NAME"); });
  }

 private:
  void begin(std::string_view name, std::string_view help) {
    text += fmt::format("\n## {}\n\n{}\n", name, help);
    in_table_ = false;
  }
  void nested(std::string prefix, bool can_override, const std::function<void()>& body) {
    prefix_ = std::move(prefix);
    can_override_ = can_override;
    body();
    prefix_.clear();
    can_override_ = true;
  }

  std::string prefix_;
  bool can_override_ = true;
  bool in_table_ = false;
};

std::string_view mode_name(PredictMode mode) {
  switch (mode) {
    case PredictMode::kOff:
      return "off";
    case PredictMode::kShadow:
      return "shadow";
    case PredictMode::kOn:
      return "on";
  }
  return "";
}

}  // namespace

std::string configuration_reference() {
  static constexpr std::string_view kOpening = R"(# Configuration

`tailrace serve -c tailrace.yaml` reads one YAML file; `tailrace check tailrace.yaml` says what is wrong with it.
[`examples/tailrace.yaml`](../examples/tailrace.yaml) shows every key. This page is generated from the schema
(`tailrace check --reference`); do not edit it.

Durations are a number and a unit (`250ms`, `5s`, `2m`, `1h`), sizes a number of bytes or one with a unit (`512KiB`,
`32MiB`). An unknown key, a wrong type or a value out of range is an error that names its path and line. YAML anchors
and aliases are not supported. An environment variable overrides the file where the table names one.

## The file's top
)";
  Config config;
  ReferenceWriter writer;
  writer.text = kOpening;
  visit_config(writer, config);
  return writer.text;
}

std::string summarize(const Config& config) {
  std::string text = fmt::format("listens on {}", net::to_string(config.listen));
  text += config.admin.enabled
              ? fmt::format("\nadmin on {}{}", net::to_string(config.admin.listen),
                            config.admin.token_env.empty() && config.admin.token_file.empty()
                                ? " without a token"
                                : " with a token")
              : std::string("\nno admin listener");
  text += fmt::format("\norders by {}, waiting bound {}, prediction {}", config.dispatch.policy,
                      config.dispatch.waiting_bound
                          ? core::print_duration(*config.dispatch.waiting_bound)
                          : std::string("off"),
                      mode_name(config.predict.mode));
  for (const BackendConfig& backend : config.backends) {
    text += fmt::format("\nbackend {}: {}, {} slots, models {}", backend.name,
                        net::to_string(backend.url), backend.slots,
                        core::join_words(backend.models, ", "));
  }
  if (config.backends.empty()) text += "\nno backends: add some through the admin API";
  return text + "\n";
}

std::string summarize_json(const Config& config) {
  boost::json::array backends;
  for (const BackendConfig& backend : config.backends) {
    backends.push_back({{"name", backend.name},
                        {"url", net::to_string(backend.url)},
                        {"models", boost::json::value_from(backend.models)},
                        {"slots", backend.slots}});
  }
  boost::json::object document{
      {"listen", net::to_string(config.listen)},
      {"admin", config.admin.enabled ? boost::json::value(net::to_string(config.admin.listen))
                                     : boost::json::value(nullptr)},
      {"policy", config.dispatch.policy},
      {"waiting_bound_s",
       config.dispatch.waiting_bound
           ? boost::json::value(static_cast<double>(config.dispatch.waiting_bound->count()) / 1e9)
           : boost::json::value(nullptr)},
      {"predict", std::string(mode_name(config.predict.mode))},
      {"backends", std::move(backends)}};
  return boost::json::serialize(document);
}

}  // namespace tailrace::gateway
