// Iterations and occupancy as a Poisson autoregression: exact first and second moments while no
// limit binds; beyond the batch a birth-death chain with the same mean and variance.
#include <algorithm>
#include <cmath>

#include "queueing/modes.h"
#include "queueing/occupancy.h"
#include "queueing/service_point.h"
#include "queueing/token_budget.h"

namespace tailrace::queueing {
namespace {

/// An engine's iteration lasts a nanosecond at least.
constexpr double kLeastIterationMs = 1e-6;
/// Of the part of a request's time that comes from bursts, what fixed lengths add to it. Measured.
constexpr double kFixedBursts = 0.5;
/// How often the knee's mean iteration is found anew with the spread that it leads to.
constexpr int kKneePasses = 2;

Overdispersion overdispersion(const OperatingPoint& at, const Spread& spread,
                              const RequestWork& work, double rate) {
  const double decoding = work.decodes * at.iteration;
  return {rate * rate * spread.t_var / at.iteration,
          decoding > 0 ? std::max(0.0, spread.n_var / decoding - 1) : 0};
}

/// Over the chain's mean wait, which is right for exponential lengths. Long queues see the lengths'
/// variation, as in a queue with many servers; short ones do not, since those in the batch share
/// it. Measured: see docs/queueing-model.md.
double wait_factor(const RequestWork& work, const RateLimit& limit, const IterationModel& m,
                   double share) {
  const double c2 = work.length_cv2;
  const double fixed = m.alpha_ms * limit.per_ms * work.iterations / limit.slots;
  const double sharing = 1.4 * (1 - fixed) / (fixed * fixed * (1 + c2));
  const double brief = limit.slots * (1 - share) * (1 - share);
  return 1 + (c2 - 1) / 2 / (1 + (0.15 + 0.4 * c2 + sharing) * brief);
}

}  // namespace

Latency corrected(const ServiceModel& model, const Workload& w, Detail) {
  const RequestWork work = work_of(model, w);
  const double lambda = w.rate_per_s * 1e-3;
  IterationModel iteration = model.iteration;
  iteration.alpha_ms = std::max(iteration.alpha_ms, kLeastIterationMs);
  const RateLimit limit = rate_limit(iteration, model.limits, work);
  Latency out;
  out.max_rate_per_s = limit.per_ms * 1e3;
  out.binding = limit.binding;
  const double share = lambda / limit.per_ms;
  OperatingPoint at = operating_point(iteration, work, share < 1 ? lambda : 0, {});
  out.delta_ms = (at.slopes.prefill + work.decodes * at.slopes.decode) / work.iterations;
  out.rho = lambda * work.iterations * out.delta_ms;
  out.stable = share < 1;
  if (!out.stable) return out;
  Spread spread = spread_of(at, work, lambda);
  if (iteration.knee_tokens > 0) {
    for (int pass = 0; pass < kKneePasses; ++pass) {
      at = operating_point(iteration, work, lambda, overdispersion(at, spread, work, lambda));
      spread = spread_of(at, work, lambda);
    }
  }
  const double t = at.iteration;
  const double decoding = lambda * work.decodes * t;
  const Occupancy occupied =
      occupancy(decoding + lambda * t, lambda * spread.n_var, limit.slots, share);
  spread.t_var *= occupied.held;
  spread.tn_cov *= occupied.held;
  spread.next_cov *= occupied.held;
  // Prompts that arrive in the same iteration as a request, and how long its own would be if the
  // budget had no end.
  const double others = t - iteration.alpha_ms;
  double own = t - others / limit.slots + lambda * spread.next_cov / t + at.slopes.prefill;
  // Beside those of processor sharing, bursts of fixed lengths end together as they came.
  const double load = lambda * work.iterations * out.delta_ms;
  const double sharing = occupied.held * work.iterations * out.delta_ms / (1 - load);
  const double bursts = std::max(0.0, spread.tn_cov / t - sharing);
  double service = work.iterations * t + spread.tn_cov / t +
                   kFixedBursts * std::max(0.0, 1 - work.length_cv2) * bursts;
  double t_var = lambda * spread.t_var;
  const auto budget = static_cast<double>(model.limits.max_batched_tokens);
  if (budget > 0 && work.prefill > 0) {
    const double left = std::max(1.0, budget - decoding);
    const double seen = lambda * (t + t_var / t);
    const double base = own - at.slopes.prefill * (1 + seen);
    const PromptLine line =
        prompt_line({.tokens = work.prefill,
                     .tokens_var = work.prefill_var,
                     .per_iteration = lambda * t,
                     .spread = lambda * t_var / t,
                     .per_full = std::min(lambda * (base + iteration.beta_ms * left),
                                          lambda / limit.budget_per_ms * left / work.prefill),
                     .per_seen = seen},
                    left, lambda * spread.n_var);
    const double per_token = at.slopes.prefill / work.prefill;
    const double budgeted = base * line.chunks + per_token * (work.prefill + line.others);
    service += budgeted - own;
    own = budgeted;
    // Chunks spread what prompts add over several iterations.
    t_var -= lambda * t * at.slopes.prefill * at.slopes.prefill * (1 - 1 / line.alone);
  }
  const double wait =
      lambda > 0 ? occupied.waiting / lambda * wait_factor(work, limit, iteration, share) : 0;
  out.iteration_ms = t;
  // An idle engine begins at once: neither rest of an iteration nor those that would arrive in it.
  const double found = t + std::max(0.0, t_var) / t;
  const double alpha = iteration.alpha_ms;
  own -= occupied.idle * lambda * at.slopes.prefill * alpha;
  out.wait_ms = wait + (found - occupied.idle * alpha) / 2;
  out.ttft_ms = *out.wait_ms + own;
  out.itl_ms = work.decodes > 0 ? std::max(0.0, service - own) / work.decodes : t;
  out.e2e_ms = *out.ttft_ms + work.decodes * *out.itl_ms;
  out.concurrency = lambda * service;
  out.throughput_per_s = w.rate_per_s;
  if (share > 0.9) out.out_of_range = OutOfRange::kNearSaturation;
  return out;
}

}  // namespace tailrace::queueing
