#include "tailrace/tune/observation_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "tailrace/core/text.h"
#include "tailrace/tune/metric_columns.h"

namespace tailrace::tune {
namespace {

using Number = std::optional<double> Observation::*;

/// The first two are no member of this kind: time is never missing, a pod is a text.
constexpr std::size_t kTime = 0, kPod = 1;
constexpr std::size_t kRequired = 7;
constexpr std::array<std::pair<std::string_view, Number>, 15> kColumns{{
    {"time_s", nullptr},
    {"pod", nullptr},
    {"rate", &Observation::rate_per_s},
    {"input", &Observation::input_tokens},
    {"output", &Observation::output_tokens},
    {"ttft_ms", &Observation::ttft_ms},
    {"itl_ms", &Observation::itl_ms},
    {"running", &Observation::running},
    {"requests", &Observation::requests},
    {"output_cv", &Observation::output_cv},
    {"input_cv", &Observation::input_cv},
    {"prefix_hit", &Observation::prefix_hit},
    {"waiting", &Observation::waiting},
    {"itl_per_sequence_ms", &Observation::itl_per_sequence_ms},
    {"itl_per_sequence_error", &Observation::itl_per_sequence_error},
}};

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace

Result<ObservationTable> ObservationTable::open(std::span<const std::string> header) {
  std::array<std::string_view, kColumns.size()> names;
  std::transform(kColumns.begin(), kColumns.end(), names.begin(),
                 [](const auto& column) { return column.first; });
  auto places = places_of_columns(header, names, kRequired);
  if (!places) return fail(places.error());
  ObservationTable table;
  table.columns_ = std::move(*places);
  return table;
}

Result<std::optional<Cycle>> ObservationTable::add(std::span<const std::string> cells) {
  if (cells.size() != columns_.size()) {
    return bad(
        fmt::format("{} cells, but the header names {} columns", cells.size(), columns_.size()));
  }
  Observation row;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto& [name, member] = kColumns[columns_[i]];
    const std::string_view cell = core::trim(cells[i]);
    if (columns_[i] == kPod) {
      if (cell.size() > kPodBytesMax) {
        return bad(fmt::format("column pod: {} has {} bytes; give a name of at most {}",
                               core::quoted(cell), cell.size(), kPodBytesMax));
      }
      row.pod = std::string(cell);
      continue;
    }
    if (columns_[i] != kTime && is_missing(cell)) continue;
    const auto value = number_in(cell);
    if (columns_[i] == kTime) {
      if (!value || !std::isfinite(*value)) {
        return bad(fmt::format("column time_s: {} is no time; give seconds, such as 60",
                               core::quoted(cell)));
      }
      row.time_s = *value;
    } else if (value) {
      row.*member = value;
    } else {
      return bad(fmt::format("column {}: {} is not a number; leave the cell empty if it is unknown",
                             name, core::quoted(cell)));
    }
  }
  std::optional<Cycle> ended;
  if (!cycle_.empty() && row.time_s != cycle_.front().time_s) {
    if (row.time_s < cycle_.front().time_s) {
      return bad(fmt::format("column time_s: {} comes after {}; sort the rows by time_s",
                             row.time_s, cycle_.front().time_s));
    }
    ended = std::exchange(cycle_, {});
    pods_.clear();
  }
  if (cycle_.size() == kCycleRowsMax) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("column time_s: more than {} rows have the time {}; one variant has "
                            "fewer pods, so give the rows of one variant",
                            kCycleRowsMax, row.time_s));
  }
  if (!row.pod.empty() && !pods_.insert(row.pod).second) {
    return bad(fmt::format("column pod: {} has two rows of the time {}; keep one",
                           core::quoted(row.pod), row.time_s));
  }
  cycle_.push_back(std::move(row));
  return ended;
}

}  // namespace tailrace::tune
