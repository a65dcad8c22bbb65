// In what order do waiting jobs deserve the next free slot?
//
// A Policy turns a job into a key; the smallest key goes first. Keys are static: a job's key
// changes only when the job changes (a prediction arrives) or the policy's own state steps (TIE's
// adaptive beta), never because time passes. Where all waiting jobs age at one rate, ageing is a
// constant added per arrival (TIE's decay 0.9^(wait/30 s) is ln(score) + arrival ·
// ln(1/0.9)/30 s).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/schedule/job.h"

namespace tailrace::schedule {

enum class TieVariant {
  kPaper,  ///< the text of the paper: the request's own cap, beta of this moment, decay, no noise
  /// The code published with it (facts/scheduling.md 1.4): 10,000 draws for each term, mean capped
  /// at 2028 and CVaR at 2048, a whole score of at least 1, beta of the moment in which the
  /// prediction came; without a prediction the score is 2048.
  kReleasedCode,
};

/// The fields of a policy begin with its name where they are its own.
struct PolicyOptions {
  double cvar_level = 0.9;
  double beta_min = 0.1, beta_max = 0.5, beta_slope = 0.1;  ///< TIE Eq. 12
  double beta_bucket = 0.05;         ///< adaptive beta moves in steps of this, with hysteresis
  std::optional<double> fixed_beta;  ///< instead of the adaptive one
  double decay = 0.9;                ///< TIE's waiting decay per `decay_period`; 1 switches it off
  Duration decay_period = std::chrono::seconds(30);
  TieVariant tie_variant = TieVariant::kPaper;
  std::uint64_t tie_seed = 0;  ///< of the draws of kReleasedCode
  /// mean, tie: E[L] without the cap, as one row of TIE's ablation has it for log-normal laws. It
  /// may be infinite and is for log-t: a law without a finite one in closed form (log-t, bins,
  /// mixtures, Lomax of shape 1 or less) then counts as no prediction does.
  bool uncapped_mean = false;

  /// gittins: the least service that a rank reckons with. From 16 tokens on a wide law is never
  /// ranked by its chance to end at once.
  Tokens gittins_quantum{16};
  /// gittins: what a token of context adds to the cost of the next one. A rank is multiplied by
  /// 1 + weight · (prompt + attained); 0: memory costs nothing.
  double gittins_context_weight = 0;
  /// gittins: the wait for an answer of L tokens counts for L^−exponent. 0: the Gittins rank, which
  /// is for mean latency; 1: for latency per token. docs/beyond-tie.md tells what lies between.
  /// Unset here and below: by where the policy stands (GittinsDefaults).
  std::optional<double> gittins_length_exponent;
  /// gittins: what computing a token of context at a job's admission costs, in tokens generated. A
  /// preempted job's context counts again, its answer so far included.
  std::optional<double> gittins_prefill_weight;
  std::optional<double> gittins_decay;  ///< gittins: as `decay`; 1 switches ageing off

  /// ssjf: the longest-waiting job goes first once it has waited so long, or so many times what it
  /// is expected to run for at `ssjf_token_time` a token.
  Duration ssjf_starving_wait = std::chrono::seconds(100);
  double ssjf_starving_times = 10;
  Duration ssjf_token_time = std::chrono::milliseconds(25);

  bool ltr_preemptive =
      false;  ///< ltr: its score orders the running jobs too, as in its own engine
  /// ltr, mlfq: a job left idle for so many iterations is put before all others and runs protected
  /// for `starvation_runs` iterations; 0: none is. Unset: 0 for ltr (200 in its fairness study),
  /// 120 for mlfq (3 s).
  std::optional<std::int64_t> starvation_idle;
  std::optional<std::int64_t> starvation_runs;  ///< unset: 10 for ltr, 100 for mlfq

  Tokens mlfq_quantum{16};  ///< mlfq: service that a job gets in its first level
  double mlfq_growth = 2;   ///< mlfq: each level's quantum over that of the level above; ≥ 1

  /// trail: a job may be preempted only until it has attained this share of its first prediction.
  double trail_preemptible = 0.8;
  Tokens elis_interval{50};  ///< elis: predicts anew each time so many tokens have come
};

/// What gittins goes by where its options leave it open.
struct GittinsDefaults {
  double length_exponent;
  double prefill_weight;
  double decay;
};
/// Where running jobs can be displaced: docs/beyond-tie.md tells how they were found.
inline constexpr GittinsDefaults kGittinsInEngines{0.85, 0.6, 0.835};
/// Where a job that has been let in keeps its slot to the end: docs/policies.md.
inline constexpr GittinsDefaults kGittinsInFront{0, 0.1, 0.84};

/// What a policy has to know of a job, in tokens (tokens² for `ratio`, what orders deadlines for
/// `edf`). It changes only when the job does, so a queue keeps it, and a step of the policy's state
/// re-keys without evaluating a law.
struct Appraisal {
  double size = 0;  ///< the expected, median or relative length, or the rank of what is left
  double tail = 0;  ///< TIE: the mean of the worst 1 − level; 0 where the policy does not ask
};

/// The key of one job as it grows older in a batch: what an age-aware policy asks of running jobs.
/// It must not outlive its policy.
class AgeKey {
 public:
  virtual ~AgeKey() = default;
  /// The key that the job would have with so many tokens generated, on the scale of Policy::key.
  virtual double at(Tokens attained) const = 0;
  /// Whether a job that has attained so much runs to its end, whoever waits.
  virtual bool protected_at(Tokens attained) const {
    (void)attained;
    return false;
  }
};

/// When a job has been left idle for too long, in engine iterations (starvation.h counts them).
struct StarvationRule {
  std::int64_t idle_iterations = 1;  ///< ≥ 1: then it goes before all that have not starved
  std::int64_t run_iterations = 1;   ///< ≥ 1: and stays so until it has run for so many
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

  /// Whether a job that waits since `arrival` has waited for too long under the policy's own rule.
  /// A queue asks of the longest-waiting job and serves it first, whatever its key, if so. Once
  /// true it stays true as time passes.
  virtual bool starves(const Appraisal& appraisal, MonoTime arrival, MonoTime now) const {
    (void)appraisal;
    (void)arrival;
    (void)now;
    return false;
  }
  /// The same where an engine's iterations are what counts; nothing for most policies.
  virtual std::optional<StarvationRule> starvation_rule() const { return std::nullopt; }

  /// One line for people: the inputs, the rule and the value of this job's key.
  virtual std::string explain(const Job& job) const = 0;
};

/// Any policy by its name; docs/policies.md tells them apart. All take the answer's law capped at
/// the job's own limit. What is unset of gittins is `kGittinsInEngines`. An object and its age keys
/// belong to one thread. Errors: kInvalidArgument naming the policy or the option, and what is
/// allowed.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name,
                                            const PolicyOptions& options = {});
/// The same for a queue in front of engines, which sees waiting jobs alone: what is unset of
/// gittins is `kGittinsInFront`. Refuses the others with a message that says where they belong.
Result<std::unique_ptr<Policy>> make_waiting_policy(std::string_view name,
                                                    const PolicyOptions& options = {});

/// Those that make sense for waiting jobs: "fcfs" (arrival), "mean" (E, known as SEPT), "median",
/// "ratio" (E[L]/E[1/L]), "tie" (E + beta·CVaR, beta by load, waiting decay), "gittins" (the rank
/// of what is left at the tokens attained), "wspt" (E over the weight), "edf" (deadline, then E).
std::vector<std::string_view> policy_names();
/// Those for engines and simulation: "sjf" (oracle: E of a law that is the true length), "ssjf" (E,
/// unless the longest-waiting job starves), "ltr" (score, idle iterations), "las" (attained),
/// "mlfq" (levels of attained), "trail" (mean residual until a share of the first prediction, then
/// absolute), "elis" (mean residual, anew every 50 tokens).
std::vector<std::string_view> batch_policy_names();

/// TIE Eq. 12: min(max, max(min, slope · waiting / slots)); with no slots the load counts as
/// endless.
double adaptive_beta(std::size_t waiting, std::size_t slots, const PolicyOptions& options = {});

/// The beta in force after `current` when Eq. 12 asks for `wanted`: a multiple of the bucket above
/// beta_min, or beta_max; it stays until `wanted` is three quarters of a step away.
double step_beta(double current, double wanted, const PolicyOptions& options = {});

}  // namespace tailrace::schedule
