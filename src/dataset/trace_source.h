// Which requests does one trace file hold? One source per shape of file; TraceReader checks their
// order.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tailrace/core/text.h"
#include "tailrace/dataset/line_reader.h"
#include "tailrace/dataset/trace.h"

namespace tailrace::dataset {

class TraceSource {
 public:
  virtual ~TraceSource() = default;

  enum class Read { kRow, kDropped, kEnd };
  /// Fills every field of `row`, or passes over a request that had no answer.
  virtual Result<Read> next(TraceRow& row) = 0;
  virtual const LineReader& lines() const = 0;
  virtual std::optional<std::int64_t> epoch_ns() const { return std::nullopt; }
};

/// `first_line` was read from `lines` already, so that its shape could be seen. With kAuto the
/// shape is told by its columns or fields, and `format` set.
Result<std::unique_ptr<TraceSource>> csv_trace(LineReader lines, std::string_view first_line,
                                               TraceFormat& format);
Result<std::unique_ptr<TraceSource>> json_trace(LineReader lines, std::string_view first_line,
                                                TraceFormat& format);

inline constexpr std::string_view kTimeRemedy =
    "it must be seconds from the trace's start, 0 to 1e9";

inline bool is_trace_time(double seconds) {
  return seconds >= 0 && seconds <= kTraceSecondsMax;  // neither holds for a NaN
}

/// Back to what a new row is, but for the memory that it holds.
inline void clear(TraceRow& row) {
  std::vector<std::uint64_t> ids = std::move(row.prefix_ids);
  std::string tenant = std::move(row.tenant);
  ids.clear();
  tenant.clear();
  row = TraceRow{};
  row.prefix_ids = std::move(ids);
  row.tenant = std::move(tenant);
}

}  // namespace tailrace::dataset
