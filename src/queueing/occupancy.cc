#include "queueing/occupancy.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tailrace::queueing {
namespace {

/// Weights of a law that need not add up to 1, and may be rescaled on the way.
struct Sums {
  double weight = 0, idle = 0;
};

constexpr double kMostLoad = 1 - 1e-7;
/// Of the load, what those make who come and go while a long context stays. Measured.
constexpr double kQuickLoad = 0.85;
/// Wider laws are summed over a grid instead of over every number.
constexpr double kWideSd = 40;

}  // namespace

// The next iteration's prefills are Poisson with mean rate · T, and each of n goes on with
// probability 1 − 1/iterations: three linear equations for Var k, Var d and Cov(k, d).
Spread spread_of(const OperatingPoint& at, const RequestWork& work, double rate) {
  // Rounding, or a knee's slope at the border, must not make it explosive.
  const double load = rate * (at.slopes.prefill + work.decodes * at.slopes.decode);
  const double within = load > kMostLoad ? kMostLoad / load : 1;
  const double p = within * at.slopes.prefill, w = within * at.slopes.decode;
  const double go_on = 1 - 1 / work.iterations;
  const double k = at.iteration;
  const double n = work.iterations * k;
  const double burst = k * (at.slopes.prefill_var + at.slopes.bend_var);
  std::array<std::array<double, 4>, 3> a{
      {{1 - rate * rate * p * p, -rate * rate * w * w, -2 * rate * rate * p * w,
        k + rate * rate * burst},
       {-go_on * go_on, 1 - go_on * go_on, -2 * go_on * go_on, go_on * (1 - go_on) * n},
       {-rate * go_on * p, -rate * go_on * w, 1 - rate * go_on * (p + w), 0}}};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 3; j > i; --j) a[i][j] /= a[i][i];
    for (std::size_t row = 0; row < 3; ++row) {
      if (row == i) continue;
      for (std::size_t j = i + 1; j < 4; ++j) a[row][j] -= a[row][i] * a[i][j];
    }
  }
  const double k_var = a[0][3], d_var = a[1][3], kd_cov = a[2][3];
  Spread out;
  out.n_var = std::max(0.0, k_var + d_var + 2 * kd_cov);
  out.t_var = std::max(0.0, p * p * k_var + w * w * d_var + 2 * p * w * kd_cov + burst);
  out.tn_cov = std::max(0.0, p * k_var + w * d_var + (p + w) * kd_cov);
  out.next_cov = p * rate * out.t_var + w * go_on * out.tn_cov;
  return out;
}

// What contexts add to an iteration beside their mean is a slow noise e. Arrivals follow the time
// that iterations take, and leave after their own number of them, so n follows e as
// n' = (1 − (1 − load)/iterations) n + rate · e, with the load of those who are quicker than e.
// That is remembered for as long as those last who make it.
void add_contexts(const OperatingPoint& at, const RequestWork& work, double gamma_ms,
                  double rate_per_ms, Spread& spread) {
  const double o = work.iterations, w = at.slopes.decode;
  const double load = rate_per_ms * (at.slopes.prefill + work.decodes * w);
  const double rest = 1 - kQuickLoad * std::min(1.0, load);
  const double prompt_lasts = (1 + work.length_cv2) / 2;  // of an answer's length
  const double kept = work.ages_var * work.age_lasts / (1 + rest * work.age_lasts) +
                      work.touched_var * prompt_lasts / (1 + rest * prompt_lasts);
  const double there = work.decodes * at.iteration * gamma_ms * gamma_ms;
  const double cov = rate_per_ms * there * o * kept;
  const double n_var = rate_per_ms * o / rest * cov;
  const double t_var = there * (work.ages_var + work.touched_var) + 2 * w * cov + w * w * n_var;
  spread.contexts_cov = cov;
  spread.n_var += n_var;
  spread.tn_cov += cov + w * n_var;
  spread.t_var += t_var;
  spread.next_cov += (1 + rate_per_ms * at.slopes.prefill) * t_var;
}

Occupancy occupancy(double mode, double variance, double slots, double beyond) {
  const double r = variance > mode ? 1 - mode / variance : 0;
  const double a = mode * (1 - r);
  const auto ratio = [&](double n) { return r + a / n; };
  Sums sums;
  bool reached = true;
  double p = 1;
  if (const double sd = std::sqrt(std::max(variance, mode)); sd <= kWideSd) {
    sums.weight += 1;
    sums.idle = 1;
    const double whole = std::floor(slots);
    for (double n = 1; n <= whole; ++n) {
      p *= ratio(n);
      sums.weight += p;
      if (p < 1e-15 * sums.weight && n > mode) {
        reached = false;
        break;
      }
      if (p > 1e200) {
        p *= 1e-200;
        sums.weight *= 1e-200;
        sums.idle *= 1e-200;
      }
    }
    // Memory may hold a fraction of a request.
    if (const double part = slots - whole; reached && part > 0) {
      p *= std::pow(ratio(whole + 1), part);
      sums.weight += part * p;
    }
  } else {
    // The grid begins where the law does, from its mode down and up.
    constexpr double kStepsPerSd = 8;
    constexpr double kLeastLog = -34;
    const double step = sd / kStepsPerSd;
    const double top = std::min(mode, slots);
    double log_p = 0;
    for (double n = top; n > 0 && log_p > kLeastLog; n -= step) {
      sums.weight += step * std::exp(log_p);
      const double below = n - step / 2 + 0.5;
      if (below > 0) log_p -= step * std::log(ratio(below));
    }
    log_p = 0;
    double n = top;
    while (n < slots && log_p > kLeastLog) {
      const double by = std::min(step, slots - n);
      log_p += by * std::log(ratio(n + by / 2 + 0.5));
      n += by;
      sums.weight += by * std::exp(log_p);
    }
    p = std::exp(log_p);
    reached = n >= slots;
  }
  if (reached) {
    const double tail = p * beyond / (1 - beyond);
    sums.weight += tail;
    Occupancy out;
    out.full = std::min(1.0, (p + tail) / sums.weight);
    out.waiting = tail / (1 - beyond) / sums.weight;
    out.idle = sums.idle / sums.weight;
    return out;
  }
  return {.idle = sums.idle / sums.weight};
}

}  // namespace tailrace::queueing
