// Any text as a recording of a fleet's metrics, and any text as what the analyzer has learnt: read
// or refused in words, and every cycle that comes out is one that the analyzer can take.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decision_checks.h"
#include "tailrace/capacity/cycle.h"
#include "tailrace/capacity/recorded_table.h"
#include "tailrace/dataset/csv.h"

namespace {

using namespace tailrace;
using namespace tailrace::capacity;

constexpr int kCyclesMax = 10;

void decide(const RecordedCycle& cycle, CycleState& state) {
  CycleInput input;
  input.models = cycle.models;
  fuzz::check_result(run_cycle(cycle.time_s, input, CycleConfig{}, state));
}

void read(std::string text) {
  auto lines = dataset::LineReader::from_bytes(std::move(text), "metrics.csv", 1 << 16);
  if (!lines) return;
  auto csv = dataset::CsvReader::open(std::move(*lines));
  if (!csv) return;
  auto table = RecordedTable::open(csv->header());
  if (!table) {
    TAILRACE_CHECK(!table.error().message.empty());
    return;
  }
  CycleState state(StabilisationConfig{});
  std::vector<std::string> cells;
  for (int cycles = 0; cycles < kCyclesMax;) {
    const auto row = csv->next(cells);
    if (!row || !*row) break;
    const auto ended = table->add(cells);
    if (!ended) {
      TAILRACE_CHECK(!ended.error().message.empty());
      return;
    }
    if (!*ended) continue;
    ++cycles;
    decide(**ended, state);
  }
  if (const auto last = table->finish()) decide(*last, state);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 16'384) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  CycleState state(std::nullopt);
  if (const auto ok = state.restore(text); !ok) TAILRACE_CHECK(!ok.error().message.empty());
  read(text);
  return 0;
}
