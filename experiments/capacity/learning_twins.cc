#include "capacity/learning_twins.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>

namespace tailrace::accuracy {
namespace {

constexpr std::array kGammaTimes{0.125, 0.354, 2.83, 8.0};
constexpr double kLoad = 0.1;
constexpr int kSteps = 1000;

/// The iteration time with this gamma that has the truth's TTFT and ITL at `at`; empty where there
/// is none.
std::optional<queueing::IterationModel> twin(const Truth& truth, const queueing::Workload& at,
                                             double gamma_ms) {
  const auto wanted = queueing::latency_unchecked(truth.model, at, queueing::Detail::kMeans);
  queueing::ServiceModel model = truth.model;
  model.iteration.gamma_ms = gamma_ms;
  for (int step = 0; step < kSteps; ++step) {
    const auto has = queueing::latency_unchecked(model, at, queueing::Detail::kMeans);
    queueing::IterationModel& m = model.iteration;
    if (!has.stable) {
      m.alpha_ms *= 0.9;
      m.beta_ms *= 0.9;
      continue;
    }
    // ITL is mostly alpha, and what TTFT has beyond it mostly beta.
    const double itl = *wanted.itl_ms - *has.itl_ms, ttft = *wanted.ttft_ms - *has.ttft_ms;
    if (std::abs(itl) < 1e-6 * *wanted.itl_ms && std::abs(ttft) < 1e-6 * *wanted.ttft_ms) return m;
    m.alpha_ms = std::max(1e-3, m.alpha_ms + 0.5 * itl);
    m.beta_ms = std::max(1e-9, m.beta_ms + 0.5 * (ttft - itl) / at.input_mean);
  }
  return std::nullopt;
}

}  // namespace

void print_twins(std::FILE* out, std::span<const Subject> subjects) {
  std::fprintf(
      out,
      "### What one load cannot show\n\n"
      "TTFT and ITL at one load are two numbers (the mean batch follows from them), and alpha, "
      "beta "
      "and gamma three. For each server, engines of another gamma whose mean TTFT and ITL at %.1f "
      "of its largest rate are the same to a millionth, and how far their lambda\\* is from its "
      "own. Between these only a prior can choose. Ours is of real engines. One in the middle "
      "between them and the granite sample would be off as the granite sample's column of 0.354 "
      "and "
      "the others' of 2.83 say, so no prior keeps all within their limits at constant load, nor "
      "before the load has changed. Where nobody measures what one more sequence adds to a gap, "
      "what is left is to say so: the direction is called unidentified, and the interval is that "
      "wide.\n\n"
      "| server | gamma × 0.125 | × 0.354 | × 2.83 | × 8 |\n|---|---|---|---|---|\n",
      kLoad);
  for (const Subject& subject : subjects) {
    const Truth truth(subject);
    const queueing::Workload at = subject.shape.at(kLoad * truth.max_rate_per_s);
    const double own = truth.rate(truth.model.iteration, subject.shape).value_or(0);
    std::fprintf(out, "| %s |", subject.name.c_str());
    for (const double times : kGammaTimes) {
      const auto other = twin(truth, at, times * truth.model.iteration.gamma_ms);
      const auto rate = other ? truth.rate(*other, subject.shape) : std::nullopt;
      if (rate && own > 0) {
        std::fprintf(out, " %+.0f %% |", 100 * (*rate / own - 1));
      } else {
        std::fprintf(out, " none |");
      }
    }
    std::fprintf(out, "\n");
  }
  std::fprintf(out, "\n");
}

}  // namespace tailrace::accuracy
