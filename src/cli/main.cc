// The `tailrace` program: parses the command line and hands over to one subcommand.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <string_view>

#include "cli/commands.h"

namespace {

/// The library would say only that some subcommand is missing.
bool names_no_command(const CLI::App& app, std::string_view word) {
  if (word.empty() || word.starts_with('-')) return false;
  const auto commands = app.get_subcommands({});
  return std::none_of(commands.begin(), commands.end(),
                      [&](const CLI::App* command) { return command->get_name() == word; });
}

}  // namespace

int main(int argc, char** argv) {
  // A peer that closes its end must show as a failed write, not kill the process.
  std::signal(SIGPIPE, SIG_IGN);

  CLI::App app{"tailrace: schedules requests to LLM engines by the law of their answers' lengths"};
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every subcommand");
  app.set_version_flag("--version", "tailrace " TAILRACE_VERSION, "Print the version");
  int exit_code = 0;
  using namespace tailrace::cli;
  add_score(app, exit_code);
  add_serve(app, exit_code);
  add_check(app, exit_code);
  add_explain(app, exit_code);
  add_predict(app, exit_code);
  add_engine(app, exit_code);
  add_load(app, exit_code);
  add_evaluate(app, exit_code);
  add_fit(app, exit_code);
  add_version(app, exit_code);
  if (argc > 1 && names_no_command(app, argv[1])) {
    fmt::print(stderr, "tailrace: there is no command \"{}\"; tailrace --help lists them\n",
               argv[1]);
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kExitUsage;
  }
  return exit_code;
}
