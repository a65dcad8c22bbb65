#include "capacity/steady_lengths.h"

#include <algorithm>
#include <cmath>

namespace tailrace::capacity {
namespace {

constexpr double kMemorySeconds = 300;
/// Means that differ by more are of other requests, if the next cycles say so too.
constexpr double kFarOff = 0.25;
constexpr int kFarOffCycles = 3;

bool far_off(double now, double mean) {
  return std::abs(now - mean) > kFarOff * std::max(1.0, mean);
}

}  // namespace

std::optional<queueing::Workload> SteadyLengths::update(
    double now_s, const std::optional<queueing::Workload>& now) {
  if (!now) return std::nullopt;
  const double since_s = now_s - memory_.now_s;
  memory_.now_s = now_s;
  const bool other = memory_.mean && (far_off(now->output_mean, memory_.mean->output_mean) ||
                                      far_off(now->input_mean, memory_.mean->input_mean));
  memory_.far_off = other ? memory_.far_off + 1 : 0;
  if (!memory_.mean || memory_.far_off >= kFarOffCycles || !(since_s >= 0) ||
      since_s > kMemorySeconds) {
    memory_.mean = now;
    memory_.far_off = 0;
    return now;
  }
  const double part = -std::expm1(-since_s / kMemorySeconds);
  const auto move = [part](double& mean, double to) { mean += part * (to - mean); };
  move(memory_.mean->input_mean, now->input_mean);
  move(memory_.mean->input_second_moment, now->input_second_moment);
  move(memory_.mean->output_mean, now->output_mean);
  move(memory_.mean->output_second_moment, now->output_second_moment);
  move(memory_.mean->cross_moment, now->cross_moment);
  move(memory_.mean->prefix_hit, now->prefix_hit);
  queueing::Workload out = *memory_.mean;
  out.rate_per_s = now->rate_per_s;
  queueing::keep_possible_moments(out);
  return out;
}

}  // namespace tailrace::capacity
