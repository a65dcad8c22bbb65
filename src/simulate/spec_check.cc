#include "simulate/spec_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tailrace::simulate {
namespace {

constexpr int kEnginesMax = 10'000;
constexpr Duration kDurationMax = std::chrono::hours(24 * 365);

tl::unexpected<Error> reject(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<void> check_duration(std::string_view field, Duration value) {
  if (value >= Duration{0} && value <= kDurationMax) return {};
  return reject(fmt::format("{} is {} s; give 0 to a year", field, to_seconds(value)));
}

}  // namespace

Result<void> check_run_spec(const RunSpec& spec) {
  if (auto checked = spec.fleet.engine.check(); !checked) return checked;
  if (spec.fleet.engines < 1 || spec.fleet.engines > kEnginesMax) {
    return reject(fmt::format("engines is {}; give 1 to {}", spec.fleet.engines, kEnginesMax));
  }
  const FrontSpec& front = spec.front;
  if (front.slots_per_engine < 0) {
    return reject(fmt::format("slots_per_engine is {}; give at least 1, or 0 for max_num_seqs",
                              front.slots_per_engine));
  }
  if (front.frozen_engine >= spec.fleet.engines) {
    return reject(fmt::format("frozen_engine is {}; engines are numbered 0 to {}",
                              front.frozen_engine, spec.fleet.engines - 1));
  }
  if (front.prefix_depth < 1) {
    return reject(fmt::format("prefix_depth is {}; give at least 1", front.prefix_depth));
  }
  const bool reports = !front.queue && front.choice == FrontSpec::Choice::kLeastReported;
  if (front.staleness != Duration{0} && !reports) {
    return reject(fmt::format(
        "staleness is {} s, but only the choice by reports, without a dispatcher, reads what can "
        "be stale; choose it, or leave staleness out",
        to_seconds(front.staleness)));
  }
  for (const auto& [field, value] :
       {std::pair{"staleness", front.staleness}, std::pair{"predictor.delay", spec.predictor.delay},
        std::pair{"predictor.blocking", spec.predictor.blocking}}) {
    if (auto checked = check_duration(field, value); !checked) return checked;
  }
  if (spec.horizon_s && !(*spec.horizon_s >= 0 && std::isfinite(*spec.horizon_s))) {
    return reject(
        fmt::format("horizon_s is {}; give a finite number of at least 0", *spec.horizon_s));
  }
  return {};
}

std::uint64_t prefix_key(const Request& request, int depth) {
  if (request.session != 0) return request.session;
  const auto& ids = request.prefix.ids;
  if (ids.empty()) return 0;
  // 0 means unknown: an id of 0 must not.
  return ids[std::min(ids.size(), static_cast<std::size_t>(depth)) - 1] + 1;
}

}  // namespace tailrace::simulate
