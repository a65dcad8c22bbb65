// In what order do waiting jobs deserve the next free slot?
//
// A Policy turns a job into a key; the smallest key goes first. Keys are static: a job's key
// changes only when the job changes (a prediction arrives) or the policy's own state steps (TIE's
// adaptive beta), never because time passes. Where all waiting jobs age at one rate, ageing is a
// constant added per arrival (TIE's decay 0.9^(wait/30 s) is ln(score) + arrival ·
// ln(1/0.9)/30 s).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/schedule/job.h"

namespace tailrace::schedule {

struct PolicyOptions {
  double cvar_level = 0.9;
  double beta_min = 0.1, beta_max = 0.5, beta_slope = 0.1;  ///< TIE Eq. 12
  double beta_bucket = 0.05;         ///< adaptive beta moves in steps of this, with hysteresis
  std::optional<double> fixed_beta;  ///< instead of the adaptive one
  double decay = 0.9;                ///< TIE's waiting decay per `decay_period`; 1 switches it off
  Duration decay_period = std::chrono::seconds(30);
  /// gittins: the least service that a rank reckons with. From 16 tokens on a wide law is never
  /// ranked by its chance to end at once.
  Tokens quantum{16};
  /// gittins: what a token of context adds to the cost of the next one. A rank is multiplied by
  /// 1 + context_weight · (prompt + attained); 0: memory costs nothing.
  double context_weight = 0;
  double rank_decay = 1;  ///< gittins: as `decay`; 1, the default, switches ageing off
};

/// What a policy has to know of a job's length, in tokens (tokens² for `ratio`). It changes only
/// when the job does, so a queue keeps it, and a step of the policy's state re-keys without
/// evaluating a law.
struct Appraisal {
  double size = 0;  ///< the expected, median or relative length
  double tail = 0;  ///< TIE: the mean of the worst 1 − level; 0 where the policy does not ask
};

/// The key of one job as it grows older in a batch: what an age-aware policy asks of running jobs.
/// Immutable, so many may share what it was computed from.
class AgeKey {
 public:
  virtual ~AgeKey() = default;
  /// The key that the job would have with so many tokens generated, on the scale of Policy::key.
  virtual double at(Tokens attained) const = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string_view name() const = 0;

  /// Nothing where the key does not depend on what a job has attained: such a policy never
  /// displaces a running job. The keys of one that does are logarithms, so that a difference of
  /// ln 2 means twice the rank. Building an AgeKey may cost some tens of microseconds.
  virtual std::unique_ptr<AgeKey> age_key(const Job& job) const {
    (void)job;
    return nullptr;
  }

  /// Evaluates the job's law. A job without one counts as long as its own cap allows (TIE, section
  /// 3), which puts it behind every job whose prediction says less.
  virtual Appraisal appraise(const Job& job) const = 0;
  /// The key, now, of a job appraised so. Never NaN. One logarithm at most.
  virtual double key(const Appraisal& appraisal, MonoTime arrival) const = 0;
  double key_of(const Job& job) const { return key(appraise(job), job.arrival); }

  /// Tells the policy how loaded its pool is: jobs waiting and the sum of its backends' slot
  /// limits. Returns true when that changed the order of jobs, so that keys must be computed anew.
  /// Without slots nothing can be said about the load, and the state stays.
  virtual bool set_load(std::size_t waiting, std::size_t slots) {
    (void)waiting;
    (void)slots;
    return false;
  }

  /// One line for people: the inputs, the rule and the value of this job's key.
  virtual std::string explain(const Job& job) const = 0;
};

/// "fcfs" (arrival), "mean" (E, known as SEPT), "median", "ratio" (E[L]/E[1/L]), "tie" (E +
/// beta·CVaR with beta by load and waiting decay) and "gittins" (the rank of what is left at the
/// tokens attained), all of the answer's law capped at the job's own limit. Errors:
/// kInvalidArgument naming the policy or the option, and what is allowed.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name,
                                            const PolicyOptions& options = {});
std::vector<std::string_view> policy_names();

/// TIE Eq. 12: min(max, max(min, slope · waiting / slots)); with no slots the load counts as
/// endless.
double adaptive_beta(std::size_t waiting, std::size_t slots, const PolicyOptions& options = {});

/// The beta in force after `current` when Eq. 12 asks for `wanted`: a multiple of the bucket above
/// beta_min, or beta_max; it stays until `wanted` is three quarters of a step away.
double step_beta(double current, double wanted, const PolicyOptions& options = {});

}  // namespace tailrace::schedule
