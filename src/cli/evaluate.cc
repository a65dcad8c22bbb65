// `tailrace evaluate`: how good is a predictor of answer lengths?
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <set>

#include "cli/commands.h"
#include "tailrace/evaluate/baselines.h"
#include "tailrace/evaluate/prequential.h"
#include "tailrace/evaluate/text_report.h"

namespace tailrace::cli {
namespace {

struct Options {
  std::vector<std::string> inputs;
  std::vector<std::string> predictors;
  std::uint64_t seed = 1;
  std::int64_t cap = 4096;
  std::size_t answers = 0;
  bool in_order = false;
};

int execute(const Options& options) {
  for (const auto& input : options.inputs) {
    evaluate::ReadOptions read;
    read.cap = Tokens(options.cap);
    auto set = evaluate::read_rows(input, read);
    if (!set) {
      fmt::print(stderr, "tailrace evaluate: {}\n", set.error().message);
      return kExitUsage;
    }
    if (!options.in_order) shuffle(set->rows, Rng(options.seed).fork("order"));
    keep_per_group(set->rows, options.answers);
    evaluate::SetReport report;
    report.set = set->name;
    report.rows = set->rows.size();
    std::set<std::uint64_t> groups;
    for (const auto& row : set->rows) {
      groups.insert(row.group);
      report.cut += row.truth.censored;
    }
    report.prompts = groups.size();
    for (const auto& contestant : evaluate::contestants()) {
      if (!options.predictors.empty() &&
          std::find(options.predictors.begin(), options.predictors.end(), contestant.name) ==
              options.predictors.end()) {
        continue;
      }
      auto predictor = make_contestant(contestant, set->rows);
      evaluate::PrequentialOptions how;
      how.seed = options.seed;
      report.evaluations.push_back(prequential(*predictor, set->rows, how));
      report.evaluations.back().order_only = contestant.order_only;
    }
    fmt::print("{}\n", to_text(report, false));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

void add_evaluate(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("evaluate", "How good is a predictor of answer lengths?");
  auto options = std::make_shared<Options>();
  command->add_option("input", options->inputs, "Files or folders")->required();
  command->add_option("--predictor", options->predictors, "Only these")->delimiter(',');
  command->add_option("--seed", options->seed, "Seed");
  command->add_option("--cap", options->cap, "Limit of a request that names none");
  command->add_option("--answers", options->answers, "Answers per model and prompt; 0: all");
  command->add_flag("--in-order", options->in_order, "Do not shuffle");
  command->callback([options, &exit_code] { exit_code = execute(*options); });
}

}  // namespace tailrace::cli
