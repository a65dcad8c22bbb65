#include "cli/latency_fields.h"

#include <fmt/core.h>

namespace tailrace::cli {
namespace {

using queueing::OutOfRange;
using queueing::Percentiles;

void add_percentiles(JsonObject& document, std::string_view name,
                     const std::optional<Percentiles>& p) {
  const std::pair<int, double Percentiles::*> all[] = {{50, &Percentiles::p50},
                                                       {90, &Percentiles::p90},
                                                       {95, &Percentiles::p95},
                                                       {99, &Percentiles::p99}};
  for (const auto& [percent, member] : all) {
    document.add(fmt::format("{}_p{}_ms", name, percent),
                 p ? std::optional(*p.*member) : std::nullopt);
  }
}

void print_time(std::string_view name, const std::optional<double>& mean,
                const std::optional<Percentiles>& p, std::string_view what) {
  if (!mean) return;
  fmt::print("{:<12}{:>12.3f}  {}", name, *mean, what);
  if (p)
    fmt::print("; half within {:.1f}, 90 % {:.1f}, 95 % {:.1f}, 99 % {:.1f}", p->p50, p->p90,
               p->p95, p->p99);
  fmt::print("\n");
}

/// Each mode has its own utilisation.
std::string_view rho_text(const queueing::Latency& at, queueing::Mode mode) {
  if (at.from_oracle) return "of the largest rate";
  if (mode == queueing::Mode::kChain) return "of the batch's places are taken, mean";
  return "share of the replica's time that work takes";
}

}  // namespace

std::string rate_figure(double per_s) {
  return per_s > 0 && per_s < 1 ? fmt::format("{:.4g}", per_s) : fmt::format("{:.3f}", per_s);
}

void add_latency_fields(JsonObject& document, const queueing::Latency& at, queueing::Mode mode) {
  document.add("stable", at.stable)
      .add("delta_ms", at.delta_ms)
      .add("rho", at.rho)
      .add("iteration_ms", at.iteration_ms)
      .add("wait_ms", at.wait_ms)
      .add("ttft_ms", at.ttft_ms)
      .add("itl_ms", at.itl_ms)
      .add("e2e_ms", at.e2e_ms)
      .add("concurrency", at.concurrency)
      .add("throughput", at.throughput_per_s)
      .add("max_rate", at.max_rate_per_s)
      .add_text("binding", to_string(at.binding));
  add_doubt(document, "out_of_range", at.out_of_range);
  document.add_text("source", at.from_oracle ? "simulation" : "formula");
  if (mode != queueing::Mode::kCorrected) return;
  add_percentiles(document, "ttft", at.ttft_percentiles_ms);
  add_percentiles(document, "itl", at.itl_percentiles_ms);
  add_percentiles(document, "e2e", at.e2e_percentiles_ms);
}

void add_doubt(JsonObject& document, std::string_view name, OutOfRange why) {
  if (why == OutOfRange::kNone) {
    document.add_null(name);
  } else {
    document.add_text(name, to_string(why));
  }
}

void print_latency_rows(const queueing::Latency& at, queueing::Mode mode) {
  print_time("ttft", at.ttft_ms, at.ttft_percentiles_ms, "ms to the first token, mean");
  print_time("itl", at.itl_ms, at.itl_percentiles_ms, "ms for each further token, mean");
  if (at.stable && !at.itl_ms) {
    fmt::print("{:<12}{:>12}  answers of one token have no further one\n", "itl", "none");
  }
  print_time("e2e", at.e2e_ms, at.e2e_percentiles_ms, "ms for the whole answer, mean");
  print_time("iteration", at.iteration_ms, {}, "ms, mean");
  print_time("concurrency", at.concurrency, {}, "requests in the batch, mean");
  fmt::print("{:<12}{:>12.3f}  {}\n", "rho", at.rho, rho_text(at, mode));
  fmt::print("{:<12}{:>12}  requests/s at most, which {} sets\n", "max rate",
             rate_figure(at.max_rate_per_s), to_string(at.binding));
}

std::string doubt(const queueing::Latency& at) {
  const std::string_view remedy =
      at.from_oracle ? "these numbers are the simulator's" : "give --simulate to have it simulated";
  switch (at.out_of_range) {
    case OutOfRange::kNone:
      return "";
    case OutOfRange::kNearSaturation:
      return fmt::format(
          "above 0.9 of the largest rate the formula's times are not to be trusted; {}", remedy);
    case OutOfRange::kPrefillDominated:
      return fmt::format(
          "prompts take most of the time, where the formula's times are not to be trusted; {}",
          remedy);
    case OutOfRange::kMemoryBound:
      return fmt::format(
          "memory for context binds, where the formula's times are not to be trusted; {}", remedy);
  }
  return "";
}

}  // namespace tailrace::cli
