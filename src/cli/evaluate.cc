// `tailrace evaluate`: how good is a predictor of answer lengths?
#include <fmt/core.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <memory>

#include "cli/commands.h"
#include "cli/output_file.h"
#include "tailrace/core/text.h"
#include "tailrace/evaluate/study.h"

namespace tailrace::cli {
namespace {

constexpr const char* kAbout =
    "Measure predictors of answer lengths on recorded requests: predict each row, score, then "
    "learn.\n\n"
    "Example: build/tailrace evaluate tests/data/requests.jsonl --predictor online,route "
    "--html report.html\n\n"
    "A file (-: standard input) holds one JSON object a line:\n"
    "  {\"prompt\": \"Why?\", \"length\": 120, \"model\": \"m\", \"cap\": 1024}\n"
    "with \"messages\" in the place of \"prompt\" for conversations; \"length\" is the answer's "
    "tokens; \"cap\" the request's limit (a length equal to it was cut, one above it is an error), "
    "\"censored\": true an "
    "answer that was cut before; \"tenant\", \"route\", \"system\", \"temperature\", \"top_p\", "
    "\"prompt_tokens\" as far as known. A folder holds such files, or a published collection "
    "(docs/evaluate.md). Files may be packed by gzip, zstd, xz or bzip2.\n"
    "Exit codes: 0 done, 1 the report could not be written, 2 bad usage or input";

struct Flags {
  evaluate::StudyOptions study;
  std::int64_t cap = 4096;
  bool leave_one_out = false;
  evaluate::LeaveOneOutOptions left;
  bool curve = false;
  bool cost = false;
  bool json = false;
  std::string html_file;
};

/// Of this thread, so that a busy machine does not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double heap_bytes() {
  const auto heap = mallinfo2();
  return static_cast<double>(heap.uordblks + heap.hblkhd);
}

/// One line on a terminal's standard error; nothing elsewhere.
void show_progress(std::string_view what, std::size_t done, std::size_t of) {
  fmt::print(stderr, "\r\033[K{} {}/{}", what, done, of);
  std::fflush(stderr);
}

evaluate::StudyOptions study_of(const Flags& flags) {
  evaluate::StudyOptions study = flags.study;
  study.read.cap = Tokens(flags.cap);
  study.read.warn = [](const std::string& what) {
    fmt::print(stderr, "tailrace evaluate: {}\n", what);
  };
  if (flags.leave_one_out) study.leave_one_out = flags.left;
  if (flags.cost) {
    study.cpu_seconds = cpu_seconds;
    study.heap_bytes = heap_bytes;
  }
  if (isatty(STDERR_FILENO)) study.progress = show_progress;
  return study;
}

int execute(const Flags& flags) {
  // Before the work, not after it.
  const Output html{"--html", flags.html_file};
  if (const auto writable = may_write_all({&html, 1}, flags.study.inputs); !writable) {
    fmt::print(stderr, "tailrace evaluate: {}\n", writable.error().message);
    return kExitUsage;
  }
  const auto study = study_of(flags);
  const auto reports = run_study(study);
  if (study.progress) fmt::print(stderr, "\r\033[K");
  if (!reports) {
    fmt::print(stderr, "tailrace evaluate: {}\n", reports.error().message);
    return kExitUsage;
  }
  if (flags.json) {
    fmt::print("{}\n", evaluate::to_json(*reports));
  } else {
    for (std::size_t i = 0; i < reports->size(); ++i) {
      fmt::print("{}{}", i == 0 ? "" : "\n", evaluate::to_text((*reports)[i], flags.curve));
    }
  }
  if (!flags.html_file.empty()) {
    const auto written = core::write_file_atomically(flags.html_file, evaluate::to_html(*reports));
    if (!written) {
      fmt::print(stderr, "tailrace evaluate: --html: {}\n", written.error().message);
      return kExitFailed;
    }
    fmt::print(stderr, "wrote {}\n", flags.html_file);
  }
  return 0;
}

/// The library would let -1 wrap around to the greatest number.
const CLI::Validator kNotNegative(
    [](const std::string& given) {
      return given.starts_with('-')
                 ? fmt::format("{} is negative; give a whole number from 0", core::quoted(given))
                 : std::string();
    },
    "");

void add_data_options(CLI::App& command, Flags& flags) {
  auto& study = flags.study;
  command
      .add_option("input", study.inputs,
                  "Files or folders of recorded requests; - for standard input")
      ->required();
  command.add_flag("--together", study.together, "All inputs as one stream");
  command.add_flag("--in-order", study.in_order, "Rows as they stand, instead of shuffled");
  command.add_option("--seed", study.seed, "Seed of the order and of everything drawn")
      ->check(kNotNegative)
      ->capture_default_str();
  command.add_option("--cap", flags.cap, "Limit in tokens of a request that names none")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command
      .add_option("--answers", study.answers,
                  "At most so many answers of each model to each prompt; 0: all")
      ->check(kNotNegative);
  command.add_option("--skip", study.skip, "Rows to learn from before scoring begins")
      ->check(kNotNegative);
}

void add_experiment_options(CLI::App& command, Flags& flags) {
  command
      .add_option("--predictor", flags.study.predictors,
                  "Only these: online, prior, route, prompt-length, global, max-tokens, "
                  "prompt-oracle, oracle")
      ->delimiter(',');
  command.add_flag("--leave-one-model-out", flags.leave_one_out,
                   "How soon is an unseen model's order learned? Takes 1,200 answers of each "
                   "of two models or more");
  command.add_option("--models", flags.left.models, "So many models are left out in turn")
      ->check(CLI::Range(2, 10'000))
      ->capture_default_str();
  command
      .add_option("--other-rows", flags.left.other_rows,
                  "Rows of the other models to learn before; 0: all")
      ->check(kNotNegative)
      ->capture_default_str();
  command
      .add_option("--poison", flags.study.poisons,
                  "Attack by a second tenant: all, aborts, constant, one-token, at-cap, "
                  "empty-prompts, huge-prompts, random-bytes")
      ->delimiter(',');
  command
      .add_option("--poison-share", flags.study.poison_share, "The attacker's share of the rows")
      ->capture_default_str();
}

}  // namespace

void add_evaluate(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("evaluate", kAbout);
  auto flags = std::make_shared<Flags>();
  add_data_options(*command, *flags);
  add_experiment_options(*command, *flags);
  command->add_flag("--curve", flags->curve, "Print learning curves too");
  command->add_flag("--cost", flags->cost, "Measure CPU time and memory (differs by run)");
  command->add_flag("--json", flags->json, "Print one JSON document");
  command->add_option("--html", flags->html_file, "Write a report for a browser there");
  command->callback([flags, &exit_code] { exit_code = execute(*flags); });
}

}  // namespace tailrace::cli
