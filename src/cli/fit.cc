#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "cli/output_file.h"
#include "tailrace/core/text.h"
#include "tailrace/evaluate/fit_document.h"
#include "tailrace/evaluate/fit_plot.h"
#include "tailrace/evaluate/fit_run.h"
#include "tailrace/evaluate/fit_summary.h"

namespace tailrace::cli {
namespace {

/// Few enough for a terminal to show each one's laws.
constexpr std::size_t kPromptsShown = 3;

constexpr const char* kAbout =
    "Fit laws to the recorded lengths of each prompt's answers, and say how well they fit.\n\n"
    "FILE: JSON lines {\"id\": \"p1\", \"lengths\": [12, 40, …], \"cap\": 2048} (lengths equal to "
    "the cap were cut there; cap may be left out), or CSV; plain, gzip, zstd, xz or bzip2; \"-\" "
    "is "
    "standard input. Headers of CSV: id,length[,cap] (an answer a row; tokens or output_tokens do "
    "for length), id,lengths[,cap] (a cell holds \"12 40\"), id,length_1,length_2,…[,cap] (a "
    "prompt a "
    "row).\n\n"
    "Examples:\n"
    "  echo '{\"id\": \"a\", \"lengths\": [12, 40, 33, 25, 61, 18, 22, 95, 47, 30]}' | tailrace "
    "fit -\n"
    "  printf 'id,length\\na,12\\na,40\\na,33\\na,25\\n' | tailrace fit - --family log-t,gamma "
    "--bootstrap 200\n"
    "  echo '{\"id\": \"a\", \"lengths\": [12, 40, 33, 25, 61]}' | tailrace fit - --plot a --out "
    "a.svg";

struct Flags {
  std::vector<std::string> files;
  std::string family = "all", nu = "3.5", bootstrap = "0", seed = "0", threads, level = "0.05";
  std::string min_lengths = "10", min_distinct = "5", max_capped = "0.02", holdout_min = "50";
  std::string plot, out;
  bool holdout = false, pool = false, json = false;
};

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<std::size_t> whole(const char* flag, const std::string& text, std::int64_t least,
                          std::int64_t most) {
  const auto value = core::parse_int(text);
  if (value && *value >= least && *value <= most) return static_cast<std::size_t>(*value);
  return bad(fmt::format("--{}: {} is not a whole number from {} to {}", flag, core::quoted(text),
                         least, most));
}

Result<double> share(const char* flag, const std::string& text, const char* remedy) {
  const auto value = core::parse_double(text);
  if (value && *value > 0 && *value <= 1) return *value;
  return bad(fmt::format("--{}: {} is not a share above 0 and at most 1; give {}", flag,
                         core::quoted(text), remedy));
}

Result<std::vector<length::Family>> read_families(const std::string& text) {
  using enum length::Family;
  constexpr std::array kKnown{kLogT,        kLogNormal, kGamma,  kWeibull,
                              kExponential, kLomax,     kBinned, kMixture};
  const auto standard = evaluate::standard_families();
  if (text == "all") return std::vector(standard.begin(), standard.end());
  std::vector<length::Family> families;
  for (const std::string_view name : core::split(text, ',')) {
    const auto at = std::find_if(kKnown.begin(), kKnown.end(), [&](length::Family family) {
      return length::family_name(family) == name;
    });
    if (at == kKnown.end()) {
      return bad(
          fmt::format("--family: {} is unknown; give log-t, log-normal, gamma, weibull, "
                      "exponential, lomax, binned, mixture (several with commas), or all",
                      core::quoted(name)));
    }
    if (std::find(families.begin(), families.end(), *at) != families.end()) {
      return bad(fmt::format("--family: {} is given twice; name each once", core::quoted(name)));
    }
    families.push_back(*at);
  }
  return families;
}

struct Request {
  evaluate::FitRunOptions options;
  double level = 0.05;
};

Result<Request> read(const Flags& flags) {
  Request request;
  evaluate::FitRunOptions& options = request.options;
  auto families = read_families(flags.family);
  if (!families) return fail(families.error());
  options.families = std::move(*families);
  if (flags.nu == "free") {
    options.fit.nu = std::nullopt;
  } else {
    const auto nu = core::parse_double(flags.nu);
    if (!nu || !(*nu >= 0.1) || !(*nu <= 1e6)) {
      return bad(
          fmt::format("--nu: {} is not a number from 0.1 to 1e6; give the degrees of freedom "
                      "of log-t, such as 3.5, or free",
                      core::quoted(flags.nu)));
    }
    options.fit.nu = *nu;
  }
  const auto bootstrap = whole("bootstrap", flags.bootstrap, 0, 1'000'000);
  if (!bootstrap) return fail(bootstrap.error());
  options.bootstrap = static_cast<int>(*bootstrap);
  const auto seed = whole("seed", flags.seed, 0, INT64_MAX);
  if (!seed) return fail(seed.error());
  options.seed = *seed;
  options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (!flags.threads.empty()) {
    const auto threads = whole("threads", flags.threads, 1, 256);
    if (!threads) return fail(threads.error());
    options.threads = static_cast<int>(*threads);
  }
  const auto min_lengths = whole("min-lengths", flags.min_lengths, 1, 1'000'000'000);
  if (!min_lengths) return fail(min_lengths.error());
  options.rules.min_lengths = *min_lengths;
  const auto min_distinct = whole("min-distinct", flags.min_distinct, 1, 1'000'000'000);
  if (!min_distinct) return fail(min_distinct.error());
  options.rules.min_distinct = *min_distinct;
  const auto max_capped = share("max-capped", flags.max_capped, "0.02");
  if (!max_capped) return fail(max_capped.error());
  options.rules.max_capped_share = *max_capped;
  const auto level = share("level", flags.level, "0.05");
  if (!level) return fail(level.error());
  request.level = *level;
  options.holdout = flags.holdout;
  const auto holdout_min = whole("holdout-min", flags.holdout_min, 4, 1'000'000'000);
  if (!holdout_min) return fail(holdout_min.error());
  options.holdout_min = *holdout_min;
  if (flags.plot.empty() != flags.out.empty()) {
    return bad(fmt::format("--{}: missing; --plot ID and --out FILE.svg go together",
                           flags.plot.empty() ? "plot" : "out"));
  }
  const std::string ending = std::filesystem::path(flags.out).extension().string();
  if (!ending.empty() && !core::iequals(ending, ".svg")) {
    return bad(fmt::format("--out: {} ends in {}, but the drawing is SVG; give FILE.svg",
                           core::quoted(flags.out), core::quoted(ending)));
  }
  const Output out{"--out", flags.out};
  if (auto writable = may_write_all({&out, 1}, flags.files); !writable) {
    return fail(writable.error());
  }
  return request;
}

/// Holds the document until it is whole, so that a reader gets all of it or nothing.
class Spool {
 public:
  ~Spool() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Result<void> open() {
    file_ = std::tmpfile();
    return file_ != nullptr ? Result<void>() : failed("cannot make a temporary file");
  }
  Result<void> write(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), file_) == text.size()) return {};
    return failed("cannot write a temporary file");
  }
  Result<void> print() {
    std::rewind(file_);
    std::array<char, 65536> buffer;
    std::size_t n = 0;
    while ((n = std::fread(buffer.data(), 1, buffer.size(), file_)) > 0) {
      if (std::fwrite(buffer.data(), 1, n, stdout) != n) return failed("cannot write the document");
    }
    if (std::fflush(stdout) != 0) return failed("cannot write the document");
    return {};
  }

 private:
  static tl::unexpected<Error> failed(const char* what) {
    return fail(ErrorCode::kUnavailable, fmt::format("{}: {}", what, std::strerror(errno)));
  }
  std::FILE* file_ = nullptr;
};

/// Says on a terminal that a long run goes on.
class Progress {
 public:
  void prompt_done() {
    ++prompts_;
    const auto now = Clock::now();
    if (!on_terminal_ || now < next_) return;
    next_ = now + std::chrono::milliseconds(500);
    fmt::print(stderr, "\rprompts fitted: {}", prompts_);
    shown_ = true;
  }
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r{:40}\r", "");
  }

 private:
  using Clock = std::chrono::steady_clock;
  const bool on_terminal_ = ::isatty(STDERR_FILENO) != 0;
  Clock::time_point next_ = Clock::now() + std::chrono::seconds(2);
  std::size_t prompts_ = 0;
  bool shown_ = false;
};

Result<void> run_fit(const Flags& flags, const Request& request) {
  dataset::SampleOptions reading;
  reading.pool = flags.pool;
  dataset::SampleReader samples(flags.files, reading);
  evaluate::FitSummary summary(request.options, request.level);
  Spool spool;
  if (flags.json) {
    if (auto opened = spool.open(); !opened) return opened;
    if (auto written = spool.write("{\"prompts\":["); !written) return written;
  }
  std::optional<std::string> plot;
  std::size_t plotted = 0;
  std::string shown;
  {
    Progress progress;
    const auto done = evaluate::fit_run(
        samples, request.options, [&](evaluate::PromptFit prompt) -> Result<void> {
          if (!flags.plot.empty() && prompt.sample.id == flags.plot && ++plotted == 1) {
            plot = report::svg(evaluate::fit_figure(prompt));
          }
          if (flags.json) {
            std::string text = evaluate::prompt_json(prompt);
            if (summary.prompts > 0) text.insert(0, ",\n");
            if (auto written = spool.write(text); !written) return written;
          } else if (summary.prompts < kPromptsShown) {
            shown += evaluate::prompt_text(prompt) + "\n";
          }
          summary.add(prompt);
          progress.prompt_done();
          return {};
        });
    if (!done) return done;
  }
  if (!flags.plot.empty()) {
    if (!plot) {
      return bad(fmt::format("--plot: no prompt has the id {}; give one of the file's ids",
                             core::quoted(flags.plot)));
    }
    if (plotted > 1) {
      return bad(fmt::format("--plot: {} prompts have the id {}; give each its own id", plotted,
                             core::quoted(flags.plot)));
    }
    if (auto written = core::write_file_atomically(flags.out, *plot); !written) {
      return fail(ErrorCode::kUnavailable, "--out: " + written.error().message);
    }
    fmt::print(stderr, "wrote {}\n", flags.out);
  }
  if (!flags.json) {
    if (summary.prompts <= kPromptsShown) fmt::print("{}", shown);
    fmt::print("{}", evaluate::summary_text(summary));
    return {};
  }
  const std::string end = fmt::format("],\n\"summary\":{}}}\n", evaluate::summary_json(summary));
  if (auto written = spool.write(end); !written) return written;
  return spool.print();
}

int run(const Flags& flags) {
  const auto request = read(flags);
  const auto done = request ? run_fit(flags, *request) : Result<void>(fail(request.error()));
  if (done) return 0;
  fmt::print(stderr, "tailrace fit: {}\n", done.error().message);
  // What we could not write is our failure, all else is the input's.
  return done.error().code == ErrorCode::kUnavailable ? kExitFailed : kExitUsage;
}

}  // namespace

void add_fit(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("fit", kAbout);
  auto flags = std::make_shared<Flags>();
  command->add_option("FILE", flags->files, "Recorded lengths")->required();
  command
      ->add_option(
          "--family", flags->family,
          "log-t, log-normal, gamma, weibull, exponential, lomax, binned, mixture (several "
          "with commas), or all: the first six")
      ->capture_default_str();
  command->add_option("--nu", flags->nu, "Degrees of freedom of log-t, ≥ 0.1, or free (1 to 200)")
      ->capture_default_str();
  command
      ->add_option("--bootstrap", flags->bootstrap,
                   "Resamples behind each p-value for fitted parameters; 0: from tables, where "
                   "there are any")
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "Seed of bootstrap and halves")->capture_default_str();
  command->add_option("--threads", flags->threads,
                      "Threads that fit; all of the machine's if left out");
  command->add_flag("--holdout", flags->holdout,
                    "Also fit to half of each prompt's lengths and judge by the other half; all "
                    "eight laws, whatever --family names");
  command
      ->add_option("--holdout-min", flags->holdout_min,
                   "Hold out only prompts of at least so many lengths")
      ->needs("--holdout")
      ->capture_default_str();
  command->add_flag(
      "--pool", flags->pool,
      "Put records of one (model, prompt) together, whatever their sampling settings");
  command->add_option("--plot", flags->plot,
                      "Draw this prompt's histogram with the fits, to --out");
  command->add_option("--out", flags->out, "Where the drawing goes: FILE.svg");
  command->add_option("--level", flags->level, "A p-value above it passes")->capture_default_str();
  command
      ->add_option("--min-lengths", flags->min_lengths,
                   "Prompts with fewer lengths do not count in the summary")
      ->capture_default_str();
  command
      ->add_option("--min-distinct", flags->min_distinct,
                   "Nor do prompts with fewer distinct lengths")
      ->capture_default_str();
  command
      ->add_option("--max-capped", flags->max_capped,
                   "Nor do prompts with this share of lengths at the cap, or more")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print one JSON document");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tailrace::cli
