#include "tailrace/length/length_law.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "length/families.h"
#include "length/inverse_table.h"
#include "length/moment_table.h"
#include "length/monotone_root.h"
#include "length/quadrature.h"
#include "length/whole_tokens.h"
#include "tailrace/core/check.h"
#include "tailrace/length/binned.h"

namespace tailrace::length {
namespace {

constexpr double kLargestMu = 700;
constexpr double kLeastNu =
    0.1;  // the tail index; below it not even the quadrature's panels are sensible
constexpr double kGreatestNu =
    1e9;  // the log-normal law to the last digit; far beyond it the quadrature overflows
constexpr double kTableLevel = 0.9;

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

/// Keeps a quantile that a double cannot hold finite and above 0.
double bounded(double tokens) {
  return std::clamp(tokens, std::numeric_limits<double>::min(), std::numeric_limits<double>::max());
}

constexpr double kLeastShape = 1e-6;  // beyond either, one token's law or none, to every digit
constexpr double kGreatestShape = 1e12;
constexpr double kLeastScale = 1e-290;  // a scale over a cap, or a cap over it, stays a double
constexpr double kGreatestScale = 1e290;

Result<void> within(const char* name, double value, double least, double most,
                    const char* example) {
  if (value >= least && value <= most) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: {} is out of range; give a number from {} to {}, such as {}", name,
                          value, least, most, example));
}

Result<void> check_shape(double shape) {
  return within("shape", shape, kLeastShape, kGreatestShape, "1.5");
}

Result<void> check_scale(double scale) {
  return within("scale", scale, kLeastScale, kGreatestScale, "100");
}

Result<void> check_sigma(double sigma) {
  if (sigma > 0 && std::isfinite(sigma)) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("sigma: {} is out of range; give a finite scale of ln(tokens) greater "
                          "than 0, such as 0.75",
                          sigma));
}

Result<void> check_mu(double mu) {
  if (std::fabs(mu) <= kLargestMu) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("mu: {} is out of range; give the mean of ln(tokens), between -700 and 700 "
                  "(5 for a median of 148 tokens)",
                  mu));
}

/// E[min(X, hi); X > lo].
double tail_moment(const LengthLaw& law, double lo, double hi) {
  return law.visit(Overloaded{
      [&](const Binned& bins) { return bins.tail_moment(lo, hi); },
      [&](const Mixture& parts) {
        return parts.weight * tail_moment(parts.first, lo, hi) +
               (1 - parts.weight) * tail_moment(parts.second, lo, hi);
      },
      [&](const auto& plain) { return tail_moment_of(plain, lo, hi); },
  });
}

/// Between the two parts' own quantiles, from the side that keeps its digits.
double quantile_of(const Mixture& mixture, const LengthLaw& whole, double p) {
  if (mixture.weight == 0) return mixture.second.quantile(p);
  if (mixture.weight == 1) return mixture.first.quantile(p);
  const double a = std::log(mixture.first.quantile(p));
  const double b = std::log(mixture.second.quantile(p));
  const auto excess = [&](double u) {
    const double tokens = std::exp(u);
    const double slope = tokens * whole.density(tokens);
    if (p < 0.5) {
      const double below = whole.cdf(tokens);
      return ValueAndSlope{std::log(below / p), slope / below};
    }
    const double above = whole.survival(tokens);
    return ValueAndSlope{-std::log(above / (1 - p)), slope / above};
  };
  const auto [low, high] = std::minmax(a, b);
  return std::exp(monotone_root(excess, low, high, mixture.weight * a + (1 - mixture.weight) * b));
}

}  // namespace

Result<LengthLaw> LengthLaw::log_t(double mu, double sigma, double nu) {
  if (const auto ok = check_mu(mu); !ok) return fail(ok.error());
  if (const auto ok = check_sigma(sigma); !ok) return fail(ok.error());
  if (!(nu >= kLeastNu && nu <= kGreatestNu)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("nu: {} is out of range; give degrees of freedom from {} to {}, such "
                            "as 3.5",
                            nu, kLeastNu, kGreatestNu));
  }
  return LengthLaw(LogT{mu, sigma, nu});
}

Result<LengthLaw> LengthLaw::log_normal(double mu, double sigma) {
  if (const auto ok = check_mu(mu); !ok) return fail(ok.error());
  if (const auto ok = check_sigma(sigma); !ok) return fail(ok.error());
  return LengthLaw(LogNormal{mu, sigma});
}

Result<LengthLaw> LengthLaw::gamma(double shape, double scale) {
  if (const auto ok = check_shape(shape); !ok) return fail(ok.error());
  if (const auto ok = check_scale(scale); !ok) return fail(ok.error());
  return LengthLaw(Gamma{shape, scale});
}

Result<LengthLaw> LengthLaw::weibull(double shape, double scale) {
  if (const auto ok = check_shape(shape); !ok) return fail(ok.error());
  if (const auto ok = check_scale(scale); !ok) return fail(ok.error());
  return LengthLaw(Weibull{shape, scale});
}

Result<LengthLaw> LengthLaw::exponential(double scale) {
  if (const auto ok = check_scale(scale); !ok) return fail(ok.error());
  return LengthLaw(Exponential{scale});
}

Result<LengthLaw> LengthLaw::lomax(double shape, double scale) {
  if (const auto ok = check_shape(shape); !ok) return fail(ok.error());
  if (const auto ok = check_scale(scale); !ok) return fail(ok.error());
  return LengthLaw(Lomax{shape, scale});
}

Result<LengthLaw> LengthLaw::binned(std::span<const double> edges, std::span<const double> masses) {
  if (edges.empty() || edges.size() > kMaxBins || masses.size() != edges.size() + 1) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("bins: {} edges with {} masses; give 1 to {} edges and one mass more",
                            edges.size(), masses.size(), kMaxBins));
  }
  double before = 0;
  for (const double edge : edges) {
    if (!(edge > before && std::isfinite(edge))) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("edges: {} after {}; give finite edges that ascend from above 0",
                              edge, before));
    }
    before = edge;
  }
  double total = 0;
  for (const double mass : masses) {
    if (!(mass >= 0 && std::isfinite(mass))) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("masses: {} is out of range; give finite masses of at least 0", mass));
    }
    total += mass;
  }
  if (!(total > 0 && std::isfinite(total))) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("masses: they sum to {}; give some mass", total));
  }
  return LengthLaw(std::make_shared<const Binned>(edges, masses));
}

Result<LengthLaw> LengthLaw::mixture(double weight, const LengthLaw& first,
                                     const LengthLaw& second) {
  if (!(weight >= 0 && weight <= 1)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("weight: {} is out of range; give a probability", weight));
  }
  if (first.as_mixture() != nullptr || second.as_mixture() != nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                "mixture: a part is a mixture itself; give two plain laws");
  }
  return LengthLaw(std::make_shared<const Mixture>(Mixture{weight, first, second}));
}

Family LengthLaw::family() const {
  return static_cast<Family>(law_.index());
}

std::string_view family_name(Family family) {
  constexpr std::string_view kNames[] = {"log-t",       "log-normal", "gamma",  "weibull",
                                         "exponential", "lomax",      "binned", "mixture"};
  return kNames[static_cast<std::size_t>(family)];
}

std::vector<Parameter> LengthLaw::parameters() const {
  using List = std::vector<Parameter>;
  return visit(Overloaded{
      [](const LogT& l) { return List{{"mu", l.mu}, {"sigma", l.sigma}, {"nu", l.nu}}; },
      [](const LogNormal& l) { return List{{"mu", l.mu}, {"sigma", l.sigma}}; },
      [](const Gamma& l) { return List{{"shape", l.shape}, {"scale", l.scale}}; },
      [](const Weibull& l) { return List{{"shape", l.shape}, {"scale", l.scale}}; },
      [](const Exponential& l) { return List{{"scale", l.scale}}; },
      [](const Lomax& l) { return List{{"shape", l.shape}, {"scale", l.scale}}; },
      [](const Binned&) { return List{}; },
      [](const Mixture& l) { return List{{"weight", l.weight}}; },
  });
}

std::string LengthLaw::describe() const {
  if (const Binned* bins = as_binned()) return fmt::format("binned, {} bins", bins->edges().size());
  if (const Mixture* parts = as_mixture()) {
    return fmt::format("mixture of {:.3g} × ({}) and ({})", parts->weight, parts->first.describe(),
                       parts->second.describe());
  }
  std::string text(family_name(family()));
  const char* separator = " ";
  for (const Parameter& parameter : parameters()) {
    text += fmt::format("{}{} {:.4g}", separator, parameter.name, parameter.value);
    separator = ", ";
  }
  return text;
}

const Binned* LengthLaw::as_binned() const {
  const auto* found = std::get_if<std::shared_ptr<const Binned>>(&law_);
  return found ? found->get() : nullptr;
}

const Mixture* LengthLaw::as_mixture() const {
  const auto* found = std::get_if<std::shared_ptr<const Mixture>>(&law_);
  return found ? found->get() : nullptr;
}

bool operator==(const LengthLaw& a, const LengthLaw& b) {
  if (a.law_.index() != b.law_.index()) return false;
  if (const Binned* bins = a.as_binned()) return *bins == *b.as_binned();
  if (const Mixture* parts = a.as_mixture()) return *parts == *b.as_mixture();
  return a.law_ == b.law_;
}

double LengthLaw::survival(double tokens) const {
  if (!(tokens > 0)) return 1;
  return visit(Overloaded{
      [&](const Binned& bins) { return bins.survival(tokens); },
      [&](const Mixture& parts) {
        return parts.weight * parts.first.survival(tokens) +
               (1 - parts.weight) * parts.second.survival(tokens);
      },
      [&](const auto& plain) { return survival_of(plain, tokens); },
  });
}

double LengthLaw::cdf(double tokens) const {
  if (!(tokens > 0)) return 0;
  return visit(Overloaded{
      [&](const Binned& bins) { return bins.cdf(tokens); },
      [&](const Mixture& parts) {
        return parts.weight * parts.first.cdf(tokens) +
               (1 - parts.weight) * parts.second.cdf(tokens);
      },
      [&](const auto& plain) { return cdf_of(plain, tokens); },
  });
}

double LengthLaw::density(double tokens) const {
  if (!(tokens > 0)) return 0;
  return visit(Overloaded{
      [&](const Binned& bins) { return bins.density(tokens); },
      [&](const Mixture& parts) {
        return parts.weight * parts.first.density(tokens) +
               (1 - parts.weight) * parts.second.density(tokens);
      },
      [&]<class Law>(const Law& plain) { return Density<Law>(plain)(tokens); },
  });
}

double LengthLaw::quantile(double p) const {
  TAILRACE_CHECK(p > 0 && p < 1);
  return bounded(visit(Overloaded{
      [&](const Binned& bins) { return bins.quantile(p); },
      [&](const Mixture& parts) { return quantile_of(parts, *this, p); },
      [&](const auto& plain) { return quantile_of(plain, p); },
  }));
}

double LengthLaw::capped_mean(double cap) const {
  TAILRACE_CHECK(cap > 0);
  return std::min(cap, tail_moment(*this, 0, cap));
}

double LengthLaw::capped_var(double level, double cap) const {
  TAILRACE_CHECK(cap > 0);
  return std::min(quantile(level), cap);
}

double LengthLaw::capped_cvar(double level, double cap) const {
  TAILRACE_CHECK(cap > 0 && level > 0 && level < 1);
  if (const LogT* law = as_log_t()) return length::capped_cvar(*law, level, cap);
  const double var = capped_var(level, cap);
  if (!(var < cap)) return cap;
  // Where the survival jumps at the value at risk, only so much of the jump belongs to the worst
  // 1 − level.
  const double worst = 1 - level;
  const double cvar = tail_moment(*this, var, cap) / worst + var * (1 - survival(var) / worst);
  return std::clamp(cvar, var, cap);
}

CappedMoments LengthLaw::capped_moments_fast(double cap) const {
  TAILRACE_CHECK(cap > 0);
  if (const LogT* law = as_log_t()) {
    if (const auto found = moment_table().find(*law, cap)) return *found;
  } else if (const Binned* bins = as_binned()) {
    const double mean = bins->capped_mean(cap);
    const double var = bins->quantile(kTableLevel);
    if (!(var < cap)) return {mean, cap};
    return {mean, std::clamp(var + (mean - bins->capped_mean(var)) / (1 - kTableLevel), var, cap)};
  }
  return {capped_mean(cap), capped_cvar(kTableLevel, cap)};
}

void LengthLaw::warm_up() {
  (void)moment_table();
  (void)inverse_table();
}

double LengthLaw::mean_residual(Tokens age, Tokens cap) const {
  TAILRACE_CHECK(age.count() >= 0 && age < cap);
  return length::mean_residual(*this, age.count(), cap.count());
}

double LengthLaw::mean_inverse(Tokens cap) const {
  TAILRACE_CHECK(cap.count() >= 1);
  return length::mean_inverse(*this, cap.count());
}

Tokens LengthLaw::residual_quantile(double p, Tokens age, Tokens cap) const {
  TAILRACE_CHECK(p > 0 && p < 1 && age.count() >= 0 && age < cap);
  return Tokens(length::residual_quantile(*this, p, age.count(), cap.count()));
}

double LengthLaw::gittins_rank(Tokens age, Tokens cap, Tokens quantum) const {
  TAILRACE_CHECK(age.count() >= 0 && age < cap && quantum.count() >= 1);
  return length::gittins_rank(*this, age.count(), cap.count(), quantum.count());
}

double LengthLaw::ratio_index(Tokens cap) const {
  return capped_mean(static_cast<double>(cap.count())) / mean_inverse(cap);
}

double LengthLaw::mean_inverse_fast(Tokens cap) const {
  TAILRACE_CHECK(cap.count() >= 1);
  if (const LogT* law = as_log_t()) {
    if (const auto found = inverse_table().find(*law, static_cast<double>(cap.count())))
      return *found;
  }
  return mean_inverse(cap);
}

double LengthLaw::ratio_index_fast(Tokens cap) const {
  const auto limit = static_cast<double>(cap.count());
  if (const LogT* law = as_log_t()) {
    if (const auto found = moment_table().find(*law, limit))
      return found->mean / mean_inverse_fast(cap);
  }
  return capped_mean(limit) / mean_inverse_fast(cap);
}

}  // namespace tailrace::length
