#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"

namespace tailrace::cli {

void add_version(CLI::App& app, int& exit_code) {
  (void)exit_code;
  auto* command =
      app.add_subcommand("version", "Print the version.\n\nExample: tailrace version --json");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print one JSON document");
  command->callback([json] {
    if (*json) {
      fmt::print("{{\"version\":\"{}\"}}\n", TAILRACE_VERSION);
    } else {
      fmt::print("tailrace {}\n", TAILRACE_VERSION);
    }
  });
}

}  // namespace tailrace::cli
