#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cli/commands.h"
#include "cli/json_object.h"
#include "cli/output_file.h"
#include "cli/service_flags.h"
#include "tailrace/core/printable.h"
#include "tailrace/core/text.h"
#include "tailrace/dataset/csv.h"
#include "tailrace/tune/defaults.h"
#include "tailrace/tune/estimator.h"
#include "tailrace/tune/observation_table.h"

namespace tailrace::cli {
namespace {

constexpr std::size_t kLineBytesMax = std::size_t{1} << 20;
constexpr std::size_t kStateBytesMax = std::size_t{1} << 20;

constexpr const char* kAbout =
    "Learn a replica's alpha, beta and gamma from what its pods reported, cycle by cycle.\n\n"
    "FILE: CSV with the header time_s,pod,rate,input,output,ttft_ms,itl_ms and, where known, "
    "running, requests, output_cv, input_cv, prefix_hit, waiting, "
    "itl_per_sequence_ms, itl_per_sequence_error; rows of one variant, sorted by time_s; an empty "
    "cell or NaN is a missing number; plain, gzip, zstd, xz or bzip2; \"-\" is "
    "standard input. rate is in requests/s, input and output are mean tokens.\n\n"
    "Example: tailrace tune metrics.csv --max-batch 256 --ttft 500 --itl 50";

/// The flags as given. Numbers stay text until we read them, so that our errors name flag, value
/// and remedy.
struct Flags {
  std::string file, estimator = "windowed", ttft = "0", itl = "0";
  std::string max_batch = "256", max_batched_tokens = "8192", kv_tokens = "0", knee_tokens = "0";
  std::string iterations = "output";
  std::optional<std::string> model, max_queue, load, save;
  bool json = false;
};

Result<std::int64_t> whole(const char* flag, const std::string& text, const char* remedy) {
  if (const auto value = core::parse_int(text)) return *value;
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {} is not a whole number; give {}",
                                                       flag, core::quoted(text), remedy));
}

Result<queueing::Mode> read_mode(const Flags& flags, tune::EstimatorKind estimator) {
  if (!flags.model) return queueing::Mode::kChain;
  const auto mode = queueing::parse_mode(*flags.model);
  if (!mode) return fail(mode.error().with_context("model"));
  if (estimator == tune::EstimatorKind::kWindowed && *mode != queueing::Mode::kCorrected) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("model: windowed learns by corrected only, not by {}; leave --model "
                            "out, or give --estimator kalman",
                            *flags.model));
  }
  return *mode;
}

Result<tune::TuneConfig> read(const Flags& flags) {
  tune::TuneConfig config;
  const auto estimator = tune::parse_estimator(flags.estimator);
  if (!estimator) return fail(estimator.error().with_context("estimator"));
  config.estimator = *estimator;
  const auto mode = read_mode(flags, *estimator);
  if (!mode) return fail(mode.error());
  config.observation_mode = *mode;
  for (const auto& [flag, text, into, remedy] :
       {std::tuple{"max-batch", &flags.max_batch, &config.limits.max_num_seqs,
                   "the engine's limit of concurrent sequences, such as 256"},
        {"max-batched-tokens", &flags.max_batched_tokens, &config.limits.max_batched_tokens,
         "the engine's limit of tokens an iteration, such as 8192, or 0 for none"},
        {"kv-tokens", &flags.kv_tokens, &config.limits.kv_tokens,
         "the tokens of context that fit in memory, such as 226992, or 0 for no limit"}}) {
    const auto value = whole(flag, *text, remedy);
    if (!value) return fail(value.error());
    *into = *value;
  }
  for (const auto& [flag, text, into, remedy] :
       {std::tuple{"ttft", &flags.ttft, &config.ttft_ms, "milliseconds, or 0 for no target"},
        {"itl", &flags.itl, &config.itl_ms, "milliseconds, or 0 for no target"},
        {"knee-tokens", &flags.knee_tokens, &config.knee_tokens,
         "the tokens that an iteration computes at no cost, such as 0"}}) {
    const auto value = read_real(flag, *text, remedy);
    if (!value) return fail(value.error());
    *into = *value;
  }
  if (flags.iterations == "output+1") {
    config.iterations = queueing::Iterations::kOutputPlusOne;
  } else if (flags.iterations != "output") {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("iterations: {} is unknown; give output (as vLLM) or output+1 (as "
                            "published)",
                            core::quoted(flags.iterations)));
  }
  if (const auto ok = config.check(); !ok) return fail(ok.error());
  config.limits.max_queue = tune::kFilterQueuePerSequence * config.limits.max_num_seqs;
  if (flags.max_queue) {
    const auto queue = whole("max-queue", *flags.max_queue, "how many may wait beside the batch");
    if (!queue) return fail(queue.error());
    config.limits.max_queue = *queue;
    if (const auto ok = config.check(); !ok) return fail(ok.error());
  }
  return config;
}

void print_json(double time_s, const tune::ParameterEstimate& e) {
  const auto parameter = [&](double queueing::IterationModel::* member) {
    return e.values ? std::optional(*e.values.*member) : std::nullopt;
  };
  JsonObject line;
  line.add("time_s", time_s)
      .add("alpha", parameter(&queueing::IterationModel::alpha_ms))
      .add("beta", parameter(&queueing::IterationModel::beta_ms))
      .add("gamma", parameter(&queueing::IterationModel::gamma_ms))
      .add("identified", e.identified)
      .add("condition", e.condition)
      .add("nis", e.nis)
      .add("holdout_error", e.holdout_error)
      .add("accepted", e.accepted)
      .add("rate", e.rate_per_s)
      .add("rate_low", e.rate_low_per_s)
      .add("rate_high", e.rate_high_per_s)
      .add_text("reason", core::printable(e.reason));
  fmt::print("{}\n", line.text());
}

void print_head() {
  fmt::print("{:>10} {:>10} {:>10} {:>10} {:>10} {:>21} {:>4} {:>4}  {}\n", "time_s", "alpha",
             "beta", "gamma", "rate", "90 % interval", "seen", "took", "why");
}

void print_row(double time_s, const tune::ParameterEstimate& e) {
  const auto cell = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.4g}", *value) : std::string("-");
  };
  const auto parameter = [&](double queueing::IterationModel::* member) {
    return cell(e.values ? std::optional(*e.values.*member) : std::nullopt);
  };
  const auto interval = e.rate_low_per_s && e.rate_high_per_s
                            ? fmt::format("{:.4g} to {:.4g}", *e.rate_low_per_s, *e.rate_high_per_s)
                            : std::string("-");
  fmt::print("{:>10.10g} {:>10} {:>10} {:>10} {:>10} {:>21} {:>4} {:>4}  {}\n", time_s,
             parameter(&queueing::IterationModel::alpha_ms),
             parameter(&queueing::IterationModel::beta_ms),
             parameter(&queueing::IterationModel::gamma_ms), cell(e.rate_per_s), interval,
             e.identified ? "yes" : "no", e.accepted ? "yes" : "no", core::printable(e.reason));
}

/// Runs the file through the estimator, a line for each cycle as it ends.
Result<void> follow(dataset::CsvReader& csv, tune::Estimator& estimator, bool json) {
  const auto at_line = [&](const Error& error) {
    return fail(csv.lines().at_line(error.code, error.message));
  };
  auto table = tune::ObservationTable::open(csv.header());
  if (!table) return at_line(table.error());
  bool any = false;
  const auto print = [&](const tune::Cycle& cycle) {
    if (!json && !any) print_head();
    any = true;
    (json ? print_json : print_row)(cycle.front().time_s, estimator.update(cycle));
    if (csv.lines().name() == "standard input") std::fflush(stdout);  // whoever writes may wait
  };
  std::vector<std::string> cells;
  while (true) {
    const auto row = csv.next(cells);
    if (!row) return fail(row.error());
    if (!*row) break;
    auto ended = table->add(cells);
    if (!ended) return at_line(ended.error());
    if (*ended) print(**ended);
  }
  if (const tune::Cycle last = table->finish(); !last.empty()) print(last);
  if (any) return {};
  return fail(ErrorCode::kInvalidArgument,
              csv.lines().name() + ": no row follows the header; give at least one observation");
}

/// What is wrong with a flag's value, with the dashes that people type.
Error of_flag(const Error& error) {
  return Error{error.code, "--" + error.message};
}

Result<void> load_state(tune::Estimator& estimator, const std::string& path) {
  const auto document = core::read_file(path, kStateBytesMax);
  if (!document) return fail(document.error().with_context("load"));
  const auto restored = estimator.restore(*document);
  if (!restored) return fail(restored.error().with_context("load: " + core::printable(path)));
  return {};
}

Result<void> learn(const Flags& flags) {
  const auto config = read(flags);
  if (!config) return fail(of_flag(config.error()));
  const auto estimator = tune::make_estimator(*config);
  if (!estimator) return fail(of_flag(estimator.error()));
  if (flags.save && flags.save->empty()) {
    return fail(ErrorCode::kInvalidArgument, "--save: is empty; give a file");
  }
  const Output state{"--save", flags.save.value_or("")};
  if (const auto ok = may_write_all({&state, 1}, {&flags.file, 1}); !ok) return fail(ok.error());
  if (flags.load) {
    if (const auto ok = load_state(**estimator, *flags.load); !ok) return fail(of_flag(ok.error()));
  }
  auto lines = dataset::LineReader::open(flags.file, kLineBytesMax);
  if (!lines) return fail(lines.error());
  auto csv = dataset::CsvReader::open(std::move(*lines));
  if (!csv) return fail(csv.error());
  if (const auto ok = follow(*csv, **estimator, flags.json); !ok) return fail(ok.error());
  if (!flags.save) return {};
  return core::write_file_atomically(*flags.save, (*estimator)->save());
}

int run(const Flags& flags) {
  const auto done = learn(flags);
  if (done) return 0;
  fmt::print(stderr, "tailrace tune: {}\n", done.error().message);
  return done.error().code == ErrorCode::kInternal ? kExitFailed : kExitUsage;
}

}  // namespace

void add_tune(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("tune", kAbout);
  auto flags = std::make_shared<Flags>();
  command->add_option("file", flags->file, "Recorded metrics, CSV; - for standard input")
      ->required();
  command
      ->add_option("--estimator", flags->estimator,
                   "windowed, or kalman: the specification's filter")
      ->capture_default_str();
  command->add_option("--model", flags->model,
                      "kalman: what predicts TTFT and ITL, closed-form, chain (its default) or "
                      "corrected");
  command->add_option("--max-batch", flags->max_batch, "Sequences in a batch")
      ->capture_default_str();
  command->add_option("--max-queue", flags->max_queue,
                      "chain: who may queue beside the batch [10 times --max-batch]");
  command->add_option("--kv-tokens", flags->kv_tokens, "Tokens that the KV cache holds, 0: unknown")
      ->capture_default_str();
  command
      ->add_option("--max-batched-tokens", flags->max_batched_tokens,
                   "Tokens computed in one iteration, 0: no limit")
      ->capture_default_str();
  command
      ->add_option("--knee-tokens", flags->knee_tokens,
                   "Tokens that an iteration computes at no cost")
      ->capture_default_str();
  command
      ->add_option("--ttft", flags->ttft,
                   "Target of mean TTFT in ms that the rates are about, 0: none")
      ->capture_default_str();
  command
      ->add_option("--itl", flags->itl,
                   "Target of mean ITL in ms that the rates are about, 0: none")
      ->capture_default_str();
  command
      ->add_option("--iterations", flags->iterations,
                   "corrected: iterations of a request, output (as vLLM) or output+1")
      ->capture_default_str();
  command->add_option("--load", flags->load, "Go on from a state that --save has written");
  command->add_option("--save", flags->save, "Write what was learnt to a file at the end");
  command->add_flag("--json", flags->json, "Print one JSON document for each time");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tailrace::cli
