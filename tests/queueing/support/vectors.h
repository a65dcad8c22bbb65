// Where do the expected values of these tests come from?
//
// From the folder of shared reference vectors where a machine has it (TAILRACE_SHARED, else
// ../shared beside the source). The numbers there have ten digits.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/queueing/service_model.h"
#include "tailrace/queueing/sizing.h"

namespace tailrace::queueing::testing {

struct Vector {
  std::string id;
  boost::json::object inputs;
  boost::json::object expected;

  double in(std::string_view name) const;
  /// A dot leads into an object: "code.TTFT".
  double want(std::string_view name) const;
  bool wants(std::string_view name) const;

  IterationModel iteration() const;  ///< alpha, beta, gamma
  Workload workload() const;         ///< in_, out, lambda_rps where given
  ServiceModel closed_form() const;
  ServiceModel chain() const;  ///< max_batch and max_queue (100 where not given)
  Targets targets() const;     ///< target_TTFT, target_ITL
};

/// The rows of queueing.json whose identifier is `prefix` and a digit or nothing; nothing where the
/// folder is absent.
std::optional<std::vector<Vector>> vectors(std::string_view prefix);

/// Llama-3.1-8B and Qwen2.5-14B on an H100, which some rows name in words.
IterationModel llama_8b_h100();
IterationModel qwen_14b_h100();

/// |actual − expected| / |expected|, or |actual| where 0 is expected.
double relative_error(double actual, double expected);

}  // namespace tailrace::queueing::testing
