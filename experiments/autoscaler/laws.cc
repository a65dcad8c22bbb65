#include "autoscaler/laws.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tailrace::scenario {
namespace {

constexpr double kTolerance = 0.1, kDownWindowSeconds = 300, kUpPeriodSeconds = 60;

/// Requests in a variant's engines, and how many engines say so.
std::pair<double, double> load_of(const capacity::Variant& variant) {
  double load = 0, pods = 0;
  for (const auto& pod : variant.pods) {
    if (!pod.running) continue;
    load += *pod.running + pod.waiting.value_or(0);
    ++pods;
  }
  return {load, pods};
}

}  // namespace

PodAutoscaler::PodAutoscaler(Metric metric, double target, std::vector<std::int64_t> min,
                             std::vector<std::int64_t> max)
    : metric_(metric),
      target_(target),
      min_(std::move(min)),
      max_(std::move(max)),
      recommended_(min_.size()),
      seen_(min_.size()) {}

std::vector<int> PodAutoscaler::operator()(const autoscaler::Snapshot& snapshot) {
  const auto& model = snapshot.models.front();
  double all = 0;
  for (const auto& variant : model.variants) {
    all += static_cast<double>(variant.current + variant.pending);
  }
  std::vector<int> wanted;
  for (std::size_t v = 0; v < model.variants.size(); ++v) {
    const auto& variant = model.variants[v];
    const std::int64_t replicas = variant.current + variant.pending;
    const auto there = static_cast<double>(replicas);
    const auto [load, pods] = load_of(variant);
    std::int64_t desired = replicas;
    if (metric_ == Metric::kConcurrency && pods > 0) {
      // Pods that do not report yet count as idle where more would be added.
      const double ratio = load / pods / target_;
      const double with_idle = load / there / target_;
      const double use = ratio > 1 ? std::max(1.0, with_idle) : ratio;
      if (std::abs(use - 1) > kTolerance) {
        desired = static_cast<std::int64_t>(std::ceil((use > 1 ? there : pods) * use - 1e-9));
      }
    } else if (metric_ == Metric::kQueue && model.gateway && all > 0) {
      // This variant's share of the one queue, by replicas.
      const double ratio = model.gateway->requests / all / target_;
      if (std::abs(ratio - 1) > kTolerance) {
        desired = static_cast<std::int64_t>(std::ceil(there * ratio - 1e-9));
      }
    }
    auto& seen = seen_[v];
    auto& marks = recommended_[v];
    const double now_s = snapshot.time_s;
    while (!seen.empty() && seen.front().at_s < now_s - kUpPeriodSeconds) seen.pop_front();
    while (!marks.empty() && marks.front().at_s < now_s - kDownWindowSeconds) marks.pop_front();
    const std::int64_t start = seen.empty() ? replicas : seen.front().replicas;
    seen.push_back({now_s, replicas});
    marks.push_back({now_s, desired});
    if (desired > replicas) {
      desired = std::min(desired, std::max(start + 4, 2 * start));
      desired = std::max(desired, replicas);
    } else {
      std::int64_t largest = desired;
      for (const Mark& mark : marks) largest = std::max(largest, mark.replicas);
      desired = std::min(replicas, largest);
    }
    wanted.push_back(static_cast<int>(std::clamp(desired, min_[v], max_[v])));
  }
  return wanted;
}

}  // namespace tailrace::scenario
