#include "queueing/token_budget.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "queueing/normal_terms.h"

namespace tailrace::queueing {
namespace {

/// E[max(0, prompts' tokens − room)] of a Poisson number of prompts.
Shortfall excess(const PromptTraffic& traffic, double prompts, double spread, double room,
                 double room_var) {
  Shortfall out;
  over_prompts(prompts, spread, [&](double share, double count, double count_var) {
    const double sd = std::sqrt(room_var + count * traffic.tokens_var +
                                count_var * traffic.tokens * traffic.tokens);
    const Shortfall part = shortfall(count * traffic.tokens - room, sd);
    out.mean += share * part.mean;
    out.share += share * part.share;
  });
  return out;
}

/// Mean backlog and the probability that there is one: sums over l of E[S_l⁺] / l and P(S_l > 0) /
/// l, where S_l is what l full iterations' arrivals exceed their budgets by.
struct Backlog {
  double mean = 0, share = 0;
};

Backlog backlog_of(const PromptTraffic& traffic, double left, double left_var) {
  Backlog out;
  double log_empty = 0;
  constexpr int kExact = 4;
  Shortfall last, full;
  for (int l = 1; l <= kExact; ++l) {
    last = excess(traffic, l * traffic.per_full, 0, l * left, l * l * left_var);
    if (l == 1) full = last;
    if (l == 1 && last.share < 1e-9) return out;
    const double weight = l < kExact ? 1.0 : 0.5;
    out.mean += weight * last.mean / l;
    log_empty += weight * last.share / l;
  }
  // Beyond, the sum is an integral over ln l.
  const double drift = traffic.per_full * traffic.tokens - left;
  const double variance = traffic.per_full * (traffic.tokens * traffic.tokens + traffic.tokens_var);
  constexpr double kStep = 0.25;
  const double growth = std::exp(kStep);
  double l = kExact;
  for (int step = 0; step < 80; ++step) {
    l *= growth;
    const Shortfall next = shortfall(l * drift, std::sqrt(l * variance));
    out.mean += 0.5 * kStep * (last.mean + next.mean);
    log_empty += 0.5 * kStep * (last.share + next.share);
    last = next;
    if (next.share < 1e-9) break;
  }
  // Iterations are full only while there is a backlog; what begins one is an iteration like others,
  // unless every single prompt leaves something over.
  const Shortfall first = excess(traffic, traffic.per_iteration, traffic.spread, left, left_var);
  const double several = std::clamp(1 - traffic.tokens / left, 0.0, 1.0);
  const auto as_rare = [several](double part, double whole) {
    return 1 - several * (1 - std::min(1.0, part / whole));
  };
  out.mean *= as_rare(first.mean, full.mean);
  out.share = 1 - std::exp(-log_empty * as_rare(first.share, full.share));
  // The decodes' number moves slowly: backlogs are long while it is high.
  const double off = std::min(0.7, std::sqrt(left_var) / std::max(-drift, 1e-12));
  out.mean /= 1 - off * off;
  return out;
}

}  // namespace

double iterations_of(double mean, double variance, double left, double left_var) {
  constexpr int kExact = 16;
  if (mean > kExact * left) return mean / left + 0.5;
  double sum = 1;
  for (int m = 1; m <= kExact + 8; ++m) {
    const double sd = std::sqrt(variance + m * m * left_var);
    const double share = share_above(mean - m * left, sd);
    sum += share;
    if (share < 1e-12) break;
  }
  return sum;
}

PromptLine prompt_line(const PromptTraffic& t, double left, double left_var) {
  PromptLine out;
  out.alone = iterations_of(t.tokens, t.tokens_var, left, left_var);
  const Backlog backlog = backlog_of(t, left, left_var);
  out.backlog = backlog.mean;
  out.backlog_share = backlog.share;
  // Without a backlog: those of the same iteration that came before it, uniform among them.
  double chunks = 0, seen = 0;
  over_prompts(0.5 * t.per_seen, 0, [&](double share, double count, double count_var) {
    const double variance = (1 + count) * t.tokens_var + count_var * t.tokens * t.tokens;
    chunks += share * iterations_of((1 + count) * t.tokens, variance, left, left_var);
    seen += share;
  });
  chunks /= seen;
  const double earlier = 0.5 * t.per_seen * t.tokens;
  double ahead = 0;
  if (backlog.share > 0) {
    const double waiting = backlog.mean / backlog.share + earlier + t.tokens;
    chunks += backlog.share * (std::max(1.0, waiting / left + 0.5) - chunks);
    ahead = backlog.mean;
  }
  out.chunks = chunks;
  // Those behind it count as far as they fill its last iteration.
  const double later = earlier + (chunks - 1) * t.per_full * t.tokens;
  const double room = std::max(0.0, chunks * left - ahead - earlier - t.tokens);
  out.others = ahead + earlier + (room > 0 ? later * room / (room + later) : 0);
  return out;
}

}  // namespace tailrace::queueing
