#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "gateway/metrics.h"
#include "tailrace/core/text.h"
#include "tailrace/gateway/config.h"

namespace tailrace::cli {
namespace {

struct CheckOptions {
  std::string path = "tailrace.yaml";
  bool json = false;
  bool no_secrets = false;
  bool reference = false;
  bool metrics_reference = false;
};

Result<gateway::Config> read(const CheckOptions& options) {
  if (!options.no_secrets) return gateway::load_config(options.path);
  const auto text = core::read_file(options.path, gateway::kConfigBytesMax);
  if (!text) return fail(text.error());
  return gateway::parse_config(*text, options.path, gateway::process_environment());
}

void print_errors(const Error& error, bool json) {
  if (!json) {
    fmt::print(stderr, "{}\n", error.message);
    return;
  }
  boost::json::array errors;
  for (const auto line : core::split(error.message, '\n')) errors.emplace_back(line);
  const boost::json::object document{{"ok", false}, {"errors", std::move(errors)}};
  fmt::print("{}\n", boost::json::serialize(document));
}

int run(const CheckOptions& options) {
  if (options.reference || options.metrics_reference) {
    fmt::print("{}", options.reference ? gateway::configuration_reference()
                                       : gateway::metrics_reference());
    return 0;
  }
  const auto config = read(options);
  if (!config) {
    print_errors(config.error(), options.json);
    return kExitUsage;
  }
  for (const auto& doubt :
       gateway::doubtful_overrides(*config, gateway::process_environment_names())) {
    fmt::print(stderr, "warning: {}\n", doubt);
  }
  if (options.json) {
    fmt::print("{{\"ok\":true,\"summary\":{}}}\n", gateway::summarize_json(*config));
  } else {
    fmt::print("ok\n{}", gateway::summarize(*config));
  }
  return 0;
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  auto* command =
      app.add_subcommand("check",
                         "Say whether a configuration is good, and what is wrong with it.\n\n"
                         "Example: tailrace check tailrace.yaml");
  auto options = std::make_shared<CheckOptions>();
  command->add_option("CONFIG", options->path, "The configuration file (YAML)")
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON document");
  command->add_flag("--no-secrets", options->no_secrets,
                    "Do not read the keys and tokens that it names");
  command->add_flag("--reference", options->reference, "Print docs/configuration.md")->group("");
  command->add_flag("--metrics-reference", options->metrics_reference, "Print docs/metrics.md")
      ->group("");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace tailrace::cli
