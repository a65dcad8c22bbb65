// Which replica and which requests did the caller of `latency` or `size` describe?
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/queueing/service_model.h"

namespace CLI {
class App;
}

namespace tailrace::cli {

/// The flags as given. Numbers stay text until we read them, so that our errors name flag, value
/// and remedy.
struct ServiceFlags {
  std::string input, output;
  std::optional<std::string> preset, alpha, beta, gamma;
  std::string model = "corrected";
  std::optional<std::string> max_batch, max_queue, max_batched_tokens, kv_tokens, knee_tokens;
  std::optional<std::string> per_request, prefix_hit, input_cv, output_cv, iterations;
  bool simulate = false;
};

struct Service {
  queueing::ServiceModel model;
  queueing::Workload workload;  ///< rate 0
  /// What the answer takes for granted, one sentence each, for people.
  std::vector<std::string> assumptions;
};

void add_service_flags(CLI::App& command, ServiceFlags& flags);

/// Errors: kInvalidArgument; the message begins with the flag's name, without its dashes.
Result<Service> read_service(const ServiceFlags& flags);

/// Errors: kInvalidArgument naming flag, text and `remedy`.
Result<double> read_real(std::string_view flag, const std::string& text, std::string_view remedy);

}  // namespace tailrace::cli
