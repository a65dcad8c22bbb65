#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "gateway/metrics.h"
#include "tailrace/autoscaler/config.h"
#include "tailrace/autoscaler/metrics_output.h"
#include "tailrace/core/environment.h"
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
  bool autoscaler_reference = false;
  bool autoscaler_metrics_reference = false;
};

/// What a good file says, for people and for programs.
struct Verdict {
  std::string summary, summary_json;
  std::vector<std::string> doubts;
};

Result<Verdict> check_autoscaler(const std::string& text, const CheckOptions& options) {
  const auto environment = core::process_environment();
  auto config = autoscaler::parse_config(text, options.path, environment);
  if (!config) return fail(config.error());
  if (!options.no_secrets) {
    if (auto read = autoscaler::read_secrets(*config, environment); !read) {
      return fail(read.error().with_context(options.path));
    }
  }
  return Verdict{autoscaler::summarize(*config), autoscaler::summarize_json(*config), {}};
}

Result<Verdict> check_gateway(const std::string& text, const CheckOptions& options) {
  const auto config =
      options.no_secrets ? gateway::parse_config(text, options.path, gateway::process_environment())
                         : gateway::load_config(options.path);
  if (!config) return fail(config.error());
  return Verdict{gateway::summarize(*config), gateway::summarize_json(*config),
                 gateway::doubtful_overrides(*config, gateway::process_environment_names())};
}

Result<Verdict> check(const CheckOptions& options) {
  const auto text = core::read_regular_file(options.path, gateway::kConfigBytesMax);
  if (!text) return fail(text.error());
  return autoscaler::looks_like_autoscaler(*text) ? check_autoscaler(*text, options)
                                                  : check_gateway(*text, options);
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
  if (options.autoscaler_reference) {
    fmt::print("{}", autoscaler::configuration_reference());
    return 0;
  }
  if (options.autoscaler_metrics_reference) {
    fmt::print("{}", autoscaler::autoscaler_metrics_reference());
    return 0;
  }
  if (options.reference || options.metrics_reference) {
    fmt::print("{}", options.reference ? gateway::configuration_reference()
                                       : gateway::metrics_reference());
    return 0;
  }
  const auto verdict = check(options);
  if (!verdict) {
    print_errors(verdict.error(), options.json);
    return kExitUsage;
  }
  for (const auto& doubt : verdict->doubts) fmt::print(stderr, "warning: {}\n", doubt);
  if (options.json) {
    fmt::print("{{\"ok\":true,\"summary\":{}}}\n", verdict->summary_json);
  } else {
    fmt::print("ok\n{}", verdict->summary);
  }
  return 0;
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  auto* command =
      app.add_subcommand("check",
                         "Say whether a configuration is good, and what is wrong with it: a "
                         "gateway's or an autoscaler's.\n\n"
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
  command
      ->add_flag("--reference-autoscaler", options->autoscaler_reference,
                 "Print docs/autoscaler-configuration.md")
      ->group("");
  command
      ->add_flag("--metrics-reference-autoscaler", options->autoscaler_metrics_reference,
                 "Print docs/autoscaler-exports.md")
      ->group("");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace tailrace::cli
