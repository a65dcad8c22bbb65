// What do requests of these lengths meet at one engine to which they come at a steady rate?
//
// The emulated engine alone: Poisson arrivals, first come first served, no dispatcher, no laws of
// single requests. What a formula for one replica says can be held against it, and it answers where
// the formula cannot. Same arguments, same bytes; chance comes from named streams of one seed, so
// that two rates meet the same requests. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/strong.h"
#include "tailrace/engine/engine_config.h"
#include "tailrace/queueing/service_model.h"

namespace tailrace::simulate {

/// Equally likely lengths, ascending, neither empty, all ≥ 1.
struct LengthTables {
  std::vector<std::int64_t> prompts, outputs;
  double correlation = 0;  ///< of the ranks of prompt and answer, as normal variables, −1 to 1
  /// Every so many requests as a table has rows have each of its lengths once, in random order:
  /// heavy tails then need far fewer requests. Means are the same; P99 near saturation comes out a
  /// few per cent low, since a run of long answers cannot last. Else requests are independent.
  bool in_turn = true;

  /// Their moments, at a rate: what a formula may know.
  queueing::Workload workload(double rate_per_s, double prefix_hit = 0) const;
};

/// Lengths with the workload's means, second and cross moments, whole and at least 1: log-normal
/// prompts, and answers that are log-t with 3.5 degrees of freedom, cut at 16 times their mean, as
/// the formula takes them (log-normal above a coefficient of variation of 3, which the cut does not
/// allow). Fixed where there is no variance.
LengthTables tables_for(const queueing::Workload& workload);

/// log-t (nu degrees of freedom, scale sigma) cut at `most_times` its mean, with that mean.
std::vector<std::int64_t> log_t_table(double mean, double nu, double sigma, double most_times);

struct ReplicaSpec {
  engine::EngineConfig engine;
  LengthTables lengths;
  double rate_per_s = 1;  ///< > 0
  /// Of each prompt this share, in whole blocks, is a beginning that all prompts have and the
  /// prefix cache holds. Turns the engine's prefix cache on.
  double prefix_hit = 0;
  /// Sequences that are in the middle of their answers when the first request comes, so that the
  /// engine need not fill up first.
  std::int64_t begin_with = 0;
  std::uint64_t seed = 1;
  std::size_t requests_min = 1'000, requests_max = 40'000;
  /// Stops between the two when the standard errors of mean TTFT and ITL are below this share of
  /// them, and that of P99 of TTFT below the other; 0: never early.
  double precision = 0, p99_precision = 0;
  std::uint64_t iterations_max = 50'000'000;  ///< stops there, whatever is left
};

/// Means and percentiles over requests; of the first fifth nothing counts.
struct ReplicaRun {
  std::size_t measured = 0;               ///< requests, all that came in their stretch of time
  double rate_per_s = 0;                  ///< at which they came, by chance not quite the asked one
  double ttft_ms = 0, ttft_error_ms = 0;  ///< the error: standard, from batch means
  double ttft_p99_error_ms = 0;           ///< likewise
  double itl_ms = 0, itl_error_ms = 0;    ///< of tokens: time after first tokens over such tokens
  double e2e_ms = 0, e2e_error_ms = 0;
  double wait_ms = 0;  ///< until the first iteration that computes it
  double iteration_ms = 0;
  double concurrency = 0;  ///< mean number in the batch, by Little's law
  /// ttft, e2e: of requests; itl: of single gaps between tokens, within 0.4 %. The gap of a
  /// preempted sequence lasts until its next token. Where the token budget does not reach all that
  /// decode, those that it passes over are not counted.
  queueing::Percentiles ttft_percentiles_ms, itl_percentiles_ms, e2e_percentiles_ms;
  std::uint64_t preemptions = 0, refused = 0;
  std::size_t waiting_end = 0;  ///< in the line when the last request came
};

/// Errors: kInvalidArgument (the engine's, or a rate that is not above 0); kUnsupported if no
/// engine of this kind could hold one of the requests, or too few end within `iterations_max`.
Result<ReplicaRun> run_replica(const ReplicaSpec& spec);

/// What one engine completes when requests never run out. A rate above it lets the line grow for
/// ever; at any rate below, the line empties again and again (the saturation rule).
struct Saturation {
  double rate_per_s = 0;
  double error_per_s = 0;  ///< standard
  double running = 0;      ///< mean number in the batch
  std::uint64_t preemptions = 0;
};

/// `rate_per_s`, `begin_with` and `precision` are ignored. Of an engine with more than some
/// thousand slots, and memory for more, that many are filled and the rest is extrapolated by the
/// fixed part of the iteration time. Errors: as run_replica().
Result<Saturation> saturate_replica(const ReplicaSpec& spec);

}  // namespace tailrace::simulate
