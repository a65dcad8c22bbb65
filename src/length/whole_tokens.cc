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
// Euler-Maclaurin, scale^-3/720 of one summand, is under 1e-12 of the sum.
constexpr double kSmoothTokens = 200;
// A block in units of the smoothness scale: 20 nodes resolve it to rounding.
constexpr double kBlockScales = 0.75;

double survival(const LogT& law, double tokens) {
  return t_survival(standardise(law, tokens), law.nu);
}

double density(const LogT& law, double tokens) {
  return t_density(standardise(law, tokens), law.nu) / (law.sigma * tokens);
}

/// The number of tokens over which the law changes shape at x: the poles of the density on the log
/// scale are sigma·sqrt(nu) away from mu, and x itself is the scale of 1/x.
double smooth_tokens(const LogT& law, double x) {
  const double y = std::log(x) - law.mu;
  return x * std::min(1.0, std::hypot(law.sigma * std::min(1.0, std::sqrt(law.nu)), y));
}

/// P(Xd > k) and what it needs to be summed.
struct Survival {
  const LogT& law;
  double value(double x) const { return x <= 0 ? 1.0 : survival(law, x); }
  double slope(double x) const { return -density(law, x); }
};

/// P(X ≤ k)/(k(k+1)): the part of E[1/Xd] that is gained by finishing at k at the latest.
struct EarlyFinish {
  const LogT& law;
  double value(double x) const { return t_survival(-standardise(law, x), law.nu) / (x * (x + 1)); }
  double slope(double x) const {
    return (density(law, x) - value(x) * (2 * x + 1)) / (x * (x + 1));
  }
};

/// The sum of f over the integers lo ≤ k < hi, where f is smooth. Euler-Maclaurin to the third
/// derivative.
template <class F>
double smooth_sum(const F& f, double lo, double hi) {
  if (!(hi > lo)) return 0;
  const double integral = boost::math::quadrature::gauss<double, 20>::integrate(
      [&f](double x) { return f.value(x); }, lo, hi);
  return integral + (f.value(lo) - f.value(hi)) / 2 + (f.slope(hi) - f.slope(lo)) / 12;
}

/// The end of the block that starts at `at`: one token where the law is rough, else many. Equal to
/// at + 1 exactly when the block is a single term.
std::int64_t block_end(const LogT& law, std::int64_t at, std::int64_t end) {
  const double x = static_cast<double>(at);
  const double scale = at < 1 ? 0 : smooth_tokens(law, x);
  if (scale < kSmoothTokens) return at + 1;
  double width = kBlockScales * scale;
  // The block must not reach into a rough or much finer region on its right.
  while (width >= 2 && smooth_tokens(law, x + width) < std::max(width, kSmoothTokens)) width /= 2;
  if (width < 2) return at + 1;
  const double room = static_cast<double>(end - at);
  return width >= room ? end : at + static_cast<std::int64_t>(width);
}

template <class F>
double block_sum(const F& f, std::int64_t at, std::int64_t to) {
  if (to == at + 1) return f.value(static_cast<double>(at));
  return smooth_sum(f, static_cast<double>(at), static_cast<double>(to));
}

template <class F>
double sum_over_tokens(const LogT& law, const F& f, std::int64_t from, std::int64_t end) {
  double sum = 0;
  for (std::int64_t at = from; at < end;) {
    const std::int64_t to = block_end(law, at, end);
    sum += block_sum(f, at, to);
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
      const std::int64_t to = block_end(law_, at_.tokens, limit);
      const Stop next{to, at_.served + block_sum(Survival{law_}, at_.tokens, to)};
      if (to >= first_) best_ = std::min(best_, rank(next));
      const bool inside = at_.tokens >= first_ && to > at_.tokens + 1;
      if (inside && falling(at_) && !falling(next)) search(at_, at_.tokens + 1, to - 1);
      at_ = next;
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
  const double sum = sum_over_tokens(law, Survival{law}, age, cap);
  return std::clamp(sum / alive, 1.0, static_cast<double>(cap - age));
}

double mean_inverse(const LogT& law, std::int64_t cap) {
  const double at_cap = 1 / static_cast<double>(cap);
  return std::clamp(at_cap + sum_over_tokens(law, EarlyFinish{law}, 1, cap), at_cap, 1.0);
}

double gittins_rank(const LogT& law, std::int64_t age, std::int64_t cap, std::int64_t quantum) {
  if (whole_survival(law, age, cap) < kLeastSurvival) return far_tail_residual(law, age, cap);
  const std::int64_t room = cap - age;
  const std::int64_t first = quantum < room ? age + std::max<std::int64_t>(quantum, 1) : cap;
  return GittinsSearch(law, age, cap, first).run();
}

}  // namespace tailrace::length
