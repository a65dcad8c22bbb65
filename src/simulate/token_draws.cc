#include "simulate/token_draws.h"

#include <algorithm>
#include <cmath>

#include "simulate/field_check.h"
#include "tailrace/length/sample.h"

namespace tailrace::simulate {
namespace {

using length::LengthLaw;

constexpr std::int64_t kTokensMax = std::int64_t{1} << 40;
// What LengthLaw takes, whatever the normals drew.
constexpr double kMuMax = 700;
constexpr double kSigmaMin = 1e-6, kSigmaMax = 100;
constexpr double kFixedSigma = 1e-3;  ///< of the law that says "this long"

LengthLaw drawn_log_t(const LengthSpec& spec, Rng& rng) {
  const double z1 = rng.normal();
  const double z2 = rng.normal();
  const double along =
      spec.correlation * z1 + std::sqrt(1 - spec.correlation * spec.correlation) * z2;
  const double mu = std::clamp(spec.mu_mean + spec.mu_sd * z1, -kMuMax, kMuMax);
  const double sigma =
      std::clamp(spec.sigma_median * std::exp(spec.sigma_spread * along), kSigmaMin, kSigmaMax);
  return *LengthLaw::log_t(mu, sigma, spec.nu);
}

}  // namespace

Result<void> check(const LengthSpec& spec, const std::string& section) {
  using Kind = LengthSpec::Kind;
  const FieldCheck in(section);
  if (spec.kind == Kind::kLogT) {
    if (!in_range(spec.mu_mean, -kMuMax, kMuMax)) {
      return in.bad("mu_mean", spec.mu_mean, "a mean of ln tokens, -700 to 700");
    }
    if (!in_range(spec.mu_sd, 0, 100)) return in.bad("mu_sd", spec.mu_sd, "0 to 100");
    if (!in_range(spec.sigma_median, kSigmaMin, kSigmaMax)) {
      return in.bad("sigma_median", spec.sigma_median, "a scale of ln tokens, 1e-6 to 100");
    }
    if (!in_range(spec.sigma_spread, 0, 10)) {
      return in.bad("sigma_spread", spec.sigma_spread, "0 to 10");
    }
    if (!in_range(spec.correlation, -1, 1)) {
      return in.bad("correlation", spec.correlation, "-1 to 1");
    }
    if (const auto law = LengthLaw::log_t(spec.mu_mean, spec.sigma_median, spec.nu); !law) {
      return fail(law.error().with_context(section));
    }
  } else if (spec.kind == Kind::kFixed) {
    if (!in_range(spec.mean, 1, static_cast<double>(kTokensMax))) {
      return in.bad("mean", spec.mean, "tokens, 1 to 2^40");
    }
  } else if (!in_range(spec.mean, 1.001, static_cast<double>(kTokensMax))) {
    return in.bad("mean", spec.mean, "tokens, 1.001 to 2^40");
  }
  if (spec.least < 1 || spec.least > spec.cap) {
    return in.bad("least", spec.least, "tokens, at least 1 and at most the cap");
  }
  if (spec.cap > kTokensMax) return in.bad("cap", spec.cap, "tokens, at most 2^40");
  return {};
}

Result<void> check(const PromptSpec& spec, const std::string& section) {
  const FieldCheck in(section);
  if (!in_range(spec.mean, 1, static_cast<double>(kTokensMax))) {
    return in.bad("mean", spec.mean, "tokens, 1 to 2^40");
  }
  if (spec.kind == PromptSpec::Kind::kLogNormal && !in_range(spec.cv, 0.01, 100)) {
    return in.bad("cv", spec.cv, "a coefficient of variation, 0.01 to 100");
  }
  if (spec.least < 1 || spec.least > spec.most) {
    return in.bad("least", spec.least, "tokens, at least 1 and at most `most`");
  }
  if (spec.most > kTokensMax) return in.bad("most", spec.most, "tokens, at most 2^40");
  return {};
}

void draw_length(const LengthSpec& spec, Rng& rng, Request& out) {
  using Kind = LengthSpec::Kind;
  double tokens = 0;
  if (spec.kind == Kind::kFixed) {
    tokens = std::round(spec.mean);
    out.truth = *LengthLaw::log_normal(std::log(tokens), kFixedSigma);
  } else {
    // ceil of an exponential of this scale is geometric: P(X > k) = (1 - 1/mean)^k.
    out.truth = spec.kind == Kind::kLogT ? drawn_log_t(spec, rng)
                                         : *LengthLaw::exponential(-1 / std::log1p(-1 / spec.mean));
    tokens = std::ceil(length::sample(*out.truth, rng));
  }
  out.cap = Tokens(spec.cap);
  out.output = Tokens(static_cast<std::int64_t>(
      std::clamp(tokens, static_cast<double>(spec.least), static_cast<double>(spec.cap))));
}

void set_recorded_length(std::int64_t length, std::int64_t cap, std::int64_t context,
                         Request& out) {
  out.cap_is_own = cap > 0;
  // What is longer than the model's context no engine takes; only its cap may follow its length.
  out.cap = Tokens(cap > 0 ? cap : std::max(context, length));
  out.output = std::min(Tokens(length), out.cap);
}

Tokens draw_prompt(const PromptSpec& spec, Rng& rng) {
  double tokens = spec.mean;
  if (spec.kind == PromptSpec::Kind::kLogNormal) {
    const double variance = std::log1p(spec.cv * spec.cv);  // of ln tokens
    tokens = spec.mean * std::exp(std::sqrt(variance) * rng.normal() - variance / 2);
  }
  return Tokens(static_cast<std::int64_t>(std::clamp(
      std::round(tokens), static_cast<double>(spec.least), static_cast<double>(spec.most))));
}

}  // namespace tailrace::simulate
