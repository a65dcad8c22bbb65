// How long do an iteration and a request take on one replica, at a rate and for lengths known by
// their moments?
//
// The only place that turns (alpha, beta, gamma, lengths, rate) into TTFT, ITL or a rate: tuner,
// SLO resolution and sizing call it. Three modes: `closed-form` (specification sections 9.2 to
// 9.4), `chain` (the state-dependent birth-death chain that the specification's authors size with)
// and `corrected`, ours. Rates are requests per second, times milliseconds, lengths tokens. Pure
// functions: no state, no clock, any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "tailrace/core/result.h"

namespace tailrace::queueing {

/// An iteration that computes `tokens` and touches `kv` tokens of context takes
/// alpha + beta · max(0, tokens − knee) + gamma · kv + per_request · sequences.
/// The published modes know no knee and no cost per request.
struct IterationModel {
  double alpha_ms = 0;
  double beta_ms = 0;   ///< per token computed
  double gamma_ms = 0;  ///< per KV token touched
  double knee_tokens = 0;
  double per_request_ms = 0;

  friend bool operator==(const IterationModel&, const IterationModel&) = default;
};

/// First and second moments of what arrives at one replica. The published modes use the means only.
struct Workload {
  double rate_per_s = 0;
  double input_mean = 0;           ///< prompt tokens, ≥ 0
  double input_second_moment = 0;  ///< E[i²] ≥ input_mean²
  double output_mean = 0;          ///< answer tokens, ≥ 1
  double output_second_moment = 0;
  double cross_moment = 0;  ///< E[i · o]
  /// Share of prompt tokens that the prefix cache already holds: not computed, but touched.
  double prefix_hit = 0;

  /// Coefficients of variation 0 are fixed lengths; prompt and answer independent.
  static Workload of(double rate_per_s, double input_mean, double output_mean, double input_cv = 0,
                     double output_cv = 0);
  double output_cv() const;
  double input_cv() const;
};

struct ServiceLimits {
  std::int64_t max_num_seqs = 256;         ///< sequences in a batch, ≥ 1
  std::int64_t max_batched_tokens = 8192;  ///< tokens computed in one iteration; 0: no limit
  std::int64_t kv_tokens = 0;              ///< of context in memory; 0: no limit known
  std::int64_t max_queue = 100;            ///< `chain` only: who may wait beside the batch, ≥ 0

  friend bool operator==(const ServiceLimits&, const ServiceLimits&) = default;
};

enum class Mode { kClosedForm, kChain, kCorrected };
std::string_view to_string(Mode mode);  ///< "closed-form", "chain", "corrected"
/// Errors: kInvalidArgument naming the modes.
Result<Mode> parse_mode(std::string_view text);

/// Iterations that a request takes part in: the published forms count one prefill and one for each
/// token; in a vLLM-like engine the prefill's iteration makes the first token.
enum class Iterations { kOutputPlusOne, kOutput };

/// What limits the rate or keeps it from growing.
enum class Binding {
  kNone,
  kComputation,  ///< rho reaches 1
  kSequences,    ///< max_num_seqs
  kKvTokens,     ///< kv_tokens
  kTokenBudget,  ///< max_batched_tokens
};
std::string_view to_string(Binding binding);

/// Why the formula should not be trusted at this point (docs/queueing-model.md has the borders).
enum class OutOfRange {
  kNone,
  kNearSaturation,
  kPrefillDominated,  ///< prompts queue for the token budget
  kMemoryBound,       ///< sequences are sent back for want of memory
};
std::string_view to_string(OutOfRange reason);

struct Percentiles {
  double p50 = 0, p90 = 0, p95 = 0, p99 = 0;
};

/// Latencies are empty where the replica is not stable or the mode cannot say.
struct Latency {
  bool stable = false;
  double max_rate_per_s = 0;         ///< the mode's own limit: where queues stop being finite
  Binding binding = Binding::kNone;  ///< what sets max_rate_per_s
  double delta_ms = 0;  ///< work that a request adds to each iteration it takes part in
  double rho = 0;       ///< the mode's own utilisation
  std::optional<double> iteration_ms, ttft_ms, itl_ms, e2e_ms;
  std::optional<double> wait_ms;      ///< of TTFT, before the first iteration that computes it
  std::optional<double> concurrency;  ///< mean number in service
  /// By which an iteration grows with one more sequence that decodes in it; `corrected`.
  std::optional<double> itl_per_sequence_ms;
  std::optional<double> throughput_per_s;  ///< less than the rate where the chain's queue blocks
  /// TTFT and time in the system of single requests, ITL of single gaps between tokens; corrected
  /// mode only, and only where asked for.
  std::optional<Percentiles> ttft_percentiles_ms, itl_percentiles_ms, e2e_percentiles_ms;
  OutOfRange out_of_range = OutOfRange::kNone;
  bool from_oracle = false;  ///< the latencies are the oracle's, not the formula's
};

struct ServiceModel;

/// Does a request get a token after its first? Else there is no ITL, and what latency() gives is
/// how long such a token would take.
bool has_further_token(const ServiceModel& model, const Workload& workload);

/// Answers where formulas cannot: `simulate` implements it.
class LatencyOracle {
 public:
  virtual ~LatencyOracle() = default;
  /// Same arguments, same answer. Errors: kInvalidArgument, kUnsupported.
  virtual Result<Latency> latency(const ServiceModel& model, const Workload& workload) const = 0;
};

struct ServiceModel {
  Mode mode = Mode::kCorrected;
  IterationModel iteration;
  ServiceLimits limits;
  Iterations iterations = Iterations::kOutput;  ///< `corrected`; the published modes are output + 1
  std::shared_ptr<const LatencyOracle> oracle;  ///< may be null

  /// Errors: kInvalidArgument naming the field, its value and what it may be.
  Result<void> check() const;
};

/// Errors: kInvalidArgument naming the field, its value and what it may be (finite means, output ≥
/// 1, at most 1e9 tokens, and E[x²] of lengths that exist: from E[x]² to E[x]² + (E[x] − a)(1e9 −
/// E[x]), where a is 0 for input and 1 for output).
Result<void> check(const Workload& workload);

/// Moves second moments to the nearest that check() accepts: those of exporters come from buckets
/// and carry noise. Wrong means stay as they are.
void keep_possible_moments(Workload& workload);

enum class Detail { kMeans, kPercentiles };

/// Overload is an answer (`stable` false), never an error. Out of range the oracle is asked, where
/// there is one; if it cannot say (kUnsupported), the formula's answer stands. Errors: those of
/// check(), and the oracle's others.
Result<Latency> latency(const ServiceModel& model, const Workload& workload,
                        Detail detail = Detail::kMeans);

/// The same without checks and without the oracle, for callers in a loop who have checked.
Latency latency_unchecked(const ServiceModel& model, const Workload& workload, Detail detail);

}  // namespace tailrace::queueing
