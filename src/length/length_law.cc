#include "tailrace/length/length_law.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "length/moment_table.h"
#include "length/quadrature.h"
#include "length/student_t.h"
#include "length/whole_tokens.h"
#include "tailrace/core/check.h"

namespace tailrace::length {
namespace {

constexpr double kLargestMu = 700;
constexpr double kLeastNu =
    0.1;  // the tail index; below it not even the quadrature's panels are sensible
constexpr double kGreatestNu =
    1e9;  // the log-normal law to the last digit; far beyond it the quadrature overflows
constexpr double kTableLevel = 0.9;

}  // namespace

Result<LengthLaw> LengthLaw::log_t(double mu, double sigma, double nu) {
  if (!(std::fabs(mu) <= kLargestMu)) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("mu: {} is out of range; give the mean of ln(tokens), between -700 and 700 "
                    "(5 for a median of 148 tokens)",
                    mu));
  }
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

double LengthLaw::survival(double tokens) const {
  if (!(tokens > 0)) return 1;
  return t_survival(standardise(log_t_, tokens), log_t_.nu);
}

double LengthLaw::quantile(double p) const {
  TAILRACE_CHECK(p > 0 && p < 1);
  return std::exp(log_t_.mu + log_t_.sigma * t_quantile(p, log_t_.nu));
}

double LengthLaw::density(double tokens) const {
  if (!(tokens > 0)) return 0;
  return t_density(standardise(log_t_, tokens), log_t_.nu) / log_t_.sigma / tokens;
}

double LengthLaw::capped_mean(double cap) const {
  TAILRACE_CHECK(cap > 0);
  return length::capped_mean(log_t_, cap);
}

double LengthLaw::capped_var(double level, double cap) const {
  TAILRACE_CHECK(cap > 0);
  return std::min(quantile(level), cap);
}

double LengthLaw::capped_cvar(double level, double cap) const {
  TAILRACE_CHECK(cap > 0 && level > 0 && level < 1);
  return length::capped_cvar(log_t_, level, cap);
}

CappedMoments LengthLaw::capped_moments_fast(double cap) const {
  TAILRACE_CHECK(cap > 0);
  if (const auto found = moment_table().find(log_t_, cap)) return *found;
  return {length::capped_mean(log_t_, cap), length::capped_cvar(log_t_, kTableLevel, cap)};
}

void LengthLaw::warm_up() {
  (void)moment_table();
}

double LengthLaw::mean_residual(Tokens age, Tokens cap) const {
  TAILRACE_CHECK(age.count() >= 0 && age < cap);
  return length::mean_residual(log_t_, age.count(), cap.count());
}

double LengthLaw::mean_inverse(Tokens cap) const {
  TAILRACE_CHECK(cap.count() >= 1);
  return length::mean_inverse(log_t_, cap.count());
}

double LengthLaw::gittins_rank(Tokens age, Tokens cap, Tokens quantum) const {
  TAILRACE_CHECK(age.count() >= 0 && age < cap && quantum.count() >= 1);
  return length::gittins_rank(log_t_, age.count(), cap.count(), quantum.count());
}

}  // namespace tailrace::length
