// How long will an answer be, as a distribution?
//
// A LengthLaw is the law of one request's output length. It answers the questions that scheduling,
// simulation and capacity ask, and they never know which family they hold. Two conventions, tied by
// a test: `survival`, `quantile`, `capped_mean`, `capped_cvar` and scores take X' = min(X, cap) as
// continuous, with an atom at the cap and no floor; `mean_residual`, `residual_quantile`,
// `gittins_rank` and `mean_inverse` use whole tokens Xd = min(cap, max(1, ceil X)). The set of
// families is closed: those of `Family`. Values, immutable, cheap to copy (the larger ones share
// their tables), any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/core/strong.h"

namespace tailrace::length {

/// ln X = mu + sigma·T with T Student-t of nu degrees of freedom (TIE, Eq. 1; nu = 3.5 there).
struct LogT {
  double mu = 0;
  double sigma = 1;
  double nu = 3.5;

  friend bool operator==(const LogT&, const LogT&) = default;
};

/// ln X normal with mean mu and standard deviation sigma.
struct LogNormal {
  double mu = 0;
  double sigma = 1;

  friend bool operator==(const LogNormal&, const LogNormal&) = default;
};

struct Gamma {
  double shape = 1;
  double scale = 1;  ///< tokens

  friend bool operator==(const Gamma&, const Gamma&) = default;
};

/// P(X > x) = exp(−(x/scale)^shape).
struct Weibull {
  double shape = 1;
  double scale = 1;  ///< tokens

  friend bool operator==(const Weibull&, const Weibull&) = default;
};

struct Exponential {
  double scale = 1;  ///< the mean, tokens

  friend bool operator==(const Exponential&, const Exponential&) = default;
};

/// Pareto of the second kind: P(X > x) = (1 + x/scale)^−shape.
struct Lomax {
  double shape = 1;
  double scale = 1;  ///< tokens

  friend bool operator==(const Lomax&, const Lomax&) = default;
};

class Binned;    // length/binned.h: a hazard per bin, prefix sums
struct Mixture;  // two laws and the weight of the first

enum class Family { kLogT, kLogNormal, kGamma, kWeibull, kExponential, kLomax, kBinned, kMixture };

/// "log-t", "log-normal", "gamma", "weibull", "exponential", "lomax", "binned", "mixture".
std::string_view family_name(Family family);

/// A law's answers at one cap, the ones TIE's score needs, computed together.
struct CappedMoments {
  double mean = 0;  ///< E[min(X, cap)]
  double cvar = 0;  ///< E[min(X, cap) | the worst 1 − level]
};

/// A law's parameter under the name that documents and messages use.
struct Parameter {
  std::string_view name;
  double value = 0;
};

class LengthLaw {
 public:
  /// Errors: kInvalidArgument naming the parameter when it is not finite or out of range
  /// (sigma > 0, nu ≥ 0.1; mu within ±700 so that exp stays finite; shapes from 1e-6 to 1e12;
  /// scales from 1e-290 to 1e290).
  static Result<LengthLaw> log_t(double mu, double sigma, double nu = 3.5);
  static Result<LengthLaw> log_normal(double mu, double sigma);
  static Result<LengthLaw> gamma(double shape, double scale);
  static Result<LengthLaw> weibull(double shape, double scale);
  static Result<LengthLaw> exponential(double scale);
  static Result<LengthLaw> lomax(double shape, double scale);
  /// Bin i is (edges[i−1], edges[i]] tokens, with edges[−1] = 0, and holds masses[i], spread
  /// evenly. One mass more than edges: what lies beyond the last edge, where the survival falls as
  /// (edge/x)². Masses need not sum to one; they are brought to it. At most kMaxBins bins.
  /// Errors: kInvalidArgument for edges that do not ascend from above 0, negative or no mass.
  static Result<LengthLaw> binned(std::span<const double> edges, std::span<const double> masses);
  /// The first law with probability `weight`, else the second. Neither may be a mixture itself.
  static Result<LengthLaw> mixture(double weight, const LengthLaw& first, const LengthLaw& second);

  static constexpr std::size_t kMaxBins = 4096;

  Family family() const;
  /// In the order of the family's struct; for a mixture `weight` alone, for bins none.
  std::vector<Parameter> parameters() const;
  /// "log-t mu 5.1, sigma 0.72, nu 3.5": for people and explanations.
  std::string describe() const;

  double survival(double tokens) const;  ///< P(X > tokens); 1 for tokens ≤ 0
  double cdf(double tokens) const;       ///< P(X ≤ tokens), with its own digits where it is small
  /// Of the uncapped law, 0 < p < 1; the greatest double (the least normal one) where it lies
  /// beyond.
  double quantile(double p) const;
  double density(double tokens) const;
  double median() const { return quantile(0.5); }

  /// Exact path for any cap > 0: closed forms or deterministic quadrature (relative error ≤ 1e-11
  /// against 30-digit references).
  double capped_mean(double cap) const;
  double capped_var(double level, double cap) const;  ///< value at risk: min(quantile(level), cap)
  double capped_cvar(double level, double cap) const;
  /// Fast path for level 0.9: for log-t from a precomputed table (relative error ≤ 1e-5, ~0.1 µs;
  /// the exact path outside of the table or for another nu), for bins from prefix sums, else exact.
  CappedMoments capped_moments_fast(double cap) const;
  /// Builds the tables of the fast paths (once per process, thread-safe), so that no request waits
  /// for them.
  static void warm_up();

  /// Whole-token questions, exact path (2 to 200 µs whatever the cap; up to a millisecond for a
  /// narrow gamma far out). `age` tokens are already generated (0 ≤ age < cap). Where P(X > age)
  /// underflows the tail's own decay answers, roughly. For many ages of one law, see ResidualTable.
  double mean_residual(Tokens age, Tokens cap) const;  ///< E[Xd − age | Xd > age]
  double mean_inverse(Tokens cap) const;               ///< E[1/Xd]
  /// The least r with P(Xd − age ≤ r | Xd > age) ≥ p, 0 < p < 1.
  Tokens residual_quantile(double p, Tokens age, Tokens cap) const;
  /// Gittins rank (smaller goes first): the least, over q ≥ quantum, of expected service within the
  /// next q tokens divided by the probability of finishing in them.
  double gittins_rank(Tokens age, Tokens cap, Tokens quantum) const;
  /// E[min(X, cap)] / E[1/Xd]: the index that minimises mean latency per token.
  double ratio_index(Tokens cap) const;
  /// Within 1e-3 of the exact path in at most 0.2 µs: for log-t with nu = 3.5, mu from −2 to 12 and
  /// sigma from 0.03 to 3 from tables (for the ratio's mean up to caps of 160,000 medians, beyond
  /// that by quadrature), for bins from prefix sums; else the exact path.
  double mean_inverse_fast(Tokens cap) const;
  double ratio_index_fast(Tokens cap) const;

  /// The parameters, or nothing for another family.
  const LogT* as_log_t() const { return std::get_if<LogT>(&law_); }
  const Binned* as_binned() const;
  const Mixture* as_mixture() const;

  /// What `f` says of the family's struct: a LogT, a Gamma, …, a Binned or a Mixture. For those who
  /// write a law down or draw from it; who only asks it needs no family.
  template <class F>
  decltype(auto) visit(F&& f) const {
    return std::visit(
        [&f](const auto& law) -> decltype(auto) {
          if constexpr (requires { *law; }) {
            return f(*law);  // shared
          } else {
            return f(law);
          }
        },
        law_);
  }

  friend bool operator==(const LengthLaw& a, const LengthLaw& b);

 private:
  using Any = std::variant<LogT, LogNormal, Gamma, Weibull, Exponential, Lomax,
                           std::shared_ptr<const Binned>, std::shared_ptr<const Mixture>>;
  explicit LengthLaw(Any law) : law_(std::move(law)) {}
  Any law_;
};

struct Mixture {
  double weight = 0.5;  ///< of `first`
  LengthLaw first;
  LengthLaw second;

  friend bool operator==(const Mixture&, const Mixture&) = default;
};

}  // namespace tailrace::length
