#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tailrace/core/check.h"
#include "tailrace/core/text.h"
#include "tailrace/loadgen/workload.h"

namespace tailrace::loadgen {
namespace {

// Beyond any run that one generator can make; keeps a wrong unit from eating the memory.
constexpr std::size_t kArrivalsMax = 10'000'000;
constexpr double kArrivalMax_s = 1e9;

/// The index of the time column if the line is a header.
std::optional<std::size_t> header_column(std::string_view line) {
  const auto cells = core::split(line, ',');
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string_view name = core::trim(cells[i]);
    if (name == "t_s" || name == "arrival_s") return i;
  }
  return std::nullopt;
}

}  // namespace

std::vector<double> poisson_arrivals(double rate, std::optional<std::size_t> count,
                                     std::optional<double> duration_s, Rng rng) {
  TAILRACE_CHECK(rate > 0 && (count || duration_s));
  const std::size_t most = std::min(count.value_or(kArrivalsMax), kArrivalsMax);
  std::vector<double> arrivals;
  for (double at = rng.exponential() / rate; arrivals.size() < most;
       at += rng.exponential() / rate) {
    if (duration_s && at >= *duration_s) break;
    arrivals.push_back(at);
  }
  return arrivals;
}

Result<std::vector<double>> own_arrivals(const std::vector<LoadRequest>& requests) {
  std::vector<double> arrivals;
  for (const LoadRequest& request : requests) {
    if (!request.arrival_s || (!arrivals.empty() && *request.arrival_s < arrivals.back())) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("request {} has no arrival_s, or one before its predecessor's; give a "
                      "rate (--rate) or a trace (--trace)",
                      core::quoted(request.id)));
    }
    arrivals.push_back(*request.arrival_s);
  }
  return arrivals;
}

Result<std::vector<double>> parse_arrivals(std::string_view csv) {
  std::vector<double> arrivals;
  std::size_t column = 0;
  std::size_t number = 0;
  bool may_be_header = true;
  for (const std::string_view raw : core::split(csv, '\n')) {
    ++number;
    const std::string_view line = core::trim(raw);
    if (line.empty()) continue;
    if (std::exchange(may_be_header, false)) {
      if (const auto found = header_column(line)) {
        column = *found;
        continue;
      }
    }
    const auto cells = core::split(line, ',');
    const auto at =
        column < cells.size() ? core::parse_double(core::trim(cells[column])) : std::nullopt;
    if (!at || !(*at <= kArrivalMax_s) || *at < (arrivals.empty() ? 0 : arrivals.back())) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("line {}: {} is no arrival time; give seconds since the start, ascending, "
                      "in a column t_s or arrival_s, or in the first one",
                      number, core::quoted(line)));
    }
    arrivals.push_back(*at);
  }
  if (arrivals.empty()) return fail(ErrorCode::kInvalidArgument, "the trace holds no arrival time");
  return arrivals;
}

}  // namespace tailrace::loadgen
