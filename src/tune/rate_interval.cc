#include "tune/rate_interval.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tailrace/queueing/sizing.h"

namespace tailrace::tune {
namespace {

using queueing::Latency;
using queueing::ServiceModel;
using queueing::SizingLimit;
using queueing::Workload;

constexpr double kLoadWithoutTargets = 0.8;
constexpr double kTwoSided90 = 1.6448536269514722;
constexpr double kStep = 0.01;

/// ln of what a limit is about, at a rate: a latency, or the maximum rate itself.
double log_value(const ServiceModel& model, Workload w, double rate_per_s, SizingLimit limit) {
  w.rate_per_s = rate_per_s;
  const Latency at = queueing::latency_unchecked(model, w, queueing::Detail::kMeans);
  if (limit == SizingLimit::kStability) return std::log(at.max_rate_per_s);
  const auto& value = limit == SizingLimit::kTtft ? at.ttft_ms : at.itl_ms;
  return value ? std::log(*value) : std::nan("");
}

double& parameter(queueing::IterationModel& model, std::size_t j) {
  return j == 0 ? model.alpha_ms : j == 1 ? model.beta_ms : model.gamma_ms;
}

/// Standard deviation of ln(rate) where `limit` ends the rate, by its slope: the limit's latency
/// stays what it is, so d ln rate = −(d ln latency / dx) / (d ln latency / d ln rate).
std::optional<double> log_deviation(const ServiceModel& model, const Workload& w, double rate_per_s,
                                    SizingLimit limit, const std::array<double, 9>& covariance) {
  std::array<double, 3> slope{};
  for (std::size_t j = 0; j < slope.size(); ++j) {
    ServiceModel above = model, below = model;
    const double step = kStep * parameter(above.iteration, j);
    if (!(step > 0)) return std::nullopt;
    parameter(above.iteration, j) += step;
    parameter(below.iteration, j) -= step;
    slope[j] = (log_value(above, w, rate_per_s, limit) - log_value(below, w, rate_per_s, limit)) /
               (2 * step);
  }
  double by_rate = -1;  // the maximum rate is itself the answer
  if (limit != SizingLimit::kStability) {
    const double step = kStep * rate_per_s;
    by_rate = (log_value(model, w, rate_per_s + step, limit) -
               log_value(model, w, rate_per_s - step, limit)) /
              (2 * kStep);
    if (!(by_rate > 0)) return std::nullopt;
  }
  double variance = 0;
  for (std::size_t j = 0; j < slope.size(); ++j) {
    for (std::size_t k = 0; k < slope.size(); ++k) {
      variance += slope[j] * covariance[3 * j + k] * slope[k];
    }
  }
  const double deviation = std::sqrt(variance) / std::abs(by_rate);
  if (!std::isfinite(deviation)) return std::nullopt;
  return deviation;
}

}  // namespace

std::optional<RateInterval> rate_interval(const ServiceModel& model, const Workload& lengths,
                                          double ttft_ms, double itl_ms,
                                          const std::optional<std::array<double, 9>>& covariance) {
  RateInterval out;
  std::vector<SizingLimit> limits;
  if (ttft_ms == 0 && itl_ms == 0) {
    Workload idle = lengths;
    idle.rate_per_s = 0;
    out.rate_per_s =
        kLoadWithoutTargets *
        queueing::latency_unchecked(model, idle, queueing::Detail::kMeans).max_rate_per_s;
    // Both targets bind there; which one will, the true parameters decide.
    limits = {SizingLimit::kTtft, SizingLimit::kItl};
  } else {
    const auto sizing = queueing::size(model, lengths, {.ttft_ms = ttft_ms, .itl_ms = itl_ms});
    if (!sizing || !sizing->reachable) return std::nullopt;
    out.rate_per_s = sizing->rate_per_s;
    limits = {sizing->limit};
  }
  if (!(out.rate_per_s > 0) || !std::isfinite(out.rate_per_s)) return std::nullopt;
  if (!covariance) return out;
  double widest = 0;
  for (const SizingLimit limit : limits) {
    const auto deviation = log_deviation(model, lengths, out.rate_per_s, limit, *covariance);
    if (!deviation) return out;
    widest = std::max(widest, *deviation);
  }
  const double low = out.rate_per_s * std::exp(-kTwoSided90 * widest);
  const double high = out.rate_per_s * std::exp(kTwoSided90 * widest);
  if (std::isfinite(high)) {
    out.low_per_s = low;
    out.high_per_s = high;
  }
  return out;
}

}  // namespace tailrace::tune
