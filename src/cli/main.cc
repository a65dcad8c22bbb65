// The `tailrace` program: parses the command line and hands over to one subcommand.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/commands.h"
#include "tailrace/core/printable.h"
#include "tailrace/core/text.h"
#include "tailrace/core/words.h"

namespace {

/// The library would say only that some subcommand is missing.
bool names_no_command(const CLI::App& app, std::string_view word) {
  if (word.empty() || word.starts_with('-')) return false;
  const auto commands = app.get_subcommands({});
  return std::none_of(commands.begin(), commands.end(),
                      [&](const CLI::App* command) { return command->get_name() == word; });
}

/// The known flag that `typed` most likely meant, or an empty text.
std::string nearest_flag(const CLI::App& command, std::string_view typed) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return std::string(
      tailrace::core::nearest_word(typed, {flags.begin(), flags.end()}).value_or(""));
}

/// What is wrong with a flag's number of values, which the library says in its own words only.
std::string wrong_count(const CLI::App& command, const CLI::ArgumentMismatch& error) {
  std::string text = error.what();
  const std::string flag = text.substr(0, text.find(": "));
  const CLI::Option* option = command.get_option_no_throw(flag);
  if (option == nullptr) return text;
  const auto& values = option->results();
  if (values.size() < 2) return fmt::format("{}: no value; give one, as in {} VALUE", flag, flag);
  std::string given;
  for (const std::string& value : values) {
    given += (given.empty() ? "" : " and ") + tailrace::core::quoted(value);
  }
  return fmt::format("{}: {} values, {}; give one", flag, values.size(), given);
}

/// The flag of this command that is given as `--flag=`, or an empty text. The library would take
/// the next word for its value.
std::string flag_without_value(const CLI::App& command, std::span<char* const> words) {
  for (const std::string_view word : words) {
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    const std::string flag(word.substr(0, word.size() - 1));
    if (command.get_option_no_throw(flag) != nullptr) return flag;
  }
  return "";
}

/// One line that names the command, what is wrong with its arguments, and where to look.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error,
                        std::span<char* const> words) {
  const CLI::App* command = &app;
  std::string name = "tailrace";
  for (auto given = app.get_subcommands(); !given.empty(); given = command->get_subcommands()) {
    command = given.back();
    name += " " + command->get_name();
  }
  std::string what = error.what();
  if (const auto* mismatch = dynamic_cast<const CLI::ArgumentMismatch*>(&error)) {
    what = wrong_count(*command, *mismatch);
  }
  // Whatever else is missing, a flag misspelt may be the reason.
  for (const std::string& word : command->remaining()) {
    const std::string typed = word.substr(0, word.find('='));
    if (!typed.starts_with('-')) {
      what = fmt::format("{} was not expected", tailrace::core::quoted(typed));
      continue;
    }
    what = fmt::format("there is no flag {}", tailrace::core::quoted(typed));
    const std::string meant = nearest_flag(*command, typed);
    if (!meant.empty()) what += fmt::format("; did you mean {}?", meant);
    break;
  }
  if (const std::string flag = flag_without_value(*command, words); !flag.empty()) {
    what = fmt::format("{}: no value; give one, as in {} VALUE", flag, flag);
  }
  return fmt::format("{}: {} ({} --help lists all)\n", name, tailrace::core::printable(what), name);
}

/// A closed standard stream would give its number to the next file that is opened. Writing to a
/// closed output has to fail, so a device that takes nothing stands in for it.
void fill_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1) continue;
    const char* device = stream == STDOUT_FILENO ? "/dev/full" : "/dev/null";
    [[maybe_unused]] const int opened = open(device, O_RDWR | O_CLOEXEC);  // takes the free number
  }
}

/// Did all that was printed get out? A reader that has seen enough (head) is told nothing.
bool output_arrived() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!flushed && errno != EPIPE) {
    fmt::print(stderr, "tailrace: standard output could not be written{}{}\n",
               errno != 0 ? ": " : "", errno != 0 ? std::strerror(errno) : "");
  }
  return flushed;
}

}  // namespace

int main(int argc, char** argv) {
  // A peer that closes its end must show as a failed write, not kill the process.
  std::signal(SIGPIPE, SIG_IGN);
  fill_closed_streams();

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
  add_capacity(app, exit_code);
  add_autoscale(app, exit_code);
  add_presets(app, exit_code);
  add_load(app, exit_code);
  add_evaluate(app, exit_code);
  add_fit(app, exit_code);
  add_simulate(app, exit_code);
  add_latency(app, exit_code);
  add_size(app, exit_code);
  add_tune(app, exit_code);
  add_version(app, exit_code);
  if (argc > 1 && names_no_command(app, argv[1])) {
    fmt::print(stderr, "tailrace: there is no command {}; tailrace --help lists them\n",
               tailrace::core::quoted(argv[1]));
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const std::system_error&) {  // fmt's, of a stream that cannot be written
    std::clearerr(stdout);
    exit_code = kExitFailed;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "{}", usage_error(app, error, {argv, argv + argc}));
    return kExitUsage;
  }
  return output_arrived() ? exit_code : std::max(exit_code, kExitFailed);
}
