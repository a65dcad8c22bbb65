#include "tailrace/engine/time_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tailrace::engine {
namespace {

constexpr std::size_t kSamplesMin = 3;
constexpr std::size_t kSamplesMax = 1000;
constexpr int kStepsPerGap = 16;       // looked at between two neighbouring samples
constexpr int kHalvings = 40;          // of the best of those, by golden section
constexpr std::size_t kGapsMax = 400;  // more samples are looked at every so many

struct Candidate {
  double knee = 0;
  double alpha = 0;
  double beta = 0;
  double squares = 0;
};

/// The best alpha and beta for a knee: relative weights make it a line through (1/y, h/y) → 1.
Candidate fit_line(std::span<const IterationSample> samples, double knee) {
  double s11 = 0, s1h = 0, shh = 0, t1 = 0, th = 0;
  for (const auto& [tokens, ms] : samples) {
    const double one = 1 / ms;
    const double h = std::max(0.0, tokens - knee) / ms;
    s11 += one * one;
    s1h += one * h;
    shh += h * h;
    t1 += one;
    th += h;
  }
  Candidate line{knee, t1 / s11, 0, 0};
  const double determinant = s11 * shh - s1h * s1h;
  if (determinant > 1e-12 * s11 * shh) {
    const double alpha = (t1 * shh - th * s1h) / determinant;
    const double beta = (s11 * th - s1h * t1) / determinant;
    if (beta > 0 && alpha >= 0) {
      line = {knee, alpha, beta, 0};
    } else if (beta > 0) {
      line = {knee, 0, th / shh, 0};
    }
  }
  for (const auto& [tokens, ms] : samples) {
    const double error = (line.alpha + line.beta * std::max(0.0, tokens - knee)) / ms - 1;
    line.squares += error * error;
  }
  return line;
}

Candidate better(const Candidate& a, const Candidate& b) {
  return b.squares < a.squares ? b : a;
}

Candidate refine(std::span<const IterationSample> samples, double low, double high) {
  const double golden = (std::sqrt(5.0) - 1) / 2;
  Candidate left = fit_line(samples, high - golden * (high - low));
  Candidate right = fit_line(samples, low + golden * (high - low));
  for (int i = 0; i < kHalvings; ++i) {
    if (left.squares <= right.squares) {
      high = right.knee;
      right = left;
      left = fit_line(samples, high - golden * (high - low));
    } else {
      low = left.knee;
      left = right;
      right = fit_line(samples, low + golden * (high - low));
    }
  }
  return better(left, right);
}

Result<std::vector<IterationSample>> checked(std::span<const IterationSample> samples) {
  const auto bad = [](std::string message) {
    return fail(ErrorCode::kInvalidArgument, std::move(message));
  };
  if (samples.size() < kSamplesMin || samples.size() > kSamplesMax) {
    return bad(fmt::format("{} times were measured; give {} to {}", samples.size(), kSamplesMin,
                           kSamplesMax));
  }
  std::vector<IterationSample> sorted(samples.begin(), samples.end());
  for (const auto& [tokens, ms] : sorted) {
    if (!(tokens >= 1 && tokens <= 1e9)) {
      return bad(fmt::format("{} tokens were measured; they must be from 1 to 1e9", tokens));
    }
    if (!(ms >= 1e-6 && ms <= 1e9)) {
      return bad(fmt::format("{} ms for {} tokens; it must be from 1e-6 to 1e9", ms, tokens));
    }
  }
  const auto by_tokens = [](const auto& a, const auto& b) { return a.tokens < b.tokens; };
  std::sort(sorted.begin(), sorted.end(), by_tokens);
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].tokens > sorted[i - 1].tokens) continue;
    return bad(fmt::format("{} tokens were measured twice; give one time for each number",
                           sorted[i].tokens));
  }
  return sorted;
}

}  // namespace

Result<TimeFit> fit_iteration_times(std::span<const IterationSample> samples) {
  const auto sorted = checked(samples);
  if (!sorted) return fail(sorted.error());
  // Two samples above the knee at least: with one, any knee goes with some beta. The squares may
  // have several lows, so all of the range is looked at before the best place is refined.
  const std::size_t last = sorted->size() - 2;
  const std::size_t stride = last / kGapsMax + 1;
  std::vector<double> knees{0};
  for (std::size_t i = 0; i <= last; i += stride) {
    const double from = knees.back();
    const double to = (*sorted)[std::min(i, last)].tokens;
    for (int step = 1; step <= kStepsPerGap; ++step) {
      knees.push_back(from + (to - from) * step / kStepsPerGap);
    }
  }
  Candidate best = fit_line(*sorted, knees.front());
  std::size_t at = 0;
  for (std::size_t i = 1; i < knees.size(); ++i) {
    const Candidate candidate = fit_line(*sorted, knees[i]);
    if (candidate.squares >= best.squares) continue;
    best = candidate;
    at = i;
  }
  const double low = knees[at == 0 ? 0 : at - 1];
  const double high = knees[std::min(at + 1, knees.size() - 1)];
  best = better(best, refine(*sorted, low, high));
  // A knee before the first sample is none: alpha says the same.
  if (best.knee <= sorted->front().tokens) {
    const Candidate none = fit_line(*sorted, 0);
    if (none.squares <= best.squares + 1e-12) best = none;
  }

  TimeFit fit{best.alpha, best.beta, best.knee, 0, 0, 0};
  fit.rms_error = std::sqrt(best.squares / static_cast<double>(sorted->size()));
  for (const auto& [tokens, ms] : *sorted) {
    const double error =
        std::abs((best.alpha + best.beta * std::max(0.0, tokens - best.knee)) / ms - 1);
    if (error < fit.worst_error) continue;
    fit.worst_error = error;
    fit.worst_tokens = tokens;
  }
  return fit;
}

}  // namespace tailrace::engine
