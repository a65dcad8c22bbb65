#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/output_file.h"
#include "tailrace/capacity/cycle.h"
#include "tailrace/capacity/explain.h"
#include "tailrace/capacity/recorded_table.h"
#include "tailrace/core/printable.h"
#include "tailrace/core/text.h"
#include "tailrace/dataset/csv.h"
#include "tailrace/report/table.h"

namespace tailrace::cli {
namespace {

constexpr std::size_t kLineBytesMax = std::size_t{1} << 20;
constexpr std::size_t kConfigBytesMax = std::size_t{4} << 20;

constexpr const char* kAbout =
    "One analysis cycle on recorded metrics: how many replicas each variant should have, and "
    "why.\n\n"
    "FILE: CSV, one row per pod and time, sorted by time_s; plain, gzip, zstd, xz or bzip2; \"-\" "
    "is standard input. Header: "
    "time_s,namespace,model,variant,pod,rate,input,output,ttft_ms,itl_ms "
    "and, where known, accelerator; running, requests, output_cv, input_cv, prefix_hit, waiting, "
    "itl_per_sequence_ms, itl_per_sequence_error of the pod; current, pending, min, max, cost, "
    "gpus, max_batch, max_batched_tokens, kv_tokens, "
    "max_queue, knee_tokens, fingerprint, role, scaled_up_at_s of the variant; priority, "
    "gateway_queue "
    "of "
    "the model. Earlier times teach the estimators, the last one decides. An empty cell is "
    "unknown, "
    "which is not 0.\n\n"
    "Example: tailrace capacity metrics.csv --ttft 500 --itl 50\n"
    "A day, replayed with the windows of an autoscaler: tailrace capacity day.csv --config "
    "config.yaml --every-cycle";

struct Flags {
  std::string file;
  std::optional<std::string> config, estimator, model, assembly, optimizer, state;
  std::optional<std::string> ttft, itl, e2e, percentile, multiplier;
  std::vector<std::string> gpus;
  bool published = false;
  bool every_cycle = false;
  bool keys = false;
  bool json = false;
};

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<std::string> file_text(const char* flag, const std::string& path, std::size_t bytes_max) {
  auto text = core::read_file(path, bytes_max);
  if (!text) return fail(text.error().with_context(flag));
  return text;
}

/// "flags:1: default.targetTTFT: …", for people who gave flags and no file.
std::string about_flags(std::string_view message) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"targetTTFT", "--ttft"},
      {"targetITL", "--itl"},
      {"targetE2E", "--e2e"},
      {"percentile", "--percentile"},
      {"sloMultiplier", "--slo-multiplier"},
      {"estimator", "--estimator"},
      {"latencyModel", "--model"},
      {"assembly", "--assembly"}};
  constexpr std::string_view kEntry = "default.";
  message = message.substr(0, message.find('\n'));
  if (const auto at = message.find(kEntry); at != std::string_view::npos) {
    message.remove_prefix(at + kEntry.size());
  }
  std::string out(message);
  for (const auto& [key, flag] : kNames) {
    for (auto at = out.find(key); at != std::string::npos; at = out.find(key, at + flag.size())) {
      if (at > 0 && out[at - 1] == '-') continue;  // the flag's own name
      out.replace(at, key.size(), flag);
    }
  }
  return out;
}

/// The flags' settings as an entry of their own says them, so that they are checked alike.
Result<capacity::Config> flag_settings(const Flags& flags) {
  std::string yaml;
  const auto say = [&](const char* key, const std::optional<std::string>& value) {
    if (value)
      yaml += fmt::format("{}: {}\n", key,
                          boost::json::serialize(boost::json::string(core::valid_utf8(*value))));
  };
  if (flags.published) yaml += "estimator: kalman\nlatencyModel: chain\nassembly: published\n";
  say("targetTTFT", flags.ttft);
  say("targetITL", flags.itl);
  say("targetE2E", flags.e2e);
  say("percentile", flags.percentile);
  say("sloMultiplier", flags.multiplier);
  if (!flags.published) {
    say("estimator", flags.estimator);
    say("latencyModel", flags.model);
    say("assembly", flags.assembly);
  }
  const std::vector<capacity::ConfigEntry> entries = {{"default", yaml, 0}};
  auto config = capacity::Config::of_entries(entries, "flags");
  if (config.problems().empty()) return config;
  return bad(about_flags(config.problems().front().message));
}

Result<capacity::Config> read_config(const Flags& flags) {
  if (flags.published && (flags.estimator || flags.model || flags.assembly)) {
    return bad(
        "--published: stands for --estimator kalman, --model chain and --assembly published; "
        "give either it or those");
  }
  const auto given = flag_settings(flags);
  if (!given) return fail(given.error());
  if (!flags.config) return *given;
  const auto text = file_text("--config", *flags.config, kConfigBytesMax);
  if (!text) return fail(text.error());
  auto config = capacity::Config::parse(*text, core::printable(*flags.config));
  if (!config) return fail(config.error().with_context("--config"));
  // Every entry builds on it: nothing would be decided.
  for (const auto& problem : config->problems()) {
    if (problem.entry == "default") return bad(problem.message);
  }
  const auto above = *given->settings_of({});
  config->change_all([&](capacity::ModelSettings& s) {
    if (flags.ttft || flags.itl) {
      s.targets.ttft_ms = above.targets.ttft_ms;
      s.targets.itl_ms = above.targets.itl_ms;
    }
    if (flags.e2e) s.targets.e2e_ms = above.targets.e2e_ms;
    if (flags.percentile) s.targets.statistic = above.targets.statistic;
    if (flags.multiplier) s.slo_multiplier = above.slo_multiplier;
    if (flags.estimator || flags.published) s.estimator = above.estimator;
    if (flags.model || flags.published) s.latency_model = above.latency_model;
    if (flags.assembly || flags.published) s.assembly = above.assembly;
  });
  return config;
}

/// "H100=8"; -1 is unlimited.
Result<std::optional<capacity::GpuLimits>> read_gpus(const Flags& flags) {
  if (flags.gpus.empty()) return std::optional<capacity::GpuLimits>();
  capacity::GpuLimits limits;
  for (const auto& text : flags.gpus) {
    const auto gpus = capacity::parse_gpus(text);
    if (!gpus) return bad(fmt::format("--gpus: {} {}", core::quoted(text), gpus.error().message));
    if (!limits.available.insert(*gpus).second) {
      return bad(fmt::format("--gpus: {} is given twice; keep one", core::quoted(gpus->first)));
    }
  }
  return std::optional(std::move(limits));
}

/// Every cycle but the last one goes to `earlier`; the last one comes back.
Result<capacity::RecordedCycle> read_cycles(
    const std::string& path, const std::function<void(capacity::RecordedCycle)>& earlier) {
  auto lines = dataset::LineReader::open(path, kLineBytesMax);
  if (!lines) return fail(lines.error());
  auto csv = dataset::CsvReader::open(std::move(*lines));
  if (!csv) return fail(csv.error());
  const auto at_line = [&](const Error& error) {
    return fail(csv->lines().at_line(error.code, error.message));
  };
  auto table = capacity::RecordedTable::open(csv->header());
  if (!table) return at_line(table.error());
  std::vector<std::string> cells;
  while (true) {
    const auto row = csv->next(cells);
    if (!row) return fail(row.error());
    if (!*row) break;
    auto ended = table->add(cells);
    if (!ended) return at_line(ended.error());
    if (*ended) earlier(std::move(**ended));
  }
  auto last = table->finish();
  if (!last) return bad(fmt::format("{}: no rows; give one per pod and time", csv->lines().name()));
  return std::move(*last);
}

struct Answer {
  double time_s = 0;
  capacity::CycleResult result;
};

/// What the call is about, before the recording is read.
struct Question {
  capacity::CycleConfig cycle;
  capacity::FleetSettings fleet;
  std::optional<capacity::GpuLimits> free_gpus;
};

Result<Question> read_question(const Flags& flags) {
  Question q;
  auto config = read_config(flags);
  if (!config) return fail(config.error());
  q.fleet = config->fleet();
  q.cycle.models = std::move(*config);
  if (flags.optimizer) {
    const auto kind = capacity::parse_optimizer(*flags.optimizer);
    if (!kind) return fail(kind.error().with_context("--optimizer"));
    q.fleet.optimizer.kind = *kind;
  }
  if (flags.published) {
    q.fleet.optimizer.shrink = capacity::ShrinkRule::kPublished;
    q.fleet.optimizer.pending_guard = false;
  }
  auto limits = read_gpus(flags);
  if (!limits) return fail(limits.error());
  q.free_gpus = std::move(*limits);
  if (q.free_gpus) q.fleet.total.reset();
  if (q.fleet.optimizer.kind == capacity::OptimizerKind::kGreedyByScore && !q.free_gpus &&
      !q.fleet.total) {
    return bad(
        "optimizer greedy: models compete for GPUs, but nobody says how many there are; give "
        "--gpus KIND=NUMBER, or totalGpus in the configuration");
  }
  q.cycle.optimizer = q.fleet.optimizer;
  q.cycle.total_gpus = q.fleet.total;
  return q;
}

/// `show` gets the cycles in their order: all that decide, the last one with true.
Result<bool> decide(const Flags& flags, const Question& question,
                    const std::function<void(const Answer&, bool)>& show) {
  if (flags.state && flags.state->empty()) return bad("--state: is empty; give a file");
  const Output saved{"--state", flags.state.value_or("")};
  if (const auto ok = may_write_all({&saved, 1}, {&flags.file, 1}); !ok) return fail(ok.error());
  capacity::CycleState state(question.fleet.stabilisation);
  std::error_code unknown;
  if (flags.state && std::filesystem::exists(*flags.state, unknown)) {
    // Of a pipe the reader would wait, and what is written back would go elsewhere.
    if (!std::filesystem::is_regular_file(*flags.state, unknown)) {
      return bad(
          fmt::format("--state: {} is no regular file; name one", core::printable(*flags.state)));
    }
    const auto text = file_text("--state", *flags.state, tune::ParameterStore::kFileBytesMax);
    if (!text) return fail(text.error());
    if (const auto ok = state.restore(*text); !ok) {
      return fail(ok.error().with_context("--state: " + core::printable(*flags.state)));
    }
  }
  const auto run = [&](capacity::RecordedCycle cycle) {
    Answer answer;
    answer.time_s = cycle.time_s;
    capacity::CycleInput input;
    input.models = std::move(cycle.models);
    input.limits = question.free_gpus;
    answer.result = capacity::run_cycle(answer.time_s, input, question.cycle, state);
    return answer;
  };
  // Windows are over recommendations, so with them every cycle makes some.
  const bool all_decide = flags.every_cycle || question.fleet.stabilisation;
  auto last = read_cycles(flags.file, [&](capacity::RecordedCycle cycle) {
    if (!all_decide) {
      capacity::learn_cycle(cycle.time_s, cycle.models, question.cycle.models, state);
      return;
    }
    const auto answer = run(std::move(cycle));
    if (flags.every_cycle) show(answer, false);
  });
  if (!last) return fail(last.error());
  const auto answer = run(std::move(*last));
  if (flags.state) {
    const auto ok = core::write_file_atomically(*flags.state, state.save(answer.time_s));
    if (!ok) return fail(ErrorCode::kUnavailable, "--state: " + ok.error().message);
  }
  show(answer, true);
  return answer.result.any_failed();
}

/// This model's decisions, in the order of its variants.
std::span<const capacity::Decision> decisions_of(const capacity::CycleResult& result,
                                                 std::size_t& from, std::size_t model) {
  const std::size_t count = result.models[model].variants.size();
  const std::span all(result.decisions);
  from += count;
  return all.subspan(from - count, count);
}

std::string json_text(const std::string& text) {
  return core::printable(boost::json::serialize(boost::json::string(core::valid_utf8(text))));
}

/// `one_line`: as one of many.
void print_json(const Answer& answer, const Question& question, bool one_line) {
  const char* gap = one_line ? "" : "\n";
  fmt::print("{{\"time_s\":{},\"fleet\":{},\"models\":[", answer.time_s,
             capacity::explain_fleet_json(question.fleet));
  std::size_t from = 0;
  for (std::size_t i = 0; i < answer.result.models.size(); ++i) {
    fmt::print(
        "{}{}{}", i == 0 ? "" : ",", i == 0 ? "" : gap,
        capacity::explain_json(answer.result.models[i], decisions_of(answer.result, from, i)));
  }
  fmt::print("],{}\"config_problems\":[", gap);
  const char* comma = "";
  for (const auto& problem : question.cycle.models.problems()) {
    fmt::print("{}{{\"entry\":{},\"message\":{}}}", comma, json_text(problem.entry),
               json_text(problem.message));
    comma = ",";
  }
  fmt::print("]}}\n");
}

void print_table(const Answer& answer, const Question& question, bool replay, bool explained) {
  using Align = report::Table::Align;
  std::vector<report::Table::Column> columns{{"model", Align::kLeft},
                                             {"variant", Align::kLeft},
                                             {"on", Align::kLeft},
                                             {"now"},
                                             {"pending"},
                                             {"desired"},
                                             {"what", Align::kLeft},
                                             {"req/s each"},
                                             {"req/s in"}};
  if (replay) columns.push_back({"because", Align::kLeft});
  report::Table table(std::move(columns));
  std::size_t from = 0;
  std::string why = "\n" + capacity::explain_fleet(question.fleet);
  for (std::size_t i = 0; i < answer.result.models.size(); ++i) {
    const auto& model = answer.result.models[i];
    const auto decisions = decisions_of(answer.result, from, i);
    for (std::size_t j = 0; j < decisions.size(); ++j) {
      const auto& d = decisions[j];
      const auto& v = model.variants[j];
      const bool sized = v.evidence == capacity::Evidence::kSized;
      std::vector<std::string> cells{report::ascii_cell(d.key.text()),
                                     report::ascii_cell(d.variant),
                                     report::ascii_cell(d.accelerator),
                                     fmt::format("{}", d.current),
                                     fmt::format("{}", d.pending),
                                     fmt::format("{}", d.desired),
                                     std::string(to_string(d.action)),
                                     sized ? report::figure(v.per_replica_per_s) : "-",
                                     sized ? report::figure(v.demand_per_s) : "-"};
      if (replay) cells.push_back(report::ascii_cell(d.reason));
      table.add_row(std::move(cells));
    }
    if (explained) why += "\n" + capacity::explain(model, decisions);
  }
  if (replay) fmt::print("at {} s\n", answer.time_s);
  fmt::print("{}{}", table.text(), explained ? why : "\n");
}

int run(const Flags& flags) {
  if (flags.keys) {
    fmt::print("{}", capacity::config_reference());
    return 0;
  }
  const auto failed = [](const Error& error) {
    // An entry with several problems has one a line.
    for (const auto line : core::split(error.message, '\n')) {
      fmt::print(stderr, "tailrace capacity: {}\n", core::printable(line));
    }
    const bool ours = error.code == ErrorCode::kInternal || error.code == ErrorCode::kUnavailable;
    return ours ? kExitFailed : kExitUsage;
  };
  if (flags.file.empty()) {
    return failed(Error{ErrorCode::kInvalidArgument,
                        "FILE: missing; give recorded metrics, or - for standard input"});
  }
  const auto question = read_question(flags);
  if (!question) return failed(question.error());
  const auto held = decide(flags, *question, [&](const Answer& answer, bool is_last) {
    if (flags.json) {
      print_json(answer, *question, flags.every_cycle);
    } else {
      print_table(answer, *question, flags.every_cycle, is_last);
    }
  });
  if (!held) return failed(held.error());
  for (const auto& problem : question->cycle.models.problems()) {
    // An entry with several problems has one a line.
    for (const auto line : core::split(problem.message, '\n')) {
      fmt::print(stderr, "tailrace capacity: {}\n", core::printable(line));
    }
  }
  for (const auto& note : question->cycle.models.notes()) {
    fmt::print(stderr, "tailrace capacity: {}\n", core::printable(note));
  }
  return *held ? kExitInfeasible : 0;
}

}  // namespace

void add_capacity(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("capacity", kAbout);
  auto flags = std::make_shared<Flags>();
  command->add_option("FILE", flags->file, "Recorded metrics, CSV; - for standard input");
  command->add_option(
      "--config", flags->config,
      "The analyzer's ConfigMap, or a plain file with its entries; without it every "
      "model has the defaults");
  command->add_option("--ttft", flags->ttft, "Target of time to first token, ms; with --itl");
  command->add_option("--itl", flags->itl, "Target of time between tokens, ms; with --ttft");
  command->add_option("--e2e", flags->e2e, "Target of time to the last token, ms");
  command->add_option("--percentile", flags->percentile,
                      "What the targets bind: mean, 50, 90, 95 or 99");
  command->add_option("--slo-multiplier", flags->multiplier, "k of an inferred SLO, above 1");
  command->add_option("--estimator", flags->estimator,
                      "windowed, or kalman: the specification's filter");
  command->add_option("--model", flags->model, "corrected, chain or closed-form");
  command->add_option("--assembly", flags->assembly,
                      "Of supply and demand: corrected, or published");
  command->add_flag("--published", flags->published,
                    "All as published: kalman, chain, assembly and scale-down");
  command->add_option("--optimizer", flags->optimizer,
                      "cost-aware, or greedy: models compete for --gpus");
  command->add_option("--gpus", flags->gpus, "Free GPUs of one kind, such as H100=8; repeat");
  command->add_option("--state", flags->state,
                      "Begin with what this file has learnt, if it exists, and leave there what is "
                      "learnt");
  command->add_flag("--every-cycle", flags->every_cycle,
                    "Decide at every time and print each, not only the last");
  command->add_flag("--keys", flags->keys, "Print the reference of all keys of the configuration");
  command->add_flag("--json", flags->json,
                    "Print one JSON document; with --every-cycle one a line");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tailrace::cli
