// Iterations and occupancy as a Poisson autoregression: exact first and second moments while no
// limit binds, beyond the batch a birth-death chain with the same mean and variance, and behind the
// token budget a line of prompts. docs/queueing-model.md explains each term.
#include <algorithm>
#include <array>
#include <cmath>

#include "queueing/modes.h"
#include "queueing/occupancy.h"
#include "queueing/percentiles.h"
#include "queueing/service_point.h"
#include "queueing/token_budget.h"

namespace tailrace::queueing {
namespace {

/// An engine's iteration lasts a nanosecond at least.
constexpr double kLeastIterationMs = 1e-6;
/// To which the knee's mean iteration is found anew with the spread that it leads to, each time.
constexpr std::array kKneePrecision{1e-4, 1e-7};
/// Of the part of a request's time that comes from bursts, what fixed lengths add to it, and as
/// much again where decodes alone do not pass the knee, which makes bursts cost more. Measured.
constexpr double kFixedBursts = 0.5;
/// Shares of the maximum rate up to which simulations agree: in general, where preemptions begin,
/// and where prompts queue for the token budget.
constexpr double kTrusted = 0.9, kTrustedMemory = 0.75, kTrustedBudget = 0.8;
/// What prompts left over from iteration to iteration may matter. Beyond, TTFT is overstated by
/// more than 5 %. A prompt whose last iteration has so much of its budget to spare hardly delays
/// anybody. Measured.
constexpr double kTrustedBacklog = 0.0075, kSparesEnough = 0.8;
/// What the wait for a slot may be of TTFT: beyond, TTFT hangs on how the longest answers meet.
constexpr double kTrustedWait = 0.1;
/// What the requests in a full memory may vary by, standard deviation over mean, and those in a
/// batch, as far as its time is that of their contexts, above a share of the largest rate.
/// Measured.
constexpr double kTrustedContexts = 0.25, kTrustedMixed = 0.85;

/// Prompts of one iteration exceed its budget too often: how often, times what iterations differ
/// by, whose variance over their squared mean is `relative_var`.
bool prompts_queue(const PromptLine& line, double prompt_tokens, double left, double relative_var) {
  const double spares = line.alone - prompt_tokens / left;
  return line.backlog_share * relative_var * (kSparesEnough - spares) > kTrustedBacklog;
}

OutOfRange range_of(Binding binding, double share) {
  if (binding == Binding::kKvTokens && share > kTrustedMemory) return OutOfRange::kMemoryBound;
  if (binding == Binding::kTokenBudget && share > kTrustedBudget) {
    return OutOfRange::kPrefillDominated;
  }
  return share > kTrusted ? OutOfRange::kNearSaturation : OutOfRange::kNone;
}

Overdispersion overdispersion(const OperatingPoint& at, const Spread& spread,
                              const RequestWork& work, double rate) {
  const double decoding = work.decodes * at.iteration;
  return {rate * rate * spread.t_var / at.iteration,
          decoding > 0 ? std::max(0.0, spread.n_var / decoding - 1) : 0};
}

/// Over the chain's mean wait, which is right for exponential lengths. Long queues see the lengths'
/// variation, as in a queue with many servers; short ones do not, since those in the batch share
/// it. Measured.
double wait_factor(const RequestWork& work, const RateLimit& limit, const IterationModel& m,
                   double share) {
  const double c2 = work.length_cv2;
  const double fixed = m.alpha_ms * limit.per_ms * work.iterations / limit.slots;
  const double sharing = 1.4 * (1 - fixed) / (fixed * fixed * (1 + c2));
  const double brief = limit.slots * (1 - share) * (1 - share);
  return 1 + (c2 - 1) / 2 / (1 + (0.15 + 0.4 * c2 + sharing) * brief);
}

/// What is left of a variance, averaged over a request's time in the batch, when the batch forgets
/// in 1 / (1 − load) of such times.
double kept_over_a_life(double load) {
  const double x = std::max(1e-3, 1 - load);
  return 2 * (x - 1 + std::exp(-x)) / (x * x);
}

}  // namespace

Corrected::Corrected(const ServiceModel& model, const Workload& workload)
    : iteration_(model.iteration), limits_(model.limits), work_(work_of(model, workload)) {
  iteration_.alpha_ms = std::max(iteration_.alpha_ms, kLeastIterationMs);
  limit_ = rate_limit(iteration_, limits_, work_);
}

Latency Corrected::at(double rate_per_s, Detail detail, const WhichPercentiles& which) const {
  const IterationModel& iteration = iteration_;
  const RequestWork& work = work_;
  const RateLimit& limit = limit_;
  const double lambda = rate_per_s * 1e-3;
  const double alpha = iteration.alpha_ms;
  Latency out;
  out.max_rate_per_s = limit.per_ms * 1e3;
  out.binding = limit.binding;
  const bool fits = limit.per_ms > 0;
  const double share = fits ? lambda / limit.per_ms : 1;
  const double full_iteration =
      fits ? std::max(alpha, limit.slots / work.iterations / limit.per_ms) : alpha;
  OperatingPoint at =
      operating_point(iteration, work, share < 1 ? lambda : 0, {}, alpha, full_iteration);
  out.delta_ms = (at.slopes.prefill + work.decodes * at.slopes.decode) / work.iterations;
  out.rho = lambda * work.iterations * out.delta_ms;
  out.stable = share < 1;
  if (!out.stable) return out;

  Spread spread = spread_of(at, work, lambda);
  if (iteration.knee_tokens > 0) {
    for (const double precision : kKneePrecision) {
      at = operating_point(iteration, work, lambda, overdispersion(at, spread, work, lambda),
                           at.iteration, full_iteration, precision);
      spread = spread_of(at, work, lambda);
    }
  }
  const double plain_cov = spread.tn_cov;
  if (lambda > 0) add_contexts(at, work, iteration.gamma_ms, lambda, spread);
  const double t = at.iteration;
  const double prefill = at.slopes.prefill;
  const double decoding = lambda * work.decodes * t;
  const Occupancy occupied =
      occupancy(decoding + lambda * t, lambda * spread.n_var, limit.slots, share);
  double t_var = lambda * spread.t_var;
  const double bursts_var = lambda * t *
                            (prefill * prefill + at.slopes.prefill_var + at.slopes.bend_var) /
                            (1 - std::min(0.999, lambda * lambda * prefill * prefill));
  const double slow_var = std::max(0.0, t_var - bursts_var);

  // Gaps as if the batch had no limit, and never longer than those of a full one. Beside what
  // processor sharing gives, bursts of fixed lengths end together as they came.
  const double load = std::min(out.rho, 1 - 1e-9);
  const double sharing = work.iterations * out.delta_ms / (1 - load);
  const double bursts = std::max(0.0, plain_cov / t - sharing);
  const double bent = 1 + std::min(1.0, iteration.knee_tokens / std::max(1.0, decoding));
  const double service = work.iterations * t + spread.tn_cov / t +
                         kFixedBursts * bent * std::max(0.0, 1 - work.length_cv2) * bursts;
  const double first = t + lambda * spread.next_cov / t + prefill;
  out.itl_ms = work.decodes > 0 ? std::clamp((service - first) / work.decodes, alpha,
                                             std::max(t, full_iteration))
                                : t;
  // The iteration that computes its prompt: as many others, and more of them where the iteration
  // that it met was long. One of the slots is its own.
  double own = t - (t - alpha) / limit.slots + lambda * spread.next_cov / t + prefill;
  own += at.slopes.bend * lambda * t_var * (1 / t + lambda / 2);

  LatencyLaw law;
  if (const auto budget = static_cast<double>(limits_.max_batched_tokens);
      budget > 0 && work.prefill > 0) {
    law.left = std::max(1.0, budget - decoding);
    const double seen = lambda * (t + t_var / t);
    const double base = own - prefill * (1 + seen);
    law.traffic = {.tokens = work.prefill,
                   .tokens_var = work.prefill_var,
                   .per_iteration = lambda * t,
                   .spread = lambda * t_var / t,
                   .per_full = std::min(lambda * (base + iteration.beta_ms * law.left),
                                        lambda / limit.budget_per_ms * law.left / work.prefill),
                   .per_seen = seen};
    law.line = prompt_line(law.traffic, law.left, lambda * spread.n_var);
    own = base * law.line.chunks + prefill * (1 + law.line.others / work.prefill);
    // Chunks spread what prompts add over several iterations.
    t_var = std::max(0.0, t_var - lambda * t * prefill * prefill * (1 - 1 / law.line.alone));
  }
  const double wait =
      lambda > 0 ? occupied.waiting / lambda * wait_factor(work, limit, iteration, share) : 0;
  // An idle engine begins at once: no rest of an iteration, nor those who would arrive in it.
  own = std::max(alpha, own - occupied.idle * lambda * prefill * alpha);
  out.iteration_ms = t;
  if (work.decodes > 0) {
    // Where long contexts are, there are more of all.
    const double with_them = spread.n_var > 0 ? spread.contexts_cov / spread.n_var : 0;
    out.itl_per_sequence_ms = at.slopes.decode + with_them;
  }
  out.wait_ms = wait + (t + t_var / t - occupied.idle * alpha) / 2;
  out.ttft_ms = *out.wait_ms + own;
  out.e2e_ms = *out.ttft_ms + work.decodes * *out.itl_ms;
  // The product of approximations may pass what a batch holds.
  out.concurrency = std::min(lambda * (own + work.decodes * *out.itl_ms),
                             static_cast<double>(limits_.max_num_seqs));
  out.throughput_per_s = rate_per_s;
  if (detail == Detail::kPercentiles) {
    law.rate_per_ms = lambda;
    law.idle = occupied.idle;
    law.full = occupied.full;
    law.full_wait = occupied.full > 0 ? wait / occupied.full : 0;
    law.alpha = alpha;
    law.iteration = t;
    law.slow_var = slow_var;
    law.full_iteration = full_iteration;
    law.most_others = limit.slots - 1;
    law.admitted = law.most_others / work.iterations;
    law.prefill = prefill;
    law.prefill_var = at.slopes.prefill_var;
    law.decode = at.slopes.decode;
    law.decodes = work.decodes;
    law.length_cv2 = work.length_cv2;
    law.linear_prefill = iteration.beta_ms * work.prefill + iteration.gamma_ms * work.touched +
                         iteration.per_request_ms;
    law.prompt_tokens = work.prefill;
    law.prompt_cv2 = work.prefill > 0 ? work.prefill_var / (work.prefill * work.prefill) : 0;
    law.beta = iteration.beta_ms;
    law.below_knee = std::max(0.0, iteration.knee_tokens - decoding);
    law.left_var = lambda * spread.n_var;
    law.decode_time_cv2 = kept_over_a_life(load) * slow_var / (t * t);
    add_percentiles(law, which, out);
  }
  out.out_of_range = range_of(limit.binding, share);
  if (out.out_of_range == OutOfRange::kNone) {
    // Longer requests are in the batch for longer, and hold more.
    const double contexts = std::sqrt((1 + work.length_cv2) / limit.slots);
    if (limit.binding == Binding::kKvTokens && contexts > kTrustedContexts) {
      out.out_of_range = OutOfRange::kMemoryBound;
    } else if (wait > kTrustedWait * *out.ttft_ms) {
      out.out_of_range = limit.binding == Binding::kKvTokens ? OutOfRange::kMemoryBound
                                                             : OutOfRange::kNearSaturation;
    }
  }
  if (out.out_of_range == OutOfRange::kNone && share > kTrustedMixed) {
    // A few long answers with long contexts make all of the batch slow for as long as they last.
    const double contexts = iteration.gamma_ms * work.decode_kv * decoding / t;
    if (contexts * std::sqrt((1 + work.length_cv2) / std::max(1.0, decoding)) > kTrustedContexts) {
      out.out_of_range = OutOfRange::kNearSaturation;
    }
  }
  if (out.out_of_range == OutOfRange::kNone && law.left > 0 &&
      prompts_queue(law.line, work.prefill, law.left, t_var / (t * t))) {
    out.out_of_range = OutOfRange::kPrefillDominated;
  }
  return out;
}

}  // namespace tailrace::queueing
