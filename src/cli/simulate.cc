// `tailrace simulate`: what would happen to these requests on these engines under these policies?
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/output_file.h"
#include "tailrace/core/printable.h"
#include "tailrace/core/text.h"
#include "tailrace/simulate/experiment.h"
#include "tailrace/simulate/experiment_report.h"
#include "tailrace/simulate/experiment_run.h"
#include "tailrace/simulate/request_csv.h"

namespace tailrace::cli {
namespace {

constexpr const char* kAbout =
    "Simulate policies on engines before you deploy them: an experiment file (docs/simulate.md), "
    "or "
    "a trace with flags.\n\n"
    "Example: build/tailrace simulate experiments/first.yaml\n"
    "Example: build/tailrace simulate --trace requests.jsonl --policy fcfs,tie --predictor "
    "noisy-law --set predictor.r2_mu=0.6 --load 1.5\n\n"
    "Exit codes: 0 done, 1 an output could not be written, 2 bad usage or input";

struct Flags {
  std::string file;
  std::vector<std::string> traces;
  std::string preset, engines, policies, predictors, rate, load, speed, seed, seeds;
  std::vector<std::string> sets;
  std::size_t jobs = 0;
  bool json = false;
  bool keys = false;
  std::string csv, html;
};

int refused(std::string_view what) {
  fmt::print(stderr, "tailrace simulate: {}\n", what);
  return kExitUsage;
}

std::string yaml_list(const std::string& words) {
  return "[" + words + "]";
}

std::vector<simulate::Override> overrides_of(const Flags& flags) {
  std::vector<simulate::Override> given;
  const auto add = [&](const std::string& value, const char* key, const char* flag) {
    if (!value.empty()) given.push_back({key, value, flag});
  };
  std::string files;
  for (const std::string& file : flags.traces) {
    // A path of the command line is relative to where we are, that of a file to the file.
    const std::string path =
        flags.file.empty() || file == "-" ? file : std::filesystem::absolute(file).string();
    // A quote inside of single quotes is written twice.
    std::string quoted;
    for (const char c : path) quoted += c == '\'' ? "''" : std::string(1, c);
    files += (files.empty() ? "'" : ", '") + quoted + "'";
  }
  if (!files.empty()) add(yaml_list(files), "workload.trace.files", "--trace");
  add(flags.preset, "fleet.preset", "--preset");
  add(flags.engines, "fleet.engines", "--engines");
  // What is compared varies, even if there is only one of it.
  if (!flags.policies.empty()) add(yaml_list(flags.policies), "grid.policy.name", "--policy");
  if (flags.predictors.find(',') != std::string::npos) {
    add(yaml_list(flags.predictors), "grid.predictor.kind", "--predictor");
  } else {
    add(flags.predictors, "predictor.kind", "--predictor");
  }
  add(flags.rate, "workload.rate", "--rate");
  add(flags.load, "workload.load", "--load");
  add(flags.speed, "workload.trace.speed", "--speed");
  add(flags.seeds, "seeds", "--seeds");
  if (!flags.seed.empty()) add(yaml_list(flags.seed), "seeds", "--seed");
  return given;
}

/// One line on a terminal's standard error for what takes longer than two seconds.
class ProgressLine {
 public:
  void show(const simulate::Progress& p) {
    if (!on_terminal_ || Clock::now() < next_) return;
    next_ = Clock::now() + std::chrono::milliseconds(250);
    constexpr std::size_t kWidth = 30;
    const std::size_t filled = p.of > 0 ? kWidth * p.done / p.of : 0;
    fmt::print(stderr, "\r\033[K{} [{}{}] {}/{}, {} requests", p.what, std::string(filled, '#'),
               std::string(kWidth - filled, '.'), p.done, p.of, p.requests);
    std::fflush(stderr);
    shown_ = true;
  }
  ~ProgressLine() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }

 private:
  using Clock = std::chrono::steady_clock;
  const bool on_terminal_ = isatty(STDERR_FILENO) != 0;
  Clock::time_point next_ = Clock::now() + std::chrono::seconds(2);
  bool shown_ = false;
};

Result<simulate::Experiment> experiment_of(const Flags& flags) {
  std::vector<simulate::Override> given = overrides_of(flags);
  for (const std::string& set : flags.sets) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("--set: {} is not KEY=VALUE, such as policy.name=tie", core::quoted(set)));
    }
    given.push_back({set.substr(0, equals), set.substr(equals + 1), "--set"});
  }
  if (!flags.file.empty()) return simulate::load_experiment(flags.file, given);
  if (flags.traces.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "give an experiment file or --trace FILE; docs/simulate.md explains both");
  }
  return simulate::parse_experiment("", "flags", given, ".");
}

int not_written(std::string_view flag, const Error& error) {
  fmt::print(stderr, "tailrace simulate: {}: {}\n", flag, error.message);
  return kExitFailed;
}

int write_results(const Flags& flags, const simulate::Experiment& experiment,
                  const simulate::ExperimentResult& result, simulate::RequestCsv* csv) {
  if (csv != nullptr) {
    if (auto written = csv->commit(); !written) return not_written("--csv", written.error());
    fmt::print(stderr, "wrote {}\n", flags.csv);
  }
  if (!flags.html.empty()) {
    const auto written =
        core::write_file_atomically(flags.html, simulate::to_html(experiment, result));
    if (!written) return not_written("--html", written.error());
    fmt::print(stderr, "wrote {}\n", flags.html);
  }
  if (flags.json) {
    fmt::print("{}\n", simulate::to_json(experiment, result));
  } else {
    fmt::print("{}", simulate::to_text(experiment, result));
  }
  return 0;
}

int execute(const Flags& flags) {
  if (flags.keys) {
    fmt::print("{}", simulate::experiment_reference());
    return 0;
  }
  // Outputs are looked at before the work, not after it, and before the file that may be wrong.
  const std::vector<Output> outputs = {{"--csv", flags.csv}, {"--html", flags.html}};
  if (const auto writable = may_write_all(outputs, {}); !writable) {
    return refused(writable.error().message);
  }
  const auto experiment = experiment_of(flags);
  if (!experiment) return refused(experiment.error().message);
  if (const auto writable = may_write_all(outputs, experiment->inputs); !writable) {
    return refused(writable.error().message);
  }
  simulate::RunOptions options;
  options.jobs = flags.jobs > 0 ? flags.jobs : std::max(1u, std::thread::hardware_concurrency());
  std::unique_ptr<simulate::RequestCsv> csv;
  if (!flags.csv.empty()) {
    auto opened = simulate::RequestCsv::open(flags.csv, *experiment);
    if (!opened) return not_written("--csv", opened.error());
    csv = std::move(*opened);
    options.requests = csv.get();
  }
  Result<simulate::ExperimentResult> result;
  {
    ProgressLine line;
    options.progress = [&](const simulate::Progress& progress) { line.show(progress); };
    result = simulate::run_experiment(*experiment, options);
  }
  if (!result) {
    // What we could not write is our failure, all else is the input's.
    if (result.error().code == ErrorCode::kUnavailable) return not_written("--csv", result.error());
    return refused(result.error().message);
  }
  return write_results(flags, *experiment, *result, csv.get());
}

/// The library would take an empty text for an option that was not given.
const CLI::Validator kGiven(
    [](const std::string& given) { return given.empty() ? "is empty; give a value" : ""; }, "");

}  // namespace

void add_simulate(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("simulate", kAbout);
  auto flags = std::make_shared<Flags>();
  command->add_option("FILE", flags->file, "Experiment in YAML")->check(kGiven);
  command->add_option("--trace", flags->traces, "Recorded requests, in the place of a file")
      ->check(kGiven);
  command->add_option("--preset", flags->preset, "Engine; tailrace presets lists them")
      ->check(kGiven);
  command->add_option("--engines", flags->engines, "How many")->check(kGiven);
  command
      ->add_option("--policy", flags->policies,
                   "One or several, with commas; the first is what the others are compared with")
      ->check(kGiven);
  command->add_option("--predictor", flags->predictors, "One or several, with commas")
      ->check(kGiven);
  auto* rate = command->add_option("--rate", flags->rate, "Requests per second")->check(kGiven);
  command->add_option("--load", flags->load, "Rate as a share of the maximum rate")
      ->excludes(rate)
      ->check(kGiven);
  command->add_option("--speed", flags->speed, "A trace comes so many times faster")->check(kGiven);
  auto* seed = command->add_option("--seed", flags->seed, "The only seed")->check(kGiven);
  command->add_option("--seeds", flags->seeds, "So many seeds: 1, 2, ...")
      ->excludes(seed)
      ->check(kGiven);
  command->add_option("--set", flags->sets, "KEY=VALUE: any key of an experiment; may be repeated");
  command->add_option("--jobs", flags->jobs, "Threads; all of the machine's if left out")
      ->check(CLI::Range(1, 1024));
  command->add_option("--csv", flags->csv, "Write every request there")->check(kGiven);
  command->add_option("--html", flags->html, "Write a report for a browser there")->check(kGiven);
  command->add_flag("--json", flags->json, "Print one JSON document");
  command->add_flag("--keys", flags->keys, "Print the reference of all keys");
  command->callback([flags, &exit_code] { exit_code = execute(*flags); });
}

}  // namespace tailrace::cli
