// What did real engines measure, as curves of iteration time over the batch?
#pragma once

#include <string>
#include <vector>

#include "tailrace/core/result.h"

namespace tailrace::accuracy {

/// Iteration time is alpha · 1 + beta · tokens + gamma · kv, as the service model counts them.
struct CurvePoint {
  double sequences = 0;  ///< in the batch
  double tokens = 0;     ///< computed in a mean iteration
  double kv = 0;         ///< context tokens touched in a mean iteration
  double ms = 0;         ///< measured
};

/// One engine: model, hardware, settings. Points by growing batch.
struct Curve {
  std::string name;
  std::vector<CurvePoint> points;
};

struct Source {
  std::string name;
  std::string what;  ///< for people
  std::vector<Curve> curves;
};

/// Everything under `folder` that measures iterations over a batch; a source whose file is absent
/// is left out. Errors: those of reading a file that is there.
Result<std::vector<Source>> read_sources(const std::string& folder);

/// $TAILRACE_SHARED/data, else ../shared/data beside the repository.
std::string recorded_data_folder();

}  // namespace tailrace::accuracy
