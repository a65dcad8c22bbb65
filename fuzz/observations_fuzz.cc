// Feeds arbitrary bytes to both estimators, once as a recording and once as a saved state: whatever
// they report is finite, and a state that was refused has changed nothing.
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/check.h"
#include "tailrace/core/text.h"
#include "tailrace/tune/estimator.h"
#include "tailrace/tune/observation_table.h"

using namespace tailrace;

namespace {

constexpr int kCyclesMax = 20;  // enough to learn, freeze and recover

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  for (const std::string_view cell : core::split(line, ',')) cells.emplace_back(cell);
  return cells;
}

void check(const tune::ParameterEstimate& e) {
  TAILRACE_CHECK(e.reason.size() < 16'384);
  for (const auto& value :
       {e.condition, e.nis, e.holdout_error, e.rate_per_s, e.rate_low_per_s, e.rate_high_per_s}) {
    TAILRACE_CHECK(!value || std::isfinite(*value));
  }
  if (!e.values) return;
  for (const double value : {e.values->alpha_ms, e.values->beta_ms, e.values->gamma_ms}) {
    TAILRACE_CHECK(std::isfinite(value) && value > 0);
  }
}

void learn(tune::Estimator& estimator, std::string_view text) {
  const auto lines = core::split(text, '\n');
  auto table = tune::ObservationTable::open(cells_of(lines.front()));
  if (!table) return;
  int cycles = 0;
  for (std::size_t i = 1; i < lines.size() && cycles < kCyclesMax; ++i) {
    const auto ended = table->add(cells_of(lines[i]));
    if (!ended) break;
    if (!*ended) continue;
    ++cycles;
    const auto estimate = estimator.update(**ended);
    TAILRACE_CHECK(!estimate.reason.empty());
    check(estimate);
  }
  check(estimator.update(table->finish()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 16'384) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto kind : {tune::EstimatorKind::kKalman, tune::EstimatorKind::kWindowed}) {
    tune::TuneConfig config;
    config.estimator = kind;
    config.limits.max_num_seqs = 64;
    const auto estimator = tune::make_estimator(config).value();
    learn(*estimator, text);
    const std::string state = estimator->save();
    if (!estimator->restore(text)) TAILRACE_CHECK(estimator->save() == state);
    check(estimator->current());
    TAILRACE_CHECK(estimator->restore(state).has_value());
    check(estimator->current());
  }
  return 0;
}
