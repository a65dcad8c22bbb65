#include "tailrace/queueing/service_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "queueing/modes.h"
#include "tailrace/core/text.h"

namespace tailrace::queueing {
namespace {

constexpr double kTokensMax = 1e9;
constexpr double kOutputLeast = 1;
constexpr double kMillisMax = 1e9;
constexpr std::array<std::pair<Mode, std::string_view>, 3> kModes{
    {{Mode::kClosedForm, "closed-form"}, {Mode::kChain, "chain"}, {Mode::kCorrected, "corrected"}}};

Result<void> within(std::string_view name, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: {} is not a number from {} to {}", name, value, low, high));
}

Result<void> first_error(std::initializer_list<Result<void>> checks) {
  for (const Result<void>& check : checks) {
    if (!check) return check;
  }
  return {};
}

/// Of lengths from `least` to kTokensMax with this mean: all of them at the two ends.
double most_second_moment(double mean, double least) {
  return mean * mean + (mean - least) * (kTokensMax - mean);
}

Result<void> second_moment(std::string_view name, double mean, double second, double least) {
  // A moment computed from a coefficient of variation of 0 may round to either side of the square.
  constexpr double kRounding = 1e-9;
  const double most = most_second_moment(mean, least);
  if (second >= mean * mean * (1 - kRounding) && second <= most * (1 + kRounding)) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("{} second moment: {} is not from {:.6g} to {:.6g}, as that of {:.6g} tokens on "
                  "average is (each from {} to 1e9); give a coefficient of variation from 0 to "
                  "{:.6g}",
                  name, second, mean * mean, most, mean, least,
                  mean > 0 ? std::sqrt(most - mean * mean) / mean : 0));
}

}  // namespace

std::string_view to_string(Mode mode) {
  for (const auto& [value, name] : kModes) {
    if (value == mode) return name;
  }
  return "";
}

Result<Mode> parse_mode(std::string_view text) {
  for (const auto& [value, name] : kModes) {
    if (name == text) return value;
  }
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("{} is no model; use closed-form, chain or corrected", core::quoted(text)));
}

std::string_view to_string(Binding binding) {
  switch (binding) {
    case Binding::kNone:
      return "none";
    case Binding::kComputation:
      return "computation";
    case Binding::kSequences:
      return "max_num_seqs";
    case Binding::kKvTokens:
      return "kv_tokens";
    case Binding::kTokenBudget:
      return "max_batched_tokens";
  }
  return "";
}

std::string_view to_string(OutOfRange reason) {
  switch (reason) {
    case OutOfRange::kNone:
      return "";
    case OutOfRange::kNearSaturation:
      return "near-saturation";
    case OutOfRange::kPrefillDominated:
      return "prefill-dominated";
    case OutOfRange::kMemoryBound:
      return "memory-bound";
  }
  return "";
}

Workload Workload::of(double rate_per_s, double input_mean, double output_mean, double input_cv,
                      double output_cv) {
  Workload w;
  w.rate_per_s = rate_per_s;
  w.input_mean = input_mean;
  w.input_second_moment = input_mean * input_mean * (1 + input_cv * input_cv);
  w.output_mean = output_mean;
  w.output_second_moment = output_mean * output_mean * (1 + output_cv * output_cv);
  w.cross_moment = input_mean * output_mean;
  return w;
}

double Workload::output_cv() const {
  const double variance = output_second_moment - output_mean * output_mean;
  return output_mean > 0 && variance > 0 ? std::sqrt(variance) / output_mean : 0;
}

double Workload::input_cv() const {
  const double variance = input_second_moment - input_mean * input_mean;
  return input_mean > 0 && variance > 0 ? std::sqrt(variance) / input_mean : 0;
}

Result<void> ServiceModel::check() const {
  const auto numbers =
      first_error({within("alpha", iteration.alpha_ms, 0, kMillisMax),
                   within("beta", iteration.beta_ms, 0, kMillisMax),
                   within("gamma", iteration.gamma_ms, 0, kMillisMax),
                   within("knee-tokens", iteration.knee_tokens, 0, kTokensMax),
                   within("per-request", iteration.per_request_ms, 0, kMillisMax)});
  if (!numbers) return fail(numbers.error());
  if (iteration.alpha_ms + iteration.beta_ms + iteration.gamma_ms <= 0) {
    return fail(ErrorCode::kInvalidArgument,
                "alpha: alpha, beta and gamma are all 0; an iteration takes time, so give at "
                "least one above 0");
  }
  const auto count = [](std::string_view name, std::int64_t value, std::int64_t low,
                        std::int64_t high) -> Result<void> {
    if (value >= low && value <= high) return {};
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} is not a whole number from {} to {}", name, value, low, high));
  };
  return first_error({count("max-batch", limits.max_num_seqs, 1, 1'000'000),
                      count("max-batched-tokens", limits.max_batched_tokens, 0, 1'000'000'000),
                      count("kv-tokens", limits.kv_tokens, 0, 1'000'000'000'000),
                      count("max-queue", limits.max_queue, 0, 10'000'000)});
}

Result<void> check(const Workload& w) {
  const auto numbers = first_error(
      {within("rate", w.rate_per_s, 0, kRateMax), within("input", w.input_mean, 0, kTokensMax),
       within("output", w.output_mean, kOutputLeast, kTokensMax),
       within("prefix-hit", w.prefix_hit, 0, 1), within("cross-moment", w.cross_moment, 0, 1e18)});
  if (!numbers) return fail(numbers.error());
  return first_error(
      {second_moment("input", w.input_mean, w.input_second_moment, 0),
       second_moment("output", w.output_mean, w.output_second_moment, kOutputLeast)});
}

void keep_possible_moments(Workload& w) {
  const auto keep = [](double& second, double mean, double least) {
    if (!(mean >= least) || !(mean <= kTokensMax)) return;
    second = std::clamp(second, mean * mean, most_second_moment(mean, least));
  };
  keep(w.input_second_moment, w.input_mean, 0);
  keep(w.output_second_moment, w.output_mean, kOutputLeast);
}

Latency latency_unchecked(const ServiceModel& model, const Workload& workload, Detail detail) {
  switch (model.mode) {
    case Mode::kClosedForm:
      return closed_form(model.iteration, workload);
    case Mode::kChain:
      return chain(model.iteration, model.limits, workload);
    case Mode::kCorrected:
      return Corrected(model, workload).at(workload.rate_per_s, detail);
  }
  return {};
}

bool has_further_token(const ServiceModel& model, const Workload& workload) {
  return model.mode != Mode::kCorrected || model.iterations == Iterations::kOutputPlusOne ||
         workload.output_mean > 1;
}

Result<Latency> latency(const ServiceModel& model, const Workload& workload, Detail detail) {
  if (const auto ok = model.check(); !ok) return fail(ok.error());
  if (const auto ok = check(workload); !ok) return fail(ok.error());
  Latency out = latency_unchecked(model, workload, detail);
  if (!out.stable || out.out_of_range == OutOfRange::kNone || !model.oracle) return out;
  Result<Latency> answer = model.oracle->latency(model, workload);
  if (answer) {
    answer->out_of_range = out.out_of_range;  // why it was asked
  } else if (answer.error().code == ErrorCode::kUnsupported) {
    return out;  // still marked as out of range
  }
  return answer;
}

}  // namespace tailrace::queueing
