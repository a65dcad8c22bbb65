#include "capacity/measured_cycles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tailrace/core/text.h"
#include "tailrace/dataset/csv.h"
#include "tailrace/tune/estimator.h"

namespace tailrace::accuracy {
namespace {

struct Cycle {
  tune::Observation seen;
  std::int64_t max_batch = 256;
};

/// Cycles of each run, arm and model, in the order of time.
using Recordings = std::map<std::string, std::vector<Cycle>>;

Result<Recordings> read(const std::string& path) {
  auto lines = dataset::LineReader::open(path);
  if (!lines) return fail(lines.error());
  auto csv = dataset::CsvReader::open(std::move(*lines));
  if (!csv) return fail(csv.error());
  Recordings recordings;
  std::vector<std::string> cells;
  while (true) {
    const auto more = csv->next(cells);
    if (!more) return fail(more.error());
    if (!*more) return recordings;
    const auto text = [&](std::string_view column) {
      const auto at = csv->column(column);
      return at ? cells[*at] : std::string{};
    };
    // The recording writes 0 where it has no fresh measurement.
    const auto number = [&](std::string_view column) -> std::optional<double> {
      const auto value = core::parse_double(text(column));
      return value && *value > 0 ? value : std::nullopt;
    };
    const auto replicas = number("replicas"), served = number("served_rpm");
    Cycle cycle;
    cycle.seen.time_s = 60 * number("cycle").value_or(0);
    cycle.seen.pod = "mean replica";
    if (replicas && served) {
      cycle.seen.rate_per_s = *served / 60 / *replicas;
      cycle.seen.requests = *served / *replicas;
    }
    cycle.seen.input_tokens = number("in_tok_mean");
    cycle.seen.output_tokens = number("out_tok_mean");
    cycle.seen.ttft_ms = number("ttft_ms");
    cycle.seen.itl_ms = number("itl_ms");
    cycle.seen.running = number("occupancy_per_replica");
    cycle.max_batch = static_cast<std::int64_t>(number("max_batch").value_or(256));
    recordings[fmt::format("{} {} {}", text("run"), text("arm"), text("model"))].push_back(cycle);
  }
}

struct Foretold {
  std::vector<double> ttft, itl;  ///< foretold / measured − 1
  int asked = 0, unstable = 0;
};

void foretell(const std::vector<Cycle>& cycles, tune::EstimatorKind kind, Foretold& into) {
  if (cycles.empty()) return;
  tune::TuneConfig config;
  config.estimator = kind;
  config.limits.max_num_seqs = cycles.front().max_batch;
  config.limits.max_queue = 10 * cycles.front().max_batch;
  const auto estimator = tune::make_estimator(config);
  if (!estimator) return;
  for (const Cycle& cycle : cycles) {
    const auto& values = (*estimator)->current().values;
    if (values && !tune::unusable(cycle.seen)) {
      ++into.asked;
      queueing::ServiceModel model;
      model.mode = kind == tune::EstimatorKind::kKalman ? queueing::Mode::kChain
                                                        : queueing::Mode::kCorrected;
      model.iteration = *values;
      model.limits = config.limits;
      const auto said = queueing::latency(model, tune::workload_of(cycle.seen));
      if (said && said->stable && said->ttft_ms && said->itl_ms) {
        into.ttft.push_back(*said->ttft_ms / *cycle.seen.ttft_ms - 1);
        into.itl.push_back(*said->itl_ms / *cycle.seen.itl_ms - 1);
      } else {
        ++into.unstable;
      }
    }
    (*estimator)->update(std::span(&cycle.seen, 1));
  }
}

std::string cell(std::vector<double> errors) {
  if (errors.empty()) return "– | –";
  std::sort(errors.begin(), errors.end());
  const double bias = errors[errors.size() / 2];
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  const auto at = [&](double p) {
    return errors[static_cast<std::size_t>(p * static_cast<double>(errors.size() - 1) + 0.5)];
  };
  return fmt::format("{:.1f} / {:.1f} | {:+.1f}", 100 * at(0.5), 100 * at(0.9), 100 * bias);
}

}  // namespace

Result<void> print_cycles(std::FILE* out, const std::string& folder) {
  const std::string path = folder + "/control_loop_h100/cycles_real_vllm.csv.gz";
  if (!std::filesystem::exists(path)) return {};
  const auto recordings = read(path);
  if (!recordings) return fail(recordings.error());
  fmt::print(out,
             "Cycles of one minute of vLLM replicas that a controller scaled (Llama-3.1-8B and "
             "Qwen2.5-14B on H100, {} recordings): each cycle's TTFT and ITL\nare foretold from "
             "what the cycles before it taught, at the rate that was served, then learnt from. "
             "TTFT was measured by the client. Errors in %,\nmedian / 90th percentile of the "
             "size, and median of the signed error; asked is how many cycles an estimator with "
             "parameters could be asked about.\n\n"
             "| estimator | asked | said to be unstable | TTFT | bias | ITL | bias |\n"
             "|---|---|---|---|---|---|---|\n",
             recordings->size());
  for (const auto kind : {tune::EstimatorKind::kWindowed, tune::EstimatorKind::kKalman}) {
    Foretold foretold;
    for (const auto& [name, cycles] : *recordings) foretell(cycles, kind, foretold);
    fmt::print(out, "| {} | {} | {} | {} | {} |\n", tune::to_string(kind), foretold.asked,
               foretold.unstable, cell(foretold.ttft), cell(foretold.itl));
  }
  fmt::print(out, "\n");
  return {};
}

}  // namespace tailrace::accuracy
