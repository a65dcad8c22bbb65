// Any bytes as an experiment: read or refused in words, within its limits.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tailrace/simulate/experiment.h"

using namespace tailrace::simulate;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto experiment = parse_experiment(text, "fuzz.yaml");
  if (!experiment) {
    if (experiment.error().message.empty()) std::abort();
    return 0;
  }
  if (experiment->cells.empty() || experiment->cells.size() > kCellsMax) std::abort();
  if (experiment->cells.size() * experiment->seeds.size() > kRunsMax) std::abort();
  for (std::size_t i = 0; i < experiment->cells.size(); ++i) {
    (void)experiment->label(experiment->cells[i]);
    const auto baseline = experiment->baseline_of(i);
    if (baseline && *baseline >= experiment->cells.size()) std::abort();
  }
  return 0;
}
