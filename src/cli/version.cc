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
    fmt::print(*json ? "{{\"version\":\"{}\"}}\n" : "tailrace {}\n", TAILRACE_VERSION);
  });
}

}  // namespace tailrace::cli
