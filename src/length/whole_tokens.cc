#include "length/whole_tokens.h"

#include <algorithm>
#include <boost/math/quadrature/gauss.hpp>
#include <cmath>
#include <limits>

#include "length/quadrature.h"
#include "length/student_t.h"

namespace tailrace::length {
namespace {

// Below this many tokens of smoothness a sum is taken term by term; above it the neglected term of
// Euler-Maclaurin, a fifth derivative over 30240, is under 1e-11 of the sum.
constexpr double kSmoothTokens = 80;
// A block in units of the smoothness scale: 20 nodes resolve it to rounding.
constexpr double kBlockScales = 0.75;

double survival(const LogT& law, double tokens) {
  return t_survival(standardise(law, tokens), law.nu);
}

double density(const LogT& law, double tokens) {
  return t_density(standardise(law, tokens), law.nu) / (law.sigma * tokens);
}

/// −d ln t_nu/dz: how steeply the t density falls at z.
double fall_rate(const LogT& law, double z) {
  return (law.nu + 1) * z / (law.nu + z * z);
}

// At this many sigmas a law so thin that it falls within a few tokens has nothing left to fall.
constexpr double kFlatBeyond = 10;
// A remainder this small beside the sum so far is lost in rounding.
constexpr double kNegligibleRest = 1e-18;

/// The number of tokens over which f changes shape at x: the law's poles on the log scale are
/// sigma·sqrt(nu) away from mu, x itself is the scale of 1/x, and a thin tail falls faster than
/// either.
template <class F>
double smooth_tokens(const F& f, double x) {
  const LogT& law = f.law;
  const double y = std::log(x) - law.mu;
  const double z = standardise(law, x);
  const double to_pole = std::hypot(law.sigma * std::min(1.0, std::sqrt(law.nu)), y);
  if (z < -kFlatBeyond || (z > kFlatBeyond && F::kFlatAbove)) return x * std::min(1.0, to_pole);
  const double e_fold = 2 * law.sigma / std::fabs(fall_rate(law, z));
  return x * std::min({1.0, to_pole, e_fold});
}

/// The density with its first two derivatives, per token.
struct Slopes {
  double f, f1, f2;
};

Slopes slopes(const LogT& law, double x) {
  const double z = standardise(law, x);
  const double f = density(law, x);
  if (!(f > 0 && std::isfinite(z * z))) return {f, 0, 0};  // far beyond all probability
  // (ln f)' = (rate − 1)/x with rate = −fall_rate/sigma.
  const double q = law.nu + z * z;
  const double rate = -fall_rate(law, z) / law.sigma;
  const double bend = -(law.nu + 1) * (law.nu - z * z) / (q * q * law.sigma * law.sigma);
  const double first = (rate - 1) / x;
  const double second = (bend - (rate - 1)) / (x * x);
  return {f, f * first, f * (first * first + second)};
}

/// What Euler-Maclaurin needs at the ends of a block.
struct Ends {
  double value, first, third;
};

/// P(Xd > k).
struct Survival {
  static constexpr bool kFlatAbove = false;  // beside P(Xd > age), far out, it still falls
  const LogT& law;
  double value(double x) const { return x <= 0 ? 1.0 : survival(law, x); }
  Ends ends(double x) const {
    const Slopes s = slopes(law, x);
    return {value(x), -s.f, -s.f2};
  }
};

/// P(X ≤ k)/(k(k+1)): the part of E[1/Xd] that is gained by finishing at k at the latest.
struct EarlyFinish {
  static constexpr bool kFlatAbove = true;
  const LogT& law;
  double finished(double x) const { return t_survival(-standardise(law, x), law.nu); }
  double value(double x) const { return finished(x) / (x * (x + 1)); }
  Ends ends(double x) const {
    const Slopes s = slopes(law, x);
    const double p = finished(x);
    const double a = 1 / x;
    const double b = 1 / (x + 1);
    const double w = a * b;  // the weight and its derivatives, w = 1/x − 1/(x+1)
    const double w1 = b * b - a * a;
    const double w2 = 2 * (a * a * a - b * b * b);
    const double w3 = 6 * (b * b * b * b - a * a * a * a);
    return {p * w, s.f * w + p * w1, s.f2 * w + 3 * s.f1 * w1 + 3 * s.f * w2 + p * w3};
  }
};

/// The sum of f over the integers lo ≤ k < hi, where f is smooth: Euler-Maclaurin.
template <class F>
double smooth_sum(const F& f, double lo, double hi) {
  if (!(hi > lo)) return 0;
  const double integral = boost::math::quadrature::gauss<double, 20>::integrate(
      [&f](double x) { return f.value(x); }, lo, hi);
  const Ends from = f.ends(lo);
  const Ends to = f.ends(hi);
  return integral + (from.value - to.value) / 2 + (to.first - from.first) / 12 -
         (to.third - from.third) / 720;
}

/// The end of the block that starts at `at`: one token where the law is rough, else many. Equal to
/// at + 1 exactly when the block is a single term.
template <class F>
std::int64_t block_end(const F& f, std::int64_t at, std::int64_t end) {
  const double x = static_cast<double>(at);
  const double scale = at < 1 ? 0 : smooth_tokens(f, x);
  if (scale < kSmoothTokens) return at + 1;
  double width = kBlockScales * scale;
  // The block must not reach into a rough or much finer region on its right.
  while (width >= 2 && smooth_tokens(f, x + width) < std::max(width, kSmoothTokens)) width /= 2;
  if (width < 2) return at + 1;
  const double room = static_cast<double>(end - at);
  return width >= room ? end : at + static_cast<std::int64_t>(width);
}

template <class F>
double block_sum(const F& f, std::int64_t at, std::int64_t to) {
  if (to == at + 1) return f.value(static_cast<double>(at));
  return smooth_sum(f, static_cast<double>(at), static_cast<double>(to));
}

/// Can what follows the block [at, to), which weighed `step`, still change the sum of a falling
/// function?
template <class F>
bool rest_is_negligible(const F& f, double step, double sum, std::int64_t at, std::int64_t to,
                        std::int64_t end) {
  if (F::kFlatAbove) return false;
  const double largest = to == at + 1 ? step : f.value(static_cast<double>(to));
  return largest * static_cast<double>(end - to) < kNegligibleRest * sum;
}

template <class F>
double sum_over_tokens(const F& f, std::int64_t from, std::int64_t end) {
  double sum = 0;
  for (std::int64_t at = from; at < end;) {
    const std::int64_t to = block_end(f, at, end);
    const double step = block_sum(f, at, to);
    sum += step;
    if (rest_is_negligible(f, step, sum, at, to, end)) break;
    at = to;
  }
  return sum;
}

// Below this the survival has lost its digits, and what remains is told by the density's decay
// alone.
constexpr double kLeastSurvival = 1e-280;

/// The mean residual far beyond all probability: survival over hazard of a t tail, on the token
/// scale.
double far_tail_residual(const LogT& law, std::int64_t age, std::int64_t cap) {
  const double x = static_cast<double>(age);
  const double z = standardise(law, x);
  const double tokens = law.sigma * x * (law.nu + z * z) / (law.nu * z);
  return std::clamp(tokens, 1.0, static_cast<double>(cap - age));
}

/// Finds the least of [sum of P(Xd > k), age ≤ k < b] / [P(Xd > age) − P(Xd > b)] over b ≥ first,
/// walking the blocks once; where the ratio turns from falling to rising inside a block it looks
/// inside.
class GittinsSearch {
 public:
  GittinsSearch(const LogT& law, std::int64_t age, std::int64_t cap, std::int64_t first)
      : law_(law), cap_(cap), first_(first), start_(whole_survival(law, age, cap)), at_{age, 0} {}

  double run() {
    while (at_.tokens < cap_) {
      const std::int64_t limit = at_.tokens < first_ ? first_ : cap_;
      const std::int64_t to = block_end(Survival{law_}, at_.tokens, limit);
      const double step = block_sum(Survival{law_}, at_.tokens, to);
      const Stop next{to, at_.served + step};
      if (to >= first_) best_ = std::min(best_, rank(next));
      const bool inside = at_.tokens >= first_ && to > at_.tokens + 1;
      if (inside && falling(at_) && !falling(next)) search(at_, at_.tokens + 1, to - 1);
      const bool last = rest_is_negligible(Survival{law_}, step, next.served, at_.tokens, to, cap_);
      at_ = next;
      if (last) {
        return std::min(best_, at_.served / start_);  // the rank of serving to the cap
      }
    }
    return best_;
  }

 private:
  struct Stop {
    std::int64_t tokens = 0;
    double served = 0;  ///< expected tokens generated from the age up to here
  };

  double rank(const Stop& stop) const {
    const double finished = start_ - whole_survival(law_, stop.tokens, cap_);
    return finished > 0 ? stop.served / finished : std::numeric_limits<double>::infinity();
  }

  /// Would one more token lower the ratio? (The atom at the cap is left out.)
  bool falling(const Stop& stop) const {
    const double x = static_cast<double>(stop.tokens);
    const double alive = survival(law_, x);
    return alive * (start_ - alive) < stop.served * density(law_, x + 0.5);
  }

  double rank_after(const Stop& from, std::int64_t to) const {
    const double more =
        smooth_sum(Survival{law_}, static_cast<double>(from.tokens), static_cast<double>(to));
    return rank({to, from.served + more});
  }

  void search(const Stop& from, std::int64_t lo, std::int64_t hi) {
    while (hi - lo > 1) {
      const std::int64_t middle = lo + (hi - lo) / 2;
      if (rank_after(from, middle) <= rank_after(from, middle + 1)) {
        hi = middle;
      } else {
        lo = middle + 1;
      }
    }
    best_ = std::min({best_, rank_after(from, lo), rank_after(from, hi)});
  }

  const LogT& law_;
  const std::int64_t cap_;
  const std::int64_t first_;
  const double start_;
  Stop at_;
  double best_ = std::numeric_limits<double>::infinity();
};

}  // namespace

double whole_survival(const LogT& law, std::int64_t k, std::int64_t cap) {
  if (k <= 0) return 1;
  if (k >= cap) return 0;
  return survival(law, static_cast<double>(k));
}

double mean_residual(const LogT& law, std::int64_t age, std::int64_t cap) {
  const double alive = whole_survival(law, age, cap);
  if (alive < kLeastSurvival) return far_tail_residual(law, age, cap);
  const double sum = sum_over_tokens(Survival{law}, age, cap);
  return std::clamp(sum / alive, 1.0, static_cast<double>(cap - age));
}

double mean_inverse(const LogT& law, std::int64_t cap) {
  const double at_cap = 1 / static_cast<double>(cap);
  return std::clamp(at_cap + sum_over_tokens(EarlyFinish{law}, 1, cap), at_cap, 1.0);
}

double gittins_rank(const LogT& law, std::int64_t age, std::int64_t cap, std::int64_t quantum) {
  if (whole_survival(law, age, cap) < kLeastSurvival) return far_tail_residual(law, age, cap);
  const std::int64_t room = cap - age;
  const std::int64_t first = quantum < room ? age + std::max<std::int64_t>(quantum, 1) : cap;
  return GittinsSearch(law, age, cap, first).run();
}

// ---- any law ------------------------------------------------------------------------------------

double mean_residual(const LengthLaw& law, std::int64_t age, std::int64_t cap) {
  const double alive = law.survival(static_cast<double>(age));
  if (!(alive > kLeastSurvival)) return static_cast<double>(cap - age);
  double sum = 0;
  for (std::int64_t k = cap - 1; k >= age; --k) sum += law.survival(static_cast<double>(k));
  return std::clamp(sum / alive, 1.0, static_cast<double>(cap - age));
}

double mean_inverse(const LengthLaw& law, std::int64_t cap) {
  double sum = 1 / static_cast<double>(cap);
  for (std::int64_t k = 1; k < cap; ++k) {
    const double x = static_cast<double>(k);
    sum += (1 - law.survival(x)) / (x * (x + 1));
  }
  return sum;
}

double gittins_rank(const LengthLaw& law, std::int64_t age, std::int64_t cap,
                    std::int64_t quantum) {
  const double alive = law.survival(static_cast<double>(age));
  if (!(alive > kLeastSurvival)) return static_cast<double>(cap - age);
  double best = std::numeric_limits<double>::infinity();
  double served = 0;
  for (std::int64_t b = age + 1; b <= cap; ++b) {
    served += law.survival(static_cast<double>(b - 1));
    const double left = b < cap ? law.survival(static_cast<double>(b)) : 0;
    if ((b - age >= quantum || b == cap) && left < alive)
      best = std::min(best, served / (alive - left));
  }
  return best;
}

}  // namespace tailrace::length
