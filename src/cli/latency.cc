#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/json_object.h"
#include "cli/latency_fields.h"
#include "cli/service_flags.h"

namespace tailrace::cli {
namespace {

constexpr const char* kAbout =
    "How long do requests take on one replica at this rate? From the time of an iteration, alpha + "
    "beta per token computed + gamma per token of context touched, and the lengths of prompts and "
    "answers.\n\n"
    "Example (Qwen2.5-14B on an H100): tailrace latency --alpha 10.6 --beta 0.042 --gamma 5.8e-5 "
    "--input 1024 --output 256 --output-cv 1 --rate 5";

struct Flags {
  ServiceFlags service;
  std::string rate;
  bool json = false;
};

struct Answer {
  Service service;
  queueing::Latency latency;
};

Result<Answer> answer(const Flags& flags) {
  auto service = read_service(flags.service);
  if (!service) return fail(service.error());
  const auto rate = read_real("rate", flags.rate, "requests per second, such as 5");
  if (!rate) return fail(rate.error());
  service->workload.rate_per_s = *rate;
  const auto detail = service->model.mode == queueing::Mode::kCorrected
                          ? queueing::Detail::kPercentiles
                          : queueing::Detail::kMeans;
  auto latency = queueing::latency(service->model, service->workload, detail);
  if (!latency) return fail(latency.error());
  if (!queueing::has_further_token(service->model, service->workload)) {
    latency->itl_ms = std::nullopt;
    latency->itl_percentiles_ms = std::nullopt;
  }
  return Answer{std::move(*service), *latency};
}

void print_json(const Answer& a) {
  JsonObject document;
  document.add_text("model", to_string(a.service.model.mode));
  document.add("rate", a.service.workload.rate_per_s);
  add_latency_fields(document, a.latency, a.service.model.mode);
  document.add_texts("assumptions", a.service.assumptions);
  fmt::print("{}\n", document.text());
}

void print_table(const Answer& a) {
  if (!a.latency.stable && a.latency.max_rate_per_s == 0) {
    fmt::print("not stable: a request of these lengths does not fit into memory for context\n");
  } else if (!a.latency.stable) {
    fmt::print("not stable: {:.6g} requests/s are more than one replica serves; its queue grows\n",
               a.service.workload.rate_per_s);
  }
  print_latency_rows(a.latency, a.service.model.mode);
  if (const std::string why = doubt(a.latency); !why.empty()) fmt::print("note: {}\n", why);
  for (const std::string& note : a.service.assumptions) fmt::print("assumed: {}\n", note);
}

int run(const Flags& flags) {
  const auto found = answer(flags);
  if (!found) {
    fmt::print(stderr, "tailrace latency: --{}\n", found.error().message);
    return kExitUsage;
  }
  if (flags.json) {
    print_json(*found);
  } else {
    print_table(*found);
  }
  return 0;
}

}  // namespace

void add_latency(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("latency", kAbout);
  auto flags = std::make_shared<Flags>();
  add_service_flags(*command, flags->service);
  command->add_option("--rate", flags->rate, "Requests per second that arrive at the replica")
      ->required();
  command->add_flag("--json", flags->json, "Print one JSON document");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tailrace::cli
