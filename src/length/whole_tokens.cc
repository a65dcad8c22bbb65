#include "length/whole_tokens.h"

#include <algorithm>
#include <boost/math/quadrature/gauss.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "length/families.h"
#include "tailrace/length/binned.h"

namespace tailrace::length {
namespace {

// Below this many tokens of smoothness a sum is taken term by term; above it the neglected term of
// Euler-Maclaurin, a fifth derivative over 30240, is under 1e-10 of the sum.
constexpr double kSmoothTokens = 40;
// A block in units of the smoothness: 20 nodes resolve it to rounding.
constexpr double kBlockScales = 0.75;
// A part of a sum this small beside the whole is lost in rounding.
constexpr double kNegligible = 1e-18;
// Below this the survival has lost its digits, and what remains is told by the hazard alone.
constexpr double kLeastSurvival = 1e-280;

/// The largest k in [from, end] with P(X ≤ k) ≤ `least`; `from` where there is none.
template <class Law>
std::int64_t quiet_until(const Law& law, std::int64_t from, std::int64_t end, double least) {
  std::int64_t quiet = from;
  std::int64_t loud = end + 1;
  while (loud - quiet > 1) {
    const std::int64_t middle = quiet + (loud - quiet) / 2;
    (cdf_of(law, static_cast<double>(middle)) <= least ? quiet : loud) = middle;
  }
  return quiet;
}

/// P(lo < X ≤ hi) without the cancellation of two numbers near 1.
template <class Law>
double between_of(const Law& law, double lo, double hi) {
  const double below = lo > 0 ? cdf_of(law, lo) : 0;
  if (below < 0.5) return cdf_of(law, hi) - below;
  return survival_of(law, lo) - survival_of(law, hi);
}

/// What happens to a request between two ages, per request of age 0.
struct Step {
  double served = 0;    ///< expected tokens: the sum of P(X > k), from ≤ k < to
  double finished = 0;  ///< P(from < X ≤ to)
};

/// One law in a walk over token counts, block by block.
template <class Law>
class Walk {
 public:
  /// As many of the shortest answers as have the probability `least` are taken for none.
  Walk(const Law& law, std::int64_t from, std::int64_t end, double least)
      : law_(law), density_(law), quiet_until_(quiet_until(law, from, end, least)) {}

  double survival(double tokens) const { return tokens > 0 ? survival_of(law_, tokens) : 1; }
  double density(double tokens) const { return density_(tokens); }

  /// The end of the block that starts at `at`: one token where the law is rough, else many.
  std::int64_t block_end(std::int64_t at, std::int64_t end) const {
    if (at < quiet_until_) return std::min(quiet_until_, end);
    const double x = static_cast<double>(at);
    const double smooth = at < 1 ? 0 : density_.smooth_tokens(x);
    if (!(smooth >= kSmoothTokens)) return at + 1;
    double width = kBlockScales * smooth;
    // The block must not reach into a rough or much finer region on its right.
    while (width >= 2 && density_.smooth_tokens(x + width) < std::max(width, kSmoothTokens)) {
      width /= 2;
    }
    if (width < 2) return at + 1;
    const double room = static_cast<double>(end - at);
    return width >= room ? end : at + static_cast<std::int64_t>(width);
  }

  /// `to` is at most the block's end.
  Step step(std::int64_t at, std::int64_t to) const {
    const double lo = static_cast<double>(at);
    const double hi = static_cast<double>(to);
    if (to <= quiet_until_) return {hi - lo, 0};
    if (to == at + 1) return {survival(lo), between_of(law_, lo, hi)};
    // ∫ S = S(hi)·(hi − lo) + ∫ (x − lo)·f: nothing cancels, and f costs less than S.
    double finished = 0;
    const double inside = each_node(lo, hi, [&](double x, double mass) {
      finished += mass;
      return (x - lo) * mass;
    });
    const LogSlopes from = density_.log_slopes(lo);
    const LogSlopes last = density_.log_slopes(hi);
    const double f_lo = density_(lo);
    const double f_hi = density_(hi);
    const double served = survival(hi) * (hi - lo) + inside + finished / 2 - (f_hi - f_lo) / 12 +
                          (second_slope(f_hi, last) - second_slope(f_lo, from)) / 720;
    return {served, finished};
  }

  /// The sum of P(X ≤ k)/(k(k + 1)) over at ≤ k < to: what finishing early adds to E[1/Xd].
  double early(std::int64_t at, std::int64_t to) const {
    const double lo = static_cast<double>(at);
    const double hi = static_cast<double>(to);
    if (to <= quiet_until_) return 0;
    const double below = cdf_of(law_, lo);
    if (to == at + 1) return below / (lo * (lo + 1));
    double mass_between = 0;
    // The weight is 1/x − 1/(x + 1); its integral from x to hi is a logarithm.
    const auto weight_beyond = [hi](double x) { return std::log1p((hi - x) / (x * (hi + 1))); };
    const double inside = each_node(lo, hi, [&](double x, double mass) {
      mass_between += mass;
      return mass * weight_beyond(x);
    });
    const EarlyEnd from = early_end(lo, below);
    const EarlyEnd last = early_end(hi, below + mass_between);
    return below * weight_beyond(lo) + inside + (from.value - last.value) / 2 +
           (last.first - from.first) / 12 - (last.third - from.third) / 720;
  }

 private:
  struct EarlyEnd {
    double value, first, third;
  };

  /// Sums what `term(x, mass)` says at the nodes of a Gauss-Legendre rule, mass = f(x)·dx.
  template <class Term>
  double each_node(double lo, double hi, const Term& term) const {
    using Rule = boost::math::quadrature::gauss<double, 20>;
    const auto& nodes = Rule::abscissa();
    const auto& weights = Rule::weights();
    const double middle = 0.5 * (lo + hi);
    const double half = 0.5 * (hi - lo);
    double sum = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const double weight = half * weights[i];
      for (const double x : {middle - half * nodes[i], middle + half * nodes[i]}) {
        sum += term(x, weight * density_(x));
      }
    }
    return sum;
  }

  static double second_slope(double f, const LogSlopes& log) {
    return f > 0 ? f * (log.first * log.first + log.second) : 0;
  }

  EarlyEnd early_end(double x, double below) const {
    const double f = density_(x);
    const LogSlopes log = density_.log_slopes(x);
    const double f1 = f > 0 ? f * log.first : 0;
    const double f2 = second_slope(f, log);
    const double a = 1 / x;
    const double b = 1 / (x + 1);
    const double w = a * b;
    const double w1 = b * b - a * a;
    const double w2 = 2 * (a * a * a - b * b * b);
    const double w3 = 6 * (b * b * b * b - a * a * a * a);
    return {below * w, f * w + below * w1, f2 * w + 3 * f1 * w1 + 3 * f * w2 + below * w3};
  }

  const Law& law_;
  const Density<Law> density_;
  const std::int64_t quiet_until_;
};

/// Bins in a walk: survival is linear within a block, or falls smoothly beyond the last edge.
template <>
class Walk<Binned> {
 public:
  Walk(const Binned& law, std::int64_t, std::int64_t, double) : law_(law) {}

  double survival(double tokens) const { return law_.survival(tokens); }
  double density(double tokens) const { return law_.density(tokens); }
  std::int64_t block_end(std::int64_t at, std::int64_t end) const {
    return law_.linear_until(at, end);
  }
  Step step(std::int64_t at, std::int64_t to) const {
    const double lo = static_cast<double>(at);
    const double hi = static_cast<double>(to);
    const double below = law_.cdf(lo);
    const double finished =
        below < 0.5 ? law_.cdf(hi) - below : law_.survival(lo) - law_.survival(hi);
    return {law_.stretch_sum(at, to), finished};
  }

 private:
  const Binned& law_;
};

using AnyWalk = std::variant<Walk<LogT>, Walk<LogNormal>, Walk<Gamma>, Walk<Weibull>,
                             Walk<Exponential>, Walk<Lomax>, Walk<Binned>>;

/// The parts of a law, walked together.
class Parts {
 public:
  Parts(const LengthLaw& law, std::int64_t from, std::int64_t end) { add(law, 1, from, end); }

  double survival(double tokens) const {
    return sum([&](const auto& walk) { return walk.survival(tokens); });
  }
  double density(double tokens) const {
    return sum([&](const auto& walk) { return walk.density(tokens); });
  }

  /// The end of a block that is one for every part; parts that no longer count beside `served`
  /// tokens are left out from here on. Nothing where no part counts.
  std::optional<std::int64_t> block_end(std::int64_t at, std::int64_t end, double served) {
    std::optional<std::int64_t> to;
    for (Part& part : parts_) {
      if (!part.counts) continue;
      std::visit(
          [&](const auto& walk) {
            const double left = part.weight * walk.survival(static_cast<double>(at));
            part.counts = left * static_cast<double>(end - at) > kNegligible * served;
            if (part.counts) to = walk.block_end(at, to.value_or(end));
          },
          part.walk);
    }
    return to;
  }

  Step step(std::int64_t at, std::int64_t to) const {
    Step total;
    for (const Part& part : parts_) {
      if (!part.counts) continue;
      const Step one = std::visit([&](const auto& walk) { return walk.step(at, to); }, part.walk);
      total.served += part.weight * one.served;
      total.finished += part.weight * one.finished;
    }
    return total;
  }

 private:
  struct Part {
    double weight;
    AnyWalk walk;
    bool counts = true;
  };

  void add(const LengthLaw& law, double weight, std::int64_t from, std::int64_t end) {
    if (!(weight > 0)) return;
    law.visit([&]<class Law>(const Law& family) {
      if constexpr (std::is_same_v<Law, Mixture>) {
        add(family.first, weight * family.weight, from, end);
        add(family.second, weight * (1 - family.weight), from, end);
      } else {
        parts_.push_back({weight, Walk<Law>(family, from, end, kNegligible)});
      }
    });
  }

  template <class Question>
  double sum(const Question& question) const {
    double total = 0;
    for (const Part& part : parts_) {
      if (part.counts) total += part.weight * std::visit(question, part.walk);
    }
    return total;
  }

  std::vector<Part> parts_;
};

/// How far a walk has come.
struct Stop {
  std::int64_t tokens = 0;
  Step since_age;
};

/// Finds the least of [sum of P(Xd > k), age ≤ k < b] / P(age < Xd ≤ b) over b ≥ first, walking the
/// blocks once; where the ratio turns from falling to rising inside a block it looks inside.
class GittinsSearch {
 public:
  GittinsSearch(Parts parts, std::int64_t age, std::int64_t cap, std::int64_t first)
      : parts_(std::move(parts)), cap_(cap), first_(first), at_{age, {}} {}

  double run(double alive) {
    while (at_.tokens < cap_) {
      const std::int64_t limit = at_.tokens < first_ ? first_ : cap_;
      const auto to = parts_.block_end(at_.tokens, limit, at_.since_age.served);
      if (!to) break;
      const Stop next = after(*to);
      if (*to >= first_) best_ = std::min(best_, rank(next));
      const bool inside = at_.tokens >= first_ && *to > at_.tokens + 1;
      if (inside && falling(at_) && !falling(next)) search(*to);
      at_ = next;
    }
    return std::min(best_, at_.since_age.served / alive);  // to the cap, where all are finished
  }

 private:
  static double rank(const Stop& stop) {
    const Step& step = stop.since_age;
    return step.finished > 0 ? step.served / step.finished
                             : std::numeric_limits<double>::infinity();
  }

  /// Would one more token lower the ratio? (The atom at the cap is left out.)
  bool falling(const Stop& stop) const {
    const double x = static_cast<double>(stop.tokens);
    const Step& step = stop.since_age;
    return parts_.survival(x) * step.finished < step.served * parts_.density(x + 0.5);
  }

  Stop after(std::int64_t to) const {
    const Step step = parts_.step(at_.tokens, to);
    return {to, {at_.since_age.served + step.served, at_.since_age.finished + step.finished}};
  }

  /// The least ratio within the block that ends at `to`. Flat at its bottom, it needs no more than
  /// a millionth of the block.
  void search(std::int64_t to) {
    std::int64_t lo = at_.tokens + 1;
    std::int64_t hi = to - 1;
    const std::int64_t enough = 1 + (to - at_.tokens) / 1'000'000;
    while (hi - lo > enough) {
      const std::int64_t middle = lo + (hi - lo) / 2;
      (falling(after(middle)) ? lo : hi) = middle;
    }
    best_ = std::min({best_, rank(after(lo)), rank(after(hi))});
  }

  Parts parts_;
  const std::int64_t cap_;
  const std::int64_t first_;
  Stop at_;
  double best_ = std::numeric_limits<double>::infinity();
};

/// E[Xd − age | Xd > age] from the hazard beyond all probability.
double far_residual(const LengthLaw& law, std::int64_t age, std::int64_t cap) {
  const double x = static_cast<double>(age);
  const double room = static_cast<double>(cap - age);
  const double tokens = law.visit([&]<class Law>(const Law& family) -> double {
    if constexpr (std::is_same_v<Law, Mixture>) {
      return std::max(far_residual(family.first, age, cap), far_residual(family.second, age, cap));
    } else if constexpr (std::is_same_v<Law, Binned>) {
      return x * room / static_cast<double>(cap);  // as if what ends at `age` went on as (age/x)²
    } else {
      return -1 / std::expm1(-far_hazard_of(family, x));
    }
  });
  return std::clamp(tokens, 1.0, room);
}

/// A family that stays itself whatever the age: the law of what is left.
std::optional<LengthLaw> left_of(const LengthLaw& law, std::int64_t age) {
  if (age == 0) return std::nullopt;
  return law.visit([&]<class Law>(const Law& family) -> std::optional<LengthLaw> {
    if constexpr (std::is_same_v<Law, Exponential>) {
      return law;
    } else if constexpr (std::is_same_v<Law, Lomax>) {
      const auto left = LengthLaw::lomax(family.shape, family.scale + static_cast<double>(age));
      return left ? std::optional(*left) : std::nullopt;
    } else {
      return std::nullopt;
    }
  });
}

template <class Law>
double mean_inverse_of(const Law& law, std::int64_t cap) {
  const double at_cap = 1 / static_cast<double>(cap);
  const Walk<Law> walk(law, 1, cap, kNegligible * at_cap);
  double sum = at_cap;
  for (std::int64_t at = 1; at < cap;) {
    const double x = static_cast<double>(at);
    if (walk.survival(x) < kNegligible) {  // all have finished
      sum += static_cast<double>(cap - at) / x * at_cap;
      break;
    }
    // The weight 1/(x(x + 1)) is as smooth as x is large.
    const std::int64_t room = cap - at;
    const bool rough = x < kSmoothTokens;
    const std::int64_t width = rough ? 1 : static_cast<std::int64_t>(kBlockScales * x);
    const std::int64_t to = walk.block_end(at, width < room ? at + width : cap);
    sum += walk.early(at, to);
    at = to;
  }
  return std::clamp(sum, at_cap, 1.0);
}

double survival_at(const LengthLaw& law, std::int64_t age) {
  return law.survival(static_cast<double>(age));
}

}  // namespace

double mean_residual(const LengthLaw& law, std::int64_t age, std::int64_t cap) {
  if (const auto left = left_of(law, age)) return mean_residual(*left, 0, cap - age);
  const double alive = survival_at(law, age);
  if (alive < kLeastSurvival) return far_residual(law, age, cap);
  Parts parts(law, age, cap);
  double served = 0;
  for (std::int64_t at = age; at < cap;) {
    const auto to = parts.block_end(at, cap, served);
    if (!to) break;
    served += parts.step(at, *to).served;
    at = *to;
  }
  return std::clamp(served / alive, 1.0, static_cast<double>(cap - age));
}

double mean_inverse(const LengthLaw& law, std::int64_t cap) {
  return law.visit([&]<class Law>(const Law& family) -> double {
    if constexpr (std::is_same_v<Law, Mixture>) {
      return family.weight * mean_inverse(family.first, cap) +
             (1 - family.weight) * mean_inverse(family.second, cap);
    } else if constexpr (std::is_same_v<Law, Binned>) {
      return family.mean_inverse(cap);
    } else {
      return mean_inverse_of(family, cap);
    }
  });
}

double gittins_rank(const LengthLaw& law, std::int64_t age, std::int64_t cap,
                    std::int64_t quantum) {
  if (const auto left = left_of(law, age)) return gittins_rank(*left, 0, cap - age, quantum);
  const double alive = survival_at(law, age);
  if (alive < kLeastSurvival) return far_residual(law, age, cap);
  const std::int64_t first = quantum < cap - age ? age + quantum : cap;
  return GittinsSearch(Parts(law, age, cap), age, cap, first).run(alive);
}

std::int64_t residual_quantile(const LengthLaw& law, double p, std::int64_t age, std::int64_t cap) {
  if (const auto left = left_of(law, age)) return residual_quantile(*left, p, 0, cap - age);
  const double alive = survival_at(law, age);
  if (alive < kLeastSurvival) {
    const double hazard = -std::log1p(-1 / far_residual(law, age, cap));
    const double tokens = std::ceil(-std::log1p(-p) / hazard);
    return static_cast<std::int64_t>(std::clamp(tokens, 1.0, static_cast<double>(cap - age)));
  }
  const double gone = age > 0 ? law.cdf(static_cast<double>(age)) : 0;
  std::int64_t low = age;  // too few tokens
  std::int64_t high = cap;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    const double x = static_cast<double>(middle);
    const bool enough =
        p > 0.5 || gone > 0.5 ? law.survival(x) <= (1 - p) * alive : law.cdf(x) - gone >= p * alive;
    (enough ? high : low) = middle;
  }
  return high - age;
}

}  // namespace tailrace::length
