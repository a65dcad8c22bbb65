#include "tailrace/capacity/aggregate.h"

#include <algorithm>
#include <cmath>

namespace tailrace::capacity {
namespace {

// Beyond these a number is an accident of its source rather than a measurement.
constexpr double kRateMax = 1e9;          // requests per second
constexpr double kTokensMax = 1e9;        // service_model.h takes no more
constexpr double kMillisecondsMax = 1e9;  // eleven days
constexpr double kCountMax = 1e12;
constexpr double kCvMax = 1e3;

/// A value that can be one: finite, in (low, high].
std::optional<double> plausible(const std::optional<double>& value, double high) {
  if (value && *value > 0 && *value <= high) return value;
  return std::nullopt;
}

double finite_or_zero(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? *value : 0;
}

double second_moment(double mean, const std::optional<double>& cv) {
  const double c = cv && *cv >= 0 && *cv <= kCvMax ? *cv : 0;
  return mean * mean * (1 + c * c);
}

}  // namespace

std::optional<queueing::Workload> WorkloadSummary::workload() const {
  if (!input_tokens || !output_tokens) return std::nullopt;
  queueing::Workload w;
  w.rate_per_s = rate_per_busy_pod();
  w.input_mean = *input_tokens;
  w.output_mean = *output_tokens;
  w.input_second_moment = input_second_moment;
  w.output_second_moment = output_second_moment;
  // Rounding may leave a moment a hair below the square of its mean, which no lengths have.
  queueing::keep_possible_moments(w);
  w.cross_moment = cross_moment;
  w.prefix_hit = prefix_hit;
  return w;
}

std::optional<double> Aggregator::Mean::value() const {
  if (!(weight > 0)) return std::nullopt;
  return sum / weight;
}

void Aggregator::Latency::add(double rate, const std::optional<double>& requests, double x) {
  by_rate.add(rate, x);
  if (requests && *requests >= 0 && *requests <= kCountMax) {
    by_requests.add(*requests, x);
  } else {
    all_tell = false;
  }
}

std::optional<double> Aggregator::Latency::value() const {
  // Rates and counts are different units, so one pod that does not tell decides for all.
  if (all_tell && by_requests.weight > 0) return by_requests.value();
  return by_rate.value();
}

void Aggregator::add(const tune::Observation& pod) {
  ++counts_.pods;
  if (const auto waiting = plausible(pod.waiting, kCountMax)) counts_.waiting += *waiting;
  const double rate = pod.rate_per_s.value_or(NAN);
  if (!(rate >= 0 && rate <= kRateMax)) {
    ++counts_.unknown_pods;
    return;
  }
  if (rate == 0) return;
  ++counts_.busy_pods;
  counts_.rate_per_s += rate;
  if (assembly_ == Assembly::kPublished) return add_published(pod, rate);

  const auto input = plausible(pod.input_tokens, kTokensMax);
  const auto output = plausible(pod.output_tokens, kTokensMax);
  if (input) {
    input_.add(rate, *input);
    input_second_.add(rate, second_moment(*input, pod.input_cv));
  }
  if (output) {
    output_.add(rate, *output);
    output_second_.add(rate, second_moment(*output, pod.output_cv));
  }
  if (input && output) cross_.add(rate, *input * *output);
  if (const auto hit = pod.prefix_hit; hit && *hit >= 0 && *hit <= 1) {
    prefix_.add(rate * input.value_or(1), *hit);
  }
  if (const auto ttft = plausible(pod.ttft_ms, kMillisecondsMax)) {
    ttft_.add(rate, pod.requests, *ttft);
  }
  if (const auto itl = plausible(pod.itl_ms, kMillisecondsMax)) {
    itl_.add(rate, pod.requests, *itl);
  }
}

void Aggregator::add_published(const tune::Observation& pod, double rate) {
  const double input = std::clamp(finite_or_zero(pod.input_tokens), 0.0, kTokensMax);
  const double output = std::clamp(finite_or_zero(pod.output_tokens), 0.0, kTokensMax);
  input_.add(rate, input);
  output_.add(rate, output);
  ttft_.add(rate, std::nullopt, std::clamp(finite_or_zero(pod.ttft_ms), 0.0, kMillisecondsMax));
  itl_.add(rate, std::nullopt, std::clamp(finite_or_zero(pod.itl_ms), 0.0, kMillisecondsMax));
}

WorkloadSummary Aggregator::summary() const {
  WorkloadSummary s = counts_;
  s.input_tokens = input_.value();
  s.output_tokens = output_.value();
  s.ttft_ms = ttft_.value();
  s.itl_ms = itl_.value();
  s.prefix_hit = prefix_.value().value_or(0);
  const double input = s.input_tokens.value_or(0), output = s.output_tokens.value_or(0);
  s.input_second_moment = input_second_.value().value_or(input * input);
  s.output_second_moment = output_second_.value().value_or(output * output);
  s.cross_moment = cross_.value().value_or(input * output);
  return s;
}

}  // namespace tailrace::capacity
