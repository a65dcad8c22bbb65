// What does the Kalman estimator keep between cycles, and how is it written down?
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/tune/kalman.h"

namespace tailrace::tune {

/// Mean lengths over the pods of the latest cycle that had usable ones, weighted by rate.
struct CycleLengths {
  double input = 0, output = 0, input_cv = 0, output_cv = 0, prefix_hit = 0;
};

struct KalmanMemory {
  static constexpr std::size_t kJacobiansMax = 32;

  struct Parameters {
    KalmanState state{};
    std::array<double, 9> uncertainty{};
  };
  std::optional<Parameters> parameters;
  std::optional<CycleLengths> lengths;
  /// Of the latest accepted updates, oldest first: of the logarithms of TTFT and ITL by those of
  /// the parameters, 2 × 3.
  std::vector<std::array<double, 6>> jacobians;
  std::int64_t rejected_in_a_row = 0;  ///< cycles with a result but no accepted one
};

/// One JSON document of at most 16 kB.
std::string write_memory(const KalmanMemory& memory);
/// Errors: kDataLoss naming what is wrong; kUnsupported for another estimator or version.
Result<KalmanMemory> read_memory(std::string_view document);

}  // namespace tailrace::tune
