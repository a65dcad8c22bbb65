#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "tailrace/core/text.h"
#include "tailrace/length/tie_score.h"
#include "tailrace/schedule/policy.h"

namespace tailrace::cli {
namespace {

constexpr const char* kAbout =
    "Score one request by the law of its answer's length: TIE's E + beta × CVaR of the length "
    "capped at "
    "--max-tokens. Smaller goes first.\n\n"
    "Example: tailrace score --mu 5 --sigma 0.5 --max-tokens 2048 --queue 64 --batch 32 --json";

/// The flags as given. Numbers stay text until we read them, so that our errors name flag, value
/// and remedy.
struct Flags {
  std::string mu, sigma, nu = "3.5", max_tokens, level = "0.9", seed = "0", method = "quadrature";
  std::optional<std::string> beta, queue, batch;
  bool released_code = false;
  bool json = false;
};

Result<double> real(const char* flag, const std::string& text, const char* remedy) {
  const auto value = core::parse_double(text);
  if (value) return *value;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: {} is not a number; give {}", flag, core::quoted(text), remedy));
}

Result<std::int64_t> whole(const char* flag, const std::string& text, std::int64_t least,
                           const char* remedy) {
  const auto value = core::parse_int(text);
  if (value && *value >= least) return *value;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: {} is not a whole number of at least {}; give {}", flag,
                          core::quoted(text), least, remedy));
}

/// Beta as given, or by TIE's Eq. 12 from the queue.
Result<double> read_beta(const Flags& flags) {
  const bool by_queue = flags.queue.has_value() || flags.batch.has_value();
  if (flags.beta && by_queue) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("beta: {} was given together with {}; give either --beta, or --queue and "
                    "--batch from which it follows",
                    core::quoted(*flags.beta), flags.queue ? "--queue" : "--batch"));
  }
  if (flags.beta) return real("beta", *flags.beta, "a weight of at least 0, such as 0.1");
  if (!by_queue) {
    return fail(
        ErrorCode::kInvalidArgument,
        "beta: missing; give --beta (such as 0.1), or --queue and --batch from which it follows");
  }
  if (!flags.queue || !flags.batch) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: missing; --queue and --batch go together (requests waiting, and the "
                    "engine's limit of concurrent sequences)",
                    flags.queue ? "batch" : "queue"));
  }
  const auto queue = whole("queue", *flags.queue, 0, "the number of requests that wait");
  if (!queue) return fail(queue.error());
  const auto batch = whole("batch", *flags.batch, 1, "the engine's limit of concurrent sequences");
  if (!batch) return fail(batch.error());
  return schedule::adaptive_beta(static_cast<std::size_t>(*queue),
                                 static_cast<std::size_t>(*batch));
}

Result<length::ScoreRequest> read(const Flags& flags) {
  const auto mu = real("mu", flags.mu, "the mean of ln(tokens), such as 5");
  if (!mu) return fail(mu.error());
  const auto sigma = real("sigma", flags.sigma, "the scale of ln(tokens), such as 0.75");
  if (!sigma) return fail(sigma.error());
  const auto nu = real("nu", flags.nu, "the degrees of freedom, such as 3.5");
  if (!nu) return fail(nu.error());
  const auto cap =
      whole("max-tokens", flags.max_tokens, 1, "the request's own limit, such as 2048");
  if (!cap) return fail(cap.error());
  const auto level = real("level", flags.level, "a probability such as 0.9");
  if (!level) return fail(level.error());
  const auto method = length::parse_score_method(flags.method);
  if (!method) return fail(method.error());
  const auto seed = whole("seed", flags.seed, 0, "the seed of the Monte-Carlo draws");
  if (!seed) return fail(seed.error());
  const auto beta = read_beta(flags);
  if (!beta) return fail(beta.error());
  if (flags.released_code && *method != length::ScoreMethod::kMonteCarlo) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("released-code: not possible with --method {}; give --method monte-carlo",
                    flags.method));
  }
  length::ScoreRequest request;
  request.law = {*mu, *sigma, *nu};
  request.cap = Tokens{*cap};
  request.beta = *beta;
  request.level = *level;
  request.method = *method;
  request.seed = static_cast<std::uint64_t>(*seed);
  request.monte_carlo.released_code = flags.released_code;
  return request;
}

/// Every field in the order of the document; fmt prints a double so that it reads back as itself.
void print_json(const length::ScoreReport& r) {
  fmt::print(
      "{{\"mean\":{},\"var\":{},\"cvar\":{},\"beta\":{},\"score\":{},\"p_cap\":{},\"median\":{},"
      "\"ratio\":{},\"gittins\":{}}}\n",
      r.mean, r.var, r.cvar, r.beta, r.score, r.p_cap, r.median, r.ratio, r.gittins);
}

void print_table(const length::ScoreReport& r, const length::ScoreRequest& request) {
  const double percent = 100 * request.level;
  fmt::print("score    {:>14.3f}  mean + beta × cvar; smaller goes first\n", r.score);
  fmt::print("mean     {:>14.3f}  tokens, capped at {}\n", r.mean, request.cap.count());
  fmt::print("median   {:>14.3f}  tokens, capped\n", r.median);
  fmt::print("var      {:>14.3f}  tokens; {:.6g} % of answers are no longer\n", r.var, percent);
  fmt::print("cvar     {:>14.3f}  tokens; mean of the longest {:.6g} %\n", r.cvar, 100 - percent);
  fmt::print("beta     {:>14.3f}  weight of the tail\n", r.beta);
  fmt::print("p_cap    {:>14.3g}  chance that the limit cuts the answer\n", r.p_cap);
  fmt::print("ratio    {:>14.6g}  E[L]/E[1/L], the order for latency per token\n", r.ratio);
  fmt::print("gittins  {:>14.3f}  tokens; rank before the first token, quantum {}\n", r.gittins,
             length::kScoreQuantum.count());
}

int run(const Flags& flags) {
  const auto request = read(flags);
  const auto report =
      request ? length::score_report(*request) : Result<length::ScoreReport>(fail(request.error()));
  if (!report) {
    fmt::print(stderr, "tailrace score: --{}\n", report.error().message);
    return kExitUsage;
  }
  if (flags.json) {
    print_json(*report);
  } else {
    print_table(*report, *request);
  }
  return 0;
}

}  // namespace

void add_score(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("score", kAbout);
  auto flags = std::make_shared<Flags>();
  command->add_option("--mu", flags->mu, "Mean of ln(tokens): ln of the median length")->required();
  command->add_option("--sigma", flags->sigma, "Scale of ln(tokens), > 0")->required();
  command->add_option("--nu", flags->nu, "Degrees of freedom of the tail, ≥ 0.1")
      ->capture_default_str();
  command->add_option("--max-tokens", flags->max_tokens, "The request's own limit, tokens ≥ 1")
      ->required();
  command->add_option("--beta", flags->beta, "Weight of the tail, ≥ 0");
  command->add_option("--queue", flags->queue, "Requests waiting; with --batch instead of --beta");
  command->add_option("--batch", flags->batch, "The engine's limit of concurrent sequences");
  command->add_option("--level", flags->level, "Level of VaR and CVaR, between 0 and 1")
      ->capture_default_str();
  command->add_option("--method", flags->method, "quadrature, table or monte-carlo (10,000 draws)")
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "Seed of the Monte-Carlo draws")
      ->capture_default_str();
  command->add_flag(
      "--released-code", flags->released_code,
      "Monte-Carlo with the fixed caps and the rounding of the code published with TIE");
  command->add_flag("--json", flags->json, "Print one JSON document");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tailrace::cli
