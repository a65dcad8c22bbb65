#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "cli/commands.h"
#include "cli/json_object.h"
#include "cli/latency_fields.h"
#include "cli/service_flags.h"
#include "tailrace/core/text.h"
#include "tailrace/queueing/sizing.h"

namespace tailrace::cli {
namespace {

using queueing::Statistic;

constexpr const char* kAbout =
    "How many requests per second does one replica serve within these latency targets, and how "
    "many replicas does an arrival rate take? Prints the document and exits with 3 where not even "
    "an idle replica keeps the targets.\n\n"
    "Example (Qwen2.5-14B on an H100): tailrace size --alpha 10.6 --beta 0.042 --gamma 5.8e-5 "
    "--input 1024 --output 256 --output-cv 1 --ttft 500 --itl 50 --arrival 40\n\n"
    "P90 of TTFT, mean ITL and P99 of the whole answer at once: tailrace size --preset h100-8b "
    "--input 1024 --output 256 --output-cv 1 --ttft 500@p90 --itl 40 --e2e 10000@p99";

constexpr double kMultiplierMax = 1e6;

constexpr std::array<std::pair<std::string_view, Statistic>, 5> kStatistics{
    {{"mean", Statistic::kMean},
     {"50", Statistic::kP50},
     {"90", Statistic::kP90},
     {"95", Statistic::kP95},
     {"99", Statistic::kP99}}};

struct Flags {
  ServiceFlags service;
  std::optional<std::string> ttft, itl, e2e, multiplier, arrival;
  std::string percentile = "mean";
  bool json = false;
};

struct Answer {
  Service service;
  queueing::Targets targets;
  bool inferred = false;
  queueing::Sizing sizing;
  std::optional<double> arrival;
  std::optional<std::int64_t> replicas;
};

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

/// "mean", "90" or "p90".
std::optional<Statistic> statistic_named(std::string_view text) {
  const bool prefixed = text.size() == 3 && (text[0] == 'p' || text[0] == 'P');
  for (const auto& [name, statistic] : kStatistics) {
    if (text == name || (prefixed && text.substr(1) == name)) return statistic;
  }
  return std::nullopt;
}

std::string_view name_of(Statistic statistic) {
  for (const auto& [name, one] : kStatistics) {
    if (one == statistic) return name;
  }
  return "";
}

Result<Statistic> read_percentile(const std::string& text) {
  if (const auto statistic = statistic_named(text)) return *statistic;
  return bad(
      fmt::format("percentile: {} is unknown; give mean, 50, 90, 95 or 99", core::quoted(text)));
}

/// "500" or "500@p90".
Result<void> read_target(std::string_view flag, const std::string& text, double& ms,
                         std::optional<Statistic>& statistic) {
  const std::size_t at = text.find('@');
  const auto value = core::parse_double(std::string_view(text).substr(0, at));
  if (!value || !std::isfinite(*value)) {
    return bad(fmt::format(
        "{}: {} is not a number; give milliseconds, such as 500 or 500@p90, or 0 for no target",
        flag, core::quoted(text)));
  }
  ms = *value;
  if (at == std::string::npos) return {};
  statistic = statistic_named(std::string_view(text).substr(at + 1));
  if (statistic) return {};
  return bad(
      fmt::format("{}: {} binds nothing that is known; give mean, p50, p90, p95 or p99 after the @",
                  flag, core::quoted(text)));
}

/// The targets that follow from how much longer than an idle iteration one may take.
Result<queueing::Targets> from_multiplier(const Flags& flags, const Service& service) {
  for (const auto& [name, given] :
       {std::pair("--ttft", &flags.ttft), {"--itl", &flags.itl}, {"--e2e", &flags.e2e}}) {
    if (!*given) continue;
    return bad(
        fmt::format("slo-multiplier: {} was given together with {}; give either the "
                    "targets, or the multiplier from which they follow",
                    core::quoted(*flags.multiplier), name));
  }
  const auto k = core::parse_double(*flags.multiplier);
  if (!k || !(*k > 1) || !(*k <= kMultiplierMax)) {
    return bad(
        fmt::format("slo-multiplier: {} is not a number above 1 and at most {}; give how "
                    "many times alpha an iteration may take, such as 3",
                    core::quoted(*flags.multiplier), kMultiplierMax));
  }
  const auto slo = queueing::infer_slo(service.model.iteration, service.workload, *k);
  return queueing::Targets{.ttft_ms = slo.ttft_ms, .itl_ms = slo.itl_ms};
}

Result<queueing::Targets> read_targets(const Flags& flags) {
  if (!flags.ttft && !flags.itl && !flags.e2e) {
    return bad(
        "ttft: missing; give --ttft, --itl or --e2e in milliseconds (0 is no target), or "
        "--slo-multiplier from which they follow");
  }
  queueing::Targets targets;
  for (const auto& [name, given, ms, statistic] :
       {std::tuple{"ttft", &flags.ttft, &targets.ttft_ms, &targets.ttft_statistic},
        {"itl", &flags.itl, &targets.itl_ms, &targets.itl_statistic},
        {"e2e", &flags.e2e, &targets.e2e_ms, &targets.e2e_statistic}}) {
    if (!*given) continue;
    if (const auto ok = read_target(name, **given, *ms, *statistic); !ok) return fail(ok.error());
  }
  return targets;
}

Result<Answer> answer(const Flags& flags) {
  Answer out;
  auto service = read_service(flags.service);
  if (!service) return fail(service.error());
  out.service = std::move(*service);
  out.inferred = flags.multiplier.has_value();
  const auto targets = out.inferred ? from_multiplier(flags, out.service) : read_targets(flags);
  if (!targets) return fail(targets.error());
  out.targets = *targets;
  const auto statistic = read_percentile(flags.percentile);
  if (!statistic) return fail(statistic.error());
  out.targets.statistic = *statistic;
  if (flags.arrival) {
    const auto arrival =
        read_real("arrival", *flags.arrival, "requests per second in all, such as 40");
    if (!arrival) return fail(arrival.error());
    if (!(*arrival >= 0)) {
      return bad(fmt::format("arrival: {} is below 0; give requests per second in all, such as 40",
                             *arrival));
    }
    out.arrival = *arrival;
  }
  auto sizing = queueing::size(out.service.model, out.service.workload, out.targets);
  if (!sizing) return fail(sizing.error());
  out.sizing = std::move(*sizing);
  if (out.arrival && out.sizing.throughput_per_s > 0) {
    const auto replicas = queueing::replicas_for(*out.arrival, out.sizing.throughput_per_s);
    if (!replicas) return fail(replicas.error());
    out.replicas = *replicas;
  }
  return out;
}

std::optional<double> set(double target_ms) {
  return target_ms > 0 ? std::optional(target_ms) : std::nullopt;
}

/// `percentile` is that of every target, and null where they differ.
JsonObject slo_document(const Answer& a) {
  using queueing::SizingLimit;
  JsonObject slo;
  slo.add("ttft_ms", set(a.targets.ttft_ms))
      .add("itl_ms", set(a.targets.itl_ms))
      .add("e2e_ms", set(a.targets.e2e_ms));
  std::optional<Statistic> common;
  bool alike = true;
  for (const auto& [name, limit, ms] :
       {std::tuple{"ttft_percentile", SizingLimit::kTtft, a.targets.ttft_ms},
        {"itl_percentile", SizingLimit::kItl, a.targets.itl_ms},
        {"e2e_percentile", SizingLimit::kE2e, a.targets.e2e_ms}}) {
    if (!(ms > 0)) {
      slo.add_null(name);
      continue;
    }
    const Statistic statistic = queueing::statistic_of(a.targets, limit);
    slo.add_text(name, name_of(statistic));
    alike = alike && common.value_or(statistic) == statistic;
    common = statistic;
  }
  if (alike) {
    slo.add_text("percentile", name_of(common.value_or(a.targets.statistic)));
  } else {
    slo.add_null("percentile");
  }
  slo.add_text("source", a.inferred ? "multiplier" : "explicit");
  return slo;
}

void print_json(const Answer& a) {
  const queueing::Sizing& s = a.sizing;
  JsonObject alone;
  alone.add("ttft", s.ttft_rate_per_s).add("itl", s.itl_rate_per_s).add("e2e", s.e2e_rate_per_s);
  JsonObject achieved;
  add_latency_fields(achieved, s.achieved, a.service.model.mode);
  JsonObject document;
  document.add_text("model", to_string(a.service.model.mode))
      .add("reachable", s.reachable)
      .add("rate_per_replica", s.reachable ? std::optional(s.rate_per_s) : std::nullopt)
      .add("throughput_per_replica", s.reachable ? std::optional(s.throughput_per_s) : std::nullopt)
      .add("arrival", a.arrival)
      .add("replicas", a.replicas ? std::optional(static_cast<double>(*a.replicas)) : std::nullopt)
      .add_text("binding", to_string(s.limit))
      .add("slo", slo_document(a));
  add_doubt(document, "rate_out_of_range", s.out_of_range);
  document.add("rate_per_target", alone)
      .add("max_rate", s.achieved.max_rate_per_s)
      .add("achieved", achieved)
      .add_text("reason", s.reason)
      .add_texts("assumptions", a.service.assumptions);
  fmt::print("{}\n", document.text());
}

void print_table(const Answer& a) {
  const queueing::Sizing& s = a.sizing;
  if (a.replicas) {
    fmt::print("{:<12}{:>12}  for {:.6g} requests/s\n", "replicas", *a.replicas, *a.arrival);
  }
  if (s.reachable) {
    fmt::print("{:<12}{:>12}  requests/s per replica\n", "rate", rate_figure(s.rate_per_s));
    fmt::print("{:<12}{:>12}  {}\n", "binding", to_string(s.limit), s.reason);
    fmt::print("\nat that rate\n");
  } else {
    fmt::print("not reachable: {}\n\non an idle replica\n", s.reason);
  }
  print_latency_rows(s.achieved, a.service.model.mode);
  if (const std::string why = doubt(s.achieved); !why.empty()) {
    fmt::print("note: {}\n", why);
  }
  for (const std::string& note : a.service.assumptions) fmt::print("assumed: {}\n", note);
}

int run(const Flags& flags) {
  const auto found = answer(flags);
  if (!found) {
    fmt::print(stderr, "tailrace size: --{}\n", found.error().message);
    return kExitUsage;
  }
  if (flags.json) {
    print_json(*found);
  } else {
    print_table(*found);
  }
  return found->sizing.reachable ? 0 : kExitInfeasible;
}

}  // namespace

void add_size(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("size", kAbout);
  auto flags = std::make_shared<Flags>();
  add_service_flags(*command, flags->service);
  command->add_option(
      "--ttft", flags->ttft,
      "Target of the time to first token, ms; 500@p90: of nine in ten requests; 0: none");
  command->add_option("--itl", flags->itl, "Target of the time per further token, ms, likewise");
  command->add_option("--e2e", flags->e2e, "Target of the whole answer's time, ms, likewise");
  command->add_option("--slo-multiplier", flags->multiplier,
                      "Instead of targets: how many times alpha an iteration may take, > 1");
  command
      ->add_option("--percentile", flags->percentile,
                   "What of its distribution a target without @ binds: mean, 50, 90, 95 or 99")
      ->capture_default_str();
  command->add_option("--arrival", flags->arrival,
                      "Requests per second in all: how many replicas do they take?");
  command->add_flag("--json", flags->json, "Print one JSON document");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tailrace::cli
