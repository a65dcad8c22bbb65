#include "tailrace/capacity/stabilisation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "capacity/counts.h"

namespace tailrace::capacity {
namespace {

/// A day: whoever wants longer wants a fixed number of replicas.
constexpr double kSecondsMax = 86'400;
/// What one variant keeps of each kind. Beyond it the two oldest become one, to the careful side.
constexpr std::size_t kMarksMax = 1024;

Result<void> check_seconds(std::string_view name, double value, bool zero_allowed) {
  if (std::isfinite(value) && value <= kSecondsMax && (zero_allowed ? value >= 0 : value > 0)) {
    return {};
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is {}; use {} {:.0f} s", name, value,
                          zero_allowed ? "0 to" : "above 0 up to", kSecondsMax));
}

Result<void> check_cap(std::string_view name, const StepCap& cap) {
  if (cap.pods && *cap.pods < 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}.pods is {}; use 0 or more", name, *cap.pods));
  }
  if (cap.percent && !(std::isfinite(*cap.percent) && *cap.percent >= 0)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}.percent is {}; use 0 or more", name, *cap.percent));
  }
  return check_seconds(fmt::format("{}.period_s", name), cap.period_s, false);
}

/// How far replicas may move from `start` within the period; empty: any distance.
std::optional<std::int64_t> distance(const StepCap& cap, std::int64_t start) {
  std::optional<std::int64_t> most = cap.pods;
  if (cap.percent) {
    const double part = std::ceil(double(start) * *cap.percent / 100 * (1 - kCountSlack));
    const std::int64_t least = *cap.percent > 0 ? 1 : 0;  // a percentage of nobody is nobody
    const std::int64_t pods = part < double(kReplicasMax)
                                  ? std::max(least, static_cast<std::int64_t>(part))
                                  : kReplicasMax;
    most = std::max(most.value_or(0), pods);
  }
  return most;
}

template <class Marks>
void forget(Marks& marks, double until_s) {
  while (!marks.empty() && marks.front().time_s <= until_s) marks.pop_front();
}

template <class Marks>
std::int64_t sum_since(const Marks& marks, double after_s) {
  std::int64_t sum = 0;
  for (const auto& mark : marks) {
    if (mark.time_s > after_s) sum = add_counts(sum, mark.replicas);
  }
  return sum;
}

template <class Marks>
void add_change(Marks& marks, double time_s, std::int64_t replicas) {
  if (replicas <= 0) return;
  marks.push_back({time_s, replicas});
  if (marks.size() <= kMarksMax) return;
  const std::int64_t oldest = marks.front().replicas;
  marks.pop_front();
  marks.front().replicas = add_counts(marks.front().replicas, oldest);
}

/// Keeps what can still be a window's extreme: an older mark that `over` a newer one holds for as
/// long as it lasts.
template <class Marks, class Over>
void add_recommendation(Marks& marks, double time_s, std::int64_t replicas, Over over) {
  while (!marks.empty() && !over(marks.back().replicas, replicas)) marks.pop_back();
  marks.push_back({time_s, replicas});
  if (marks.size() <= kMarksMax) return;
  const std::int64_t oldest = marks.front().replicas;
  marks.pop_front();
  marks.front().replicas = oldest;
}

/// start ± distance without leaving the numbers.
std::int64_t above(std::int64_t start, std::int64_t distance) {
  return add_counts(start, distance);
}
std::int64_t below(std::int64_t start, std::int64_t distance) {
  return start > distance ? start - distance : 0;
}

}  // namespace

Result<void> StabilisationConfig::check() const {
  if (auto ok = check_seconds("down_window_s", down_window_s, true); !ok) return ok;
  if (auto ok = check_seconds("up_window_s", up_window_s, true); !ok) return ok;
  if (auto ok = check_cap("up", up); !ok) return ok;
  return check_cap("down", down);
}

Stabiliser::Stabiliser(StabilisationConfig config) : config_(config) {}

void Stabiliser::apply(double now_s, std::span<Decision> decisions) {
  if (now_s > now_s_) now_s_ = now_s;
  for (Decision& decision : decisions) {
    const auto [found, fresh] = histories_.try_emplace({decision.key, decision.variant});
    History& history = found->second;
    if (fresh) {
      history.observed = decision.observed();
      history.largest.push_back({now_s_, history.observed});
      history.smallest.push_back({now_s_, history.observed});
    }
    observe(history, decision);
    if (!decision.informed) continue;
    add_recommendation(history.largest, now_s_, decision.desired, std::greater<>());
    add_recommendation(history.smallest, now_s_, decision.desired, std::less<>());
    stabilise(history, decision);
    cap_step(history, decision);
  }
  const double memory_s = std::max(
      {config_.down_window_s, config_.up_window_s, config_.down.period_s, config_.up.period_s});
  std::erase_if(histories_, [this, memory_s](const auto& entry) {
    return entry.second.seen_s < now_s_ - memory_s;
  });
}

void Stabiliser::observe(History& history, const Decision& decision) {
  const std::int64_t observed = decision.observed();
  if (observed > history.observed) {
    add_change(history.grown, now_s_, observed - history.observed);
  } else {
    add_change(history.shrunk, now_s_, history.observed - observed);
  }
  history.observed = observed;
  history.seen_s = now_s_;
  const double changes_s = std::max(config_.up.period_s, config_.down.period_s);
  forget(history.grown, now_s_ - changes_s);
  forget(history.shrunk, now_s_ - changes_s);
  forget(history.largest, now_s_ - config_.down_window_s);
  forget(history.smallest, now_s_ - config_.up_window_s);
}

void Stabiliser::stabilise(History& history, Decision& decision) const {
  const Mark& largest = history.largest.front();
  const Mark& smallest = history.smallest.front();
  const std::int64_t observed = decision.observed();
  if (decision.desired < observed && largest.replicas > decision.desired) {
    const double to_go = largest.time_s + config_.down_window_s - now_s_;
    decision.waits_for =
        fmt::format("{:.0f} s of the down window: {} replicas were recommended {:.0f} s ago", to_go,
                    largest.replicas, now_s_ - largest.time_s);
    decision.apply(
        "down window",
        fmt::format("{} raised to {}, the largest recommendation of the last {:.0f} s",
                    decision.desired, std::min(largest.replicas, observed), config_.down_window_s),
        std::min(largest.replicas, observed));
  } else if (decision.desired > observed && smallest.replicas < decision.desired) {
    const double to_go = smallest.time_s + config_.up_window_s - now_s_;
    decision.waits_for =
        fmt::format("{:.0f} s of the up window: {} replicas were recommended {:.0f} s ago", to_go,
                    smallest.replicas, now_s_ - smallest.time_s);
    decision.apply(
        "up window",
        fmt::format("{} cut to {}, the smallest recommendation of the last {:.0f} s",
                    decision.desired, std::max(smallest.replicas, observed), config_.up_window_s),
        std::max(smallest.replicas, observed));
  }
}

void Stabiliser::cap_step(const History& history, Decision& decision) const {
  const std::int64_t observed = decision.observed();
  const bool up = decision.desired > observed;
  if (decision.desired == observed) return;
  const StepCap& cap = up ? config_.up : config_.down;
  const std::int64_t grown = sum_since(history.grown, now_s_ - cap.period_s);
  const std::int64_t shrunk = sum_since(history.shrunk, now_s_ - cap.period_s);
  const std::int64_t start = below(add_counts(observed, shrunk), grown);
  const auto most = distance(cap, start);
  if (!most) return;
  const std::int64_t limit =
      up ? std::max(observed, above(start, *most)) : std::min(observed, below(start, *most));
  if (up ? decision.desired <= limit : decision.desired >= limit) return;
  decision.waits_for = fmt::format("the step cap of {:.0f} s", cap.period_s);
  decision.apply("step cap",
                 fmt::format("{} held at {}: at most {} {} in {:.0f} s, from {}", decision.desired,
                             limit, *most, up ? "more" : "fewer", cap.period_s, start),
                 limit);
}

}  // namespace tailrace::capacity
