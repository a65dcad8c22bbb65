#include "cli/presets.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <memory>

#include "cli/commands.h"
#include "tailrace/core/text.h"
#include "tailrace/engine/presets.h"
#include "tailrace/report/table.h"

namespace tailrace::cli {
namespace {

boost::json::object document(const engine::Preset& preset) {
  const engine::EngineConfig& c = preset.config;
  return {{"name", preset.name},
          {"description", preset.description},
          {"alpha_ms", c.cost.alpha_ms},
          {"beta_ms", c.cost.beta_ms},
          {"gamma_ms", c.cost.gamma_ms},
          {"knee_tokens", c.cost.knee_tokens},
          {"max_num_seqs", c.max_num_seqs},
          {"max_batched_tokens", c.max_batched_tokens},
          {"block_tokens", c.block_tokens},
          {"kv_blocks", c.kv_blocks},
          {"kv_tokens", c.usable_blocks() * c.block_tokens},
          {"source", preset.source},
          {"caveat", preset.caveat}};
}

void print_wrapped(std::string_view label, std::string_view text) {
  constexpr std::size_t kColumns = 96;
  std::string line = fmt::format("  {}:", label);
  for (const std::string_view word : core::split(text, ' ')) {
    if (line.size() + 1 + word.size() > kColumns) {
      fmt::print("{}\n", line);
      line = "   ";
    }
    line += " ";
    line += word;
  }
  fmt::print("{}\n", line);
}

}  // namespace

void print_presets(bool json) {
  if (json) {
    boost::json::array all;
    for (const engine::Preset& preset : engine::presets()) all.push_back(document(preset));
    fmt::print("{}\n", boost::json::serialize(boost::json::object{{"presets", std::move(all)}}));
    return;
  }
  using Align = report::Table::Align;
  report::Table table({{"name", Align::kLeft},
                       {"alpha_ms"},
                       {"beta_ms"},
                       {"gamma_ms"},
                       {"knee_tokens"},
                       {"max_num_seqs"},
                       {"max_batched_tokens"},
                       {"block_tokens"},
                       {"kv_blocks"},
                       {"what", Align::kLeft}});
  for (const engine::Preset& preset : engine::presets()) {
    const engine::EngineConfig& c = preset.config;
    table.add_row({std::string(preset.name), fmt::format("{}", c.cost.alpha_ms),
                   fmt::format("{}", c.cost.beta_ms), fmt::format("{}", c.cost.gamma_ms),
                   fmt::format("{}", c.cost.knee_tokens), fmt::format("{}", c.max_num_seqs),
                   fmt::format("{}", c.max_batched_tokens), fmt::format("{}", c.block_tokens),
                   fmt::format("{}", c.kv_blocks), std::string(preset.description)});
  }
  fmt::print("{}", table.text());
  for (const engine::Preset& preset : engine::presets()) {
    fmt::print("\n{}\n", preset.name);
    print_wrapped("source", preset.source);
    print_wrapped("caveat", preset.caveat);
  }
}

void add_presets(CLI::App& app, int& exit_code) {
  (void)exit_code;
  auto* command = app.add_subcommand(
      "presets",
      "List the engines that `engine --preset` and experiments can name, and where their numbers "
      "come from.\n\nExample: tailrace presets --json");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print one JSON document");
  command->callback([json] { print_presets(*json); });
}

}  // namespace tailrace::cli
