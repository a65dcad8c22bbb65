// What did a load run show?
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tailrace/loadgen/load_run.h"
#include "tailrace/report/length_histogram.h"
#include "tailrace/report/summary.h"

namespace tailrace::loadgen {

/// Latency targets in emulated seconds; absent means none.
struct Targets {
  std::optional<double> ttft_s;
  std::optional<double> itl_s;  ///< of a request's mean gap
};

struct LoadReport {
  std::size_t offered = 0;
  std::size_t completed = 0;
  std::size_t failed = 0;
  std::map<std::string, std::size_t> errors;        ///< by kind
  std::map<std::string, std::string> first_errors;  ///< what the first of a kind said
  double duration_s = 0;                            ///< first intended time to last end
  std::int64_t output_tokens = 0;
  bool tokens_estimated = false;  ///< some counts come from events, not from usage
  // Of completed requests; nothing where there is no sample.
  std::optional<report::Summary> ttft_s;
  std::optional<report::Summary> itl_s;
  std::optional<report::Summary> per_token_s;
  std::optional<report::Summary> e2e_s;
  std::optional<report::Summary> send_lag_s;  ///< sent minus intended, of all
  std::size_t met_targets = 0;                ///< completed within the targets
  Targets targets;
  report::LengthHistogram lengths;
  double time_scale = 1;
  std::vector<std::string> warnings;
};

LoadReport summarise_run(std::span<const RequestOutcome> outcomes,
                         const report::LatencySketch& token_gaps, const Targets& targets,
                         double time_scale);

std::string to_text(const LoadReport& report);
std::string to_json(const LoadReport& report);
/// A header line and one line per request.
std::string to_csv(std::span<const RequestOutcome> outcomes);

}  // namespace tailrace::loadgen
