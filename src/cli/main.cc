// The `tailrace` program: parses the command line and hands over to one subcommand.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <csignal>

#include "cli/commands.h"

int main(int argc, char** argv) {
  // A peer that closes its end must show as a failed write, not kill the process.
  std::signal(SIGPIPE, SIG_IGN);

  CLI::App app{"tailrace: schedules requests to LLM engines by the law of their answers' lengths"};
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every subcommand");
  int exit_code = 0;
  using namespace tailrace::cli;
  add_score(app, exit_code);
  add_serve(app, exit_code);
  add_check(app, exit_code);
  add_explain(app, exit_code);
  add_engine(app, exit_code);
  add_load(app, exit_code);
  add_version(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kExitUsage;
  }
  return exit_code;
}
