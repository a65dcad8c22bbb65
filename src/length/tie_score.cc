#include "tailrace/length/tie_score.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tailrace/core/check.h"
#include "tailrace/core/text.h"
#include "tailrace/length/sample.h"

namespace tailrace::length {
namespace {

constexpr double kReleasedMeanCap = 2028;
constexpr double kReleasedCvarCap = 2048;
constexpr double kTableLevel = 0.9;
constexpr double kLargestBeta = 1e9;  // keeps every score finite

/// The quantile of a sample, linear between the order statistics around it. Reorders the sample.
double empirical_quantile(std::vector<double>& sample, double level) {
  const double position = level * static_cast<double>(sample.size() - 1);
  const auto below = static_cast<std::ptrdiff_t>(position);
  const auto nth = sample.begin() + below;
  std::nth_element(sample.begin(), nth, sample.end());
  const double fraction = position - static_cast<double>(below);
  if (fraction == 0 || nth + 1 == sample.end()) return *nth;
  return *nth + fraction * (*std::min_element(nth + 1, sample.end()) - *nth);
}

double mean_above(const std::vector<double>& sample, double threshold) {
  double sum = 0;
  std::size_t count = 0;
  for (const double x : sample) {
    if (x > threshold) {
      sum += x;
      ++count;
    }
  }
  return count > 0 ? sum / static_cast<double>(count) : threshold;
}

CappedMoments moments(const LengthLaw& law, const ScoreRequest& request, Rng& rng) {
  const auto cap = static_cast<double>(request.cap.count());
  switch (request.method) {
    case ScoreMethod::kMonteCarlo:
      return monte_carlo_moments(law, cap, request.level, rng, request.monte_carlo);
    case ScoreMethod::kTable:
      if (request.level == kTableLevel) return law.capped_moments_fast(cap);
      break;
    case ScoreMethod::kQuadrature:
      break;
  }
  return {law.capped_mean(cap), law.capped_cvar(request.level, cap)};
}

Result<void> validate(const ScoreRequest& request) {
  const std::int64_t cap = request.cap.count();
  if (cap < 1 || request.cap > kLargestCap) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("max-tokens: {} is out of range; give a whole number of tokens from 1 to {}",
                    cap, kLargestCap.count()));
  }
  if (!(request.beta >= 0 && request.beta <= kLargestBeta)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("beta: {} is out of range; give a weight from 0 to {:.0e}, such as 0.1",
                            request.beta, kLargestBeta));
  }
  if (!(request.level > 0 && request.level < 1)) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("level: {} is out of range; give a probability between 0 and 1, both left "
                    "out, such as 0.9",
                    request.level));
  }
  return {};
}

}  // namespace

double tie_score(const LengthLaw& law, double cap, double beta, double level) {
  return law.capped_mean(cap) + beta * law.capped_cvar(level, cap);
}

CappedMoments monte_carlo_moments(const LengthLaw& law, double cap, double level, Rng& rng,
                                  const MonteCarloOptions& options) {
  TAILRACE_CHECK(options.draws >= 1 && level > 0 && level < 1);
  const double mean_cap = options.released_code ? kReleasedMeanCap : cap;
  const double cvar_cap = options.released_code ? kReleasedCvarCap : cap;
  double sum = 0;
  for (int i = 0; i < options.draws; ++i) sum += std::min(sample(law, rng), mean_cap);
  std::vector<double> lengths(static_cast<std::size_t>(options.draws));
  for (double& x : lengths) x = std::min(sample(law, rng), cvar_cap);
  const double threshold = empirical_quantile(lengths, level);
  return {sum / options.draws, mean_above(lengths, threshold)};
}

double monte_carlo_score(const CappedMoments& moments, double beta,
                         const MonteCarloOptions& options) {
  const double score = moments.mean + beta * moments.cvar;
  return options.released_code ? std::max(1.0, std::round(score)) : score;
}

Result<ScoreMethod> parse_score_method(std::string_view name) {
  if (name == "quadrature") return ScoreMethod::kQuadrature;
  if (name == "table") return ScoreMethod::kTable;
  if (name == "monte-carlo") return ScoreMethod::kMonteCarlo;
  return fail(
      ErrorCode::kInvalidArgument,
      "method: " + core::quoted(name) + " is unknown; give quadrature, table or monte-carlo");
}

Result<ScoreReport> score_report(const ScoreRequest& request) {
  if (auto valid = validate(request); !valid) return fail(valid.error());
  const auto law = LengthLaw::log_t(request.law.mu, request.law.sigma, request.law.nu);
  if (!law) return fail(law.error());
  const auto cap = static_cast<double>(request.cap.count());
  Rng rng(request.seed);
  const CappedMoments terms = moments(*law, request, rng);
  ScoreReport report;
  report.mean = terms.mean;
  report.var = law->capped_var(request.level, cap);
  report.cvar = terms.cvar;
  report.beta = request.beta;
  report.score = request.method == ScoreMethod::kMonteCarlo
                     ? monte_carlo_score(terms, request.beta, request.monte_carlo)
                     : terms.mean + request.beta * terms.cvar;
  report.p_cap = law->survival(cap);
  report.median = std::min(law->median(), cap);
  report.ratio = terms.mean / law->mean_inverse(request.cap);
  report.gittins = law->gittins_rank(Tokens{0}, request.cap, kScoreQuantum);
  return report;
}

}  // namespace tailrace::length
