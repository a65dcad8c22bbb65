#include "tailrace/length/length_law.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "length/families.h"
#include "length/inverse_table.h"
#include "length/moment_table.h"
#include "length/quadrature.h"
#include "length/student_t.h"
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

using SharedBins = std::shared_ptr<const Binned>;
using SharedMixture = std::shared_ptr<const Mixture>;

Result<void> positive(const char* name, double value, const char* example) {
  if (value > 0 && std::isfinite(value)) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: {} is out of range; give a finite number greater than 0, such as {}",
                          name, value, example));
}

Result<void> check_mu(double mu) {
  if (std::fabs(mu) <= kLargestMu) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("mu: {} is out of range; give the mean of ln(tokens), between -700 and 700 "
                  "(5 for a median of 148 tokens)",
                  mu));
}

/// Where a mixture's or any law's survival falls to `alive`, between two points that enclose it.
double bisect_survival(const LengthLaw& law, double alive, double low, double high) {
  for (int i = 0; i < 200 && high - low > 1e-13 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (law.survival(middle) > alive ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace

Result<LengthLaw> LengthLaw::log_t(double mu, double sigma, double nu) {
  if (const auto ok = check_mu(mu); !ok) return fail(ok.error());
  if (!(sigma > 0 && std::isfinite(sigma))) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("sigma: {} is out of range; give a finite scale of ln(tokens) greater than 0, "
                    "such as 0.75",
                    sigma));
  }
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
  if (const auto ok = positive("sigma", sigma, "0.75"); !ok) return fail(ok.error());
  return LengthLaw(LogNormal{mu, sigma});
}

Result<LengthLaw> LengthLaw::gamma(double shape, double scale) {
  if (const auto ok = positive("shape", shape, "2"); !ok) return fail(ok.error());
  if (const auto ok = positive("scale", scale, "100"); !ok) return fail(ok.error());
  return LengthLaw(Gamma{shape, scale});
}

Result<LengthLaw> LengthLaw::weibull(double shape, double scale) {
  if (const auto ok = positive("shape", shape, "1.5"); !ok) return fail(ok.error());
  if (const auto ok = positive("scale", scale, "100"); !ok) return fail(ok.error());
  return LengthLaw(Weibull{shape, scale});
}

Result<LengthLaw> LengthLaw::exponential(double scale) {
  if (const auto ok = positive("scale", scale, "100"); !ok) return fail(ok.error());
  return LengthLaw(Exponential{scale});
}

Result<LengthLaw> LengthLaw::lomax(double shape, double scale) {
  if (const auto ok = positive("shape", shape, "2"); !ok) return fail(ok.error());
  if (const auto ok = positive("scale", scale, "100"); !ok) return fail(ok.error());
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
  return std::visit(
      Overloaded{
          [](const LogT& l) { return List{{"mu", l.mu}, {"sigma", l.sigma}, {"nu", l.nu}}; },
          [](const LogNormal& l) { return List{{"mu", l.mu}, {"sigma", l.sigma}}; },
          [](const Gamma& l) { return List{{"shape", l.shape}, {"scale", l.scale}}; },
          [](const Weibull& l) { return List{{"shape", l.shape}, {"scale", l.scale}}; },
          [](const Exponential& l) { return List{{"scale", l.scale}}; },
          [](const Lomax& l) { return List{{"shape", l.shape}, {"scale", l.scale}}; },
          [](const SharedBins&) { return List{}; },
          [](const SharedMixture& l) { return List{{"weight", l->weight}}; },
      },
      law_);
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
  const auto* found = std::get_if<SharedBins>(&law_);
  return found ? found->get() : nullptr;
}

const Mixture* LengthLaw::as_mixture() const {
  const auto* found = std::get_if<SharedMixture>(&law_);
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
  return std::visit(Overloaded{
                        [&](const SharedBins& l) { return l->survival(tokens); },
                        [&](const SharedMixture& l) {
                          return l->weight * l->first.survival(tokens) +
                                 (1 - l->weight) * l->second.survival(tokens);
                        },
                        [&](const auto& l) { return survival_of(l, tokens); },
                    },
                    law_);
}

double LengthLaw::density(double tokens) const {
  if (!(tokens > 0)) return 0;
  return std::visit(Overloaded{
                        [&](const SharedBins& l) { return l->density(tokens); },
                        [&](const SharedMixture& l) {
                          return l->weight * l->first.density(tokens) +
                                 (1 - l->weight) * l->second.density(tokens);
                        },
                        [&](const auto& l) { return density_of(l, tokens); },
                    },
                    law_);
}

double LengthLaw::quantile(double p) const {
  TAILRACE_CHECK(p > 0 && p < 1);
  return std::visit(Overloaded{
                        [&](const SharedBins& l) { return l->quantile(p); },
                        [&](const SharedMixture& l) {
                          const double a = l->first.quantile(p);
                          const double b = l->second.quantile(p);
                          return bisect_survival(*this, 1 - p, std::min(a, b), std::max(a, b));
                        },
                        [&](const auto& l) { return quantile_of(l, p); },
                    },
                    law_);
}

double LengthLaw::capped_mean(double cap) const {
  TAILRACE_CHECK(cap > 0);
  return std::visit(Overloaded{
                        [&](const SharedBins& l) { return l->capped_mean(cap); },
                        [&](const SharedMixture& l) {
                          return l->weight * l->first.capped_mean(cap) +
                                 (1 - l->weight) * l->second.capped_mean(cap);
                        },
                        [&](const auto& l) { return capped_mean_of(l, cap); },
                    },
                    law_);
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
  // CVaR = VaR + the integral of the survival from there to the cap, over 1 − level.
  return std::min(cap, var + (capped_mean(cap) - capped_mean(var)) / (1 - level));
}

CappedMoments LengthLaw::capped_moments_fast(double cap) const {
  TAILRACE_CHECK(cap > 0);
  if (const LogT* law = as_log_t()) {
    if (const auto found = moment_table().find(*law, cap)) return *found;
  }
  return {capped_mean(cap), capped_cvar(kTableLevel, cap)};
}

void LengthLaw::warm_up() {
  (void)moment_table();
  (void)inverse_table();
}

double LengthLaw::mean_residual(Tokens age, Tokens cap) const {
  TAILRACE_CHECK(age.count() >= 0 && age < cap);
  if (const LogT* law = as_log_t()) return length::mean_residual(*law, age.count(), cap.count());
  return length::mean_residual(*this, age.count(), cap.count());
}

double LengthLaw::mean_inverse(Tokens cap) const {
  TAILRACE_CHECK(cap.count() >= 1);
  if (const LogT* law = as_log_t()) return length::mean_inverse(*law, cap.count());
  return length::mean_inverse(*this, cap.count());
}

Tokens LengthLaw::residual_quantile(double p, Tokens age, Tokens cap) const {
  TAILRACE_CHECK(p > 0 && p < 1 && age.count() >= 0 && age < cap);
  const double alive = age.count() == 0 ? 1 : survival(static_cast<double>(age.count()));
  std::int64_t low = age.count();  // P(Xd > low) is above the target
  std::int64_t high = cap.count();
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (survival(static_cast<double>(middle)) > (1 - p) * alive ? low : high) = middle;
  }
  return Tokens(high) - age;
}

double LengthLaw::gittins_rank(Tokens age, Tokens cap, Tokens quantum) const {
  TAILRACE_CHECK(age.count() >= 0 && age < cap && quantum.count() >= 1);
  if (const LogT* law = as_log_t()) {
    return length::gittins_rank(*law, age.count(), cap.count(), quantum.count());
  }
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
