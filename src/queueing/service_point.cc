#include "queueing/service_point.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "queueing/normal_terms.h"

namespace tailrace::queueing {
namespace {

/// Contexts are held in blocks of this size, the last one half empty.
constexpr double kBlockTokens = 16;
/// Of a request: an answer of one token behind a cached prompt computes none. Shorter prompts are
/// none, so that what is divided by their length stays finite.
constexpr double kLeastTokens = 1e-9;
/// Squared coefficient of variation at which a log-normal and a cut log-t do the same to the batch.
constexpr double kLogTFrom = 1.9;
/// Tokens computed again for each answer token while memory is full. Measured.
constexpr double kRecomputed = 0.95;

/// What an iteration's tokens lack to the knee: of one as it is, and of one with one more prompt.
struct KneeGap {
  Shortfall now, with_one_more;
};

/// Prompts come Poisson with mean `prefills`: up to kExact of them one by one, more of them
/// together as a normal.
KneeGap knee_gap(double knee, const RequestWork& work, double decoding, double prefills,
                 const Overdispersion& over) {
  KneeGap out;
  const double third = -third_moment(work.prefill, work.prefill_var);
  const auto short_of = [&](double prompts, double prompts_var, double more) {
    const double sd =
        std::sqrt(decoding * (1 + over.decodes) + (prompts + more) * work.prefill_var +
                  prompts_var * work.prefill * work.prefill);
    return shortfall(knee - decoding - (prompts + more) * work.prefill, sd,
                     (prompts + more) * third);
  };
  // With one more prompt it is what the next number has as it is.
  double known_of = -1;
  Shortfall known;
  over_prompts(prefills, over.prefills, [&](double share, double prompts, double prompts_var) {
    const bool exact = prompts_var <= 0;
    const Shortfall now = exact && prompts == known_of ? known : short_of(prompts, prompts_var, 0);
    const Shortfall more = short_of(prompts, prompts_var, 1);
    if (exact) known_of = prompts + 1, known = more;
    out.now.mean += share * now.mean;
    out.now.share += share * now.share;
    out.with_one_more.mean += share * more.mean;
    out.with_one_more.share += share * more.share;
  });
  return out;
}

/// What a slope leaves out at a point: the more prompts, the fewer of their tokens are free.
void bend(const IterationModel& m, const RequestWork& work, double decoding, double prefills,
          const Overdispersion& over, Slopes& slopes) {
  const double each = m.gamma_ms * work.touched + m.per_request_ms;
  // What is the same for any number of prompts is left out: squares of a large knee leave no digits
  // for what differs.
  const double same = std::max(0.0, m.knee_tokens - decoding);
  double mean = 0, square = 0;
  std::array<double, 2> known{};  // of the next two numbers
  double known_of = -1;
  over_prompts(prefills, over.prefills, [&](double share, double prompts, double prompts_var) {
    const auto short_of = [&](double count) {
      const double sd = std::sqrt(decoding * (1 + over.decodes) + count * work.prefill_var +
                                  prompts_var * work.prefill * work.prefill);
      return shortfall(m.knee_tokens - decoding - count * work.prefill, sd).mean;
    };
    const bool have = prompts_var <= 0 && prompts == known_of;
    const double none = have ? known[0] : short_of(prompts);
    const double one = have ? known[1] : short_of(prompts + 1);
    const double two = short_of(prompts + 2);
    if (prompts_var <= 0) known_of = prompts + 1, known = {one, two};
    slopes.bend += share * m.beta_ms * (two - 2 * one + none);
    const double added = each * prompts + m.beta_ms * (prompts * work.prefill + (none - same));
    const double slope = each + m.beta_ms * (work.prefill + one - none);
    mean += share * added;
    square += share * (added * added + slope * slope * prompts_var);
  });
  const double straight = (1 + over.prefills) * slopes.prefill * slopes.prefill;
  slopes.bend = std::max(0.0, slopes.bend);
  if (prefills > 0) {
    slopes.bend_var = std::max(0.0, (square - mean * mean) / prefills - straight);
  }
}

}  // namespace

RequestWork work_of(const ServiceModel& model, const Workload& w) {
  const double extra = model.iterations == Iterations::kOutputPlusOne ? 1 : 0;
  RequestWork work;
  work.iterations = w.output_mean + extra;
  work.decodes = work.iterations - 1;
  // Moments of the number of decodes D = o − 1 + extra.
  const double shift = extra - 1;
  const double d_square =
      std::max(0.0, w.output_second_moment + 2 * shift * w.output_mean + shift * shift);
  // No correlation is beyond 1, whatever the moments say.
  const double d_input = std::clamp(w.cross_moment + shift * w.input_mean, 0.0,
                                    std::sqrt(d_square * w.input_second_moment));
  const double computed = 1 - w.prefix_hit;
  work.prefill = computed * w.input_mean;
  work.prefill_var =
      computed * computed * std::max(0.0, w.input_second_moment - w.input_mean * w.input_mean);
  if (work.prefill < kLeastTokens) work.prefill = work.prefill_var = 0;
  work.touched = w.input_mean;
  work.touched_var = std::max(0.0, w.input_second_moment - w.input_mean * w.input_mean);
  const double decode_sum = d_input + (d_square + work.decodes) / 2;
  work.decode_kv = work.decodes > 0 ? decode_sum / work.decodes : 0;
  work.resident = (w.input_mean + decode_sum) / work.iterations;
  work.length_cv2 = std::max(0.0, w.output_second_moment - w.output_mean * w.output_mean) /
                    (work.iterations * work.iterations);
  // Ages vary by the third moment of the lengths. Of a log-normal, up to where a log-t cut at 16
  // times its mean, as percentiles take answers, has less. How long an age lasts is a fit to the
  // integral of exp(−s/2) over its autocovariance at s.
  const double square = 1 + work.length_cv2;
  const double unit = work.iterations * work.iterations;
  work.ages_var = unit * square * square * (square / 3 - 0.25);
  work.age_lasts = 2.17 * std::pow(work.length_cv2, 1.3);
  if (work.length_cv2 > kLogTFrom) {
    work.ages_var = unit * 3.3 * work.length_cv2;
    work.age_lasts = 4.2;
  }
  return work;
}

double iteration_ms(const IterationModel& m, const RequestWork& work, double decoding,
                    double prefills, const Overdispersion& over) {
  const double tokens = decoding + prefills * work.prefill;
  double above = tokens - m.knee_tokens;
  if (m.knee_tokens > 0) {
    above += knee_gap(m.knee_tokens, work, decoding, prefills, over).now.mean;
  }
  return m.alpha_ms + m.beta_ms * std::max(0.0, above) +
         m.gamma_ms * (decoding * work.decode_kv + prefills * work.touched) +
         m.per_request_ms * (decoding + prefills);
}

OperatingPoint operating_point(const IterationModel& m, const RequestWork& work, double rate,
                               const Overdispersion& over, double start, double most,
                               double precision) {
  const double prefill_base = m.gamma_ms * work.touched + m.per_request_ms;
  const double decode_base = m.gamma_ms * work.decode_kv + m.per_request_ms;
  OperatingPoint out;
  const double per_token_var = (m.beta_ms + m.gamma_ms) * (m.beta_ms + m.gamma_ms);
  out.slopes.prefill_var = per_token_var * work.prefill_var;
  const auto linear_load =
      rate * (prefill_base + m.beta_ms * work.prefill + work.decodes * (decode_base + m.beta_ms));
  if (m.knee_tokens <= 0) {
    out.slopes.prefill = prefill_base + m.beta_ms * work.prefill;
    out.slopes.decode = decode_base + m.beta_ms;
    out.iteration = linear_load < 1 ? std::min(most, m.alpha_ms / (1 - linear_load)) : most;
    return out;
  }
  // What the knee leaves out is the least that it lasts.
  const double base_load = rate * (prefill_base + work.decodes * decode_base);
  // The mean iteration is convex in itself, so Newton's steps lead to the root from below and from
  // above; its slope is of one more prompt. From the second step on what two points say is nearer.
  double t = std::max(start, std::min(most, m.alpha_ms / std::max(1e-3, 1 - base_load)));
  // So is what it lasts if every token but the knee's costs.
  if (linear_load < 1) {
    t = std::max(t, std::min(most, (m.alpha_ms - m.beta_ms * m.knee_tokens) / (1 - linear_load)));
  }
  double last = 0, last_value = 0;
  for (int step = 0; step < 50; ++step) {
    const double decoding = rate * work.decodes * t;
    const double prefills = rate * t;
    const KneeGap gap = knee_gap(m.knee_tokens, work, decoding, prefills, over);
    const double one_more = std::max(0.0, work.prefill + gap.with_one_more.mean - gap.now.mean);
    out.slopes.prefill = prefill_base + m.beta_ms * one_more;
    out.slopes.decode = decode_base + m.beta_ms * std::max(0.0, 1 - gap.now.share);
    const double per_token = m.beta_ms * std::max(0.0, 1 - gap.with_one_more.share) + m.gamma_ms;
    out.slopes.prefill_var = per_token * per_token * work.prefill_var;
    double slope = rate * (out.slopes.prefill + work.decodes * out.slopes.decode);
    const double above =
        std::max(0.0, decoding + prefills * work.prefill - m.knee_tokens + gap.now.mean);
    const double value =
        m.alpha_ms + m.beta_ms * above + prefill_base * prefills + decode_base * decoding;
    if (step > 0 && t != last) {
      if (const double secant = (value - last_value) / (t - last); secant < 1) slope = secant;
    }
    last = t;
    last_value = value;
    const double move = slope < 1 ? (value - t) / (1 - slope) : most;
    const double next = std::clamp(t + move, m.alpha_ms, most);
    const bool settled = std::abs(next - t) < precision * t;
    t = next;
    if (settled) break;
  }
  out.iteration = t;
  bend(m, work, rate * work.decodes * t, rate * t, over, out.slopes);
  return out;
}

RateLimit rate_limit(const IterationModel& m, const ServiceLimits& limits,
                     const RequestWork& work) {
  // At so many requests that an iteration finishes.
  const auto rate_at = [&](double requests) {
    return requests / iteration_ms(m, work, requests * work.decodes, requests, {});
  };
  RateLimit out;
  if (limits.kv_tokens > 0 &&
      static_cast<double>(limits.kv_tokens) < work.touched + work.iterations) {
    out.binding = Binding::kKvTokens;  // not even one of mean length fits, so none ends
    return out;
  }
  out.binding = Binding::kSequences;
  out.slots = static_cast<double>(limits.max_num_seqs);
  out.per_ms = rate_at(out.slots / work.iterations);
  if (limits.kv_tokens > 0) {
    const double held = work.resident + (kBlockTokens - 1) / 2;
    const double fit = std::max(1.0, static_cast<double>(limits.kv_tokens) / held);
    if (fit < out.slots) {
      out.slots = fit;
      out.binding = Binding::kKvTokens;
      // A full memory is filled with prompts, whose answers then have no room: who came last is
      // sent back and computed again. The more end in an iteration, the less.
      const double ending = fit / work.iterations;
      const double recomputed = kRecomputed * work.decodes / (1 + ending / 4);
      out.per_ms = 1 / (1 / rate_at(ending) + recomputed * (m.beta_ms + m.gamma_ms));
    }
  }
  if (limits.max_batched_tokens > 0) {
    const double tokens = std::max(work.prefill + work.decodes, kLeastTokens);
    out.budget_per_ms = rate_at(static_cast<double>(limits.max_batched_tokens) / tokens);
    if (out.budget_per_ms < out.per_ms) {
      out.per_ms = out.budget_per_ms;
      out.binding = Binding::kTokenBudget;
    }
  }
  return out;
}

}  // namespace tailrace::queueing
