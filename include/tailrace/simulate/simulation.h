// What happens to every request when this workload meets these engines under this policy?
//
// A discrete-event simulation over the engine, the scheduler and the dispatcher that the other
// programs use; only clock and network are virtual. Events are ordered by (time, kind, sequence):
// at one instant answers end, then laws arrive, then requests, then dispatchers wake, and only then
// do iterations begin (docs/decisions/0011-simulation-order.md). Chance comes from named streams of
// one seed: same spec, same bytes, on any machine. Memory grows with the requests in the system,
// not with the workload. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/dispatch/dispatcher.h"
#include "tailrace/engine/engine_config.h"
#include "tailrace/engine/policy_scheduler.h"
#include "tailrace/simulate/predictor.h"
#include "tailrace/simulate/workload.h"

namespace tailrace::simulate {

struct FleetSpec {
  engine::EngineConfig engine;
  int engines = 1;
  enum class Line { kFcfs, kPriority, kPolicy };
  Line line = Line::kFcfs;                   ///< who orders the waiting line inside the engines
  engine::PolicySchedulerOptions scheduler;  ///< for kPolicy; `slots` is set from the engine
};

/// How requests reach the engines.
struct FrontSpec {
  /// A dispatcher as in the gateway: its queue holds what the engines have no slot for, and
  /// `dispatch.choice` picks among those that have. Without it every request goes to an engine as
  /// it arrives, by `choice`.
  bool queue = false;
  dispatch::DispatchConfig dispatch;
  int slots_per_engine = 0;  ///< 0: the engine's max_num_seqs
  enum class Choice {
    kRoundRobin,
    kLeastOutstanding,    ///< fewest requests sent there and not ended: always up to date
    kLeastPredictedWork,  ///< least sum of what their laws said at dispatch, else of their caps
    kPrefixAffinity,      ///< where its prefix's others are, unless that one holds too many
    /// Fewest running and waiting by the engines' last reports, `staleness` old; then the least
    /// KV. With `corrected_reports`, an engine counts for no less than what was sent there and has
    /// not ended.
    kLeastReported,
  };
  Choice choice = Choice::kRoundRobin;
  /// kLeastReported: engines report at whole multiples of this, all at once; 0: at every arrival.
  Duration staleness{0};
  bool corrected_reports = true;
  /// This engine's report stays what it was at the start: its metrics hang. −1: none.
  int frozen_engine = -1;
  /// kPrefixAffinity: ids at the start of a prompt that requests must share to go together. A
  /// session's requests always do.
  int prefix_depth = 2;
};

struct RunSpec {
  WorkloadSpec workload;
  FleetSpec fleet;
  FrontSpec front;
  PredictorSpec predictor;
  std::uint64_t seed = 1;
  /// Stops here, whatever is left; what happens at this very instant still counts. Else runs until
  /// all have ended.
  std::optional<double> horizon_s;
};

enum class End { kCompleted, kRefused, kUnfinished };

/// Where a realised length lies in the law that foretold it: that law's probabilities of less, and
/// of no more. Between the two lies the length's own: of a whole token; of all that is longer where
/// the answer was cut at its cap.
struct PredictedPlace {
  double below = 0, up_to = 1;

  /// The part of it between the law's quantiles `low` and `high`, 0 to 1. Over lengths that come
  /// from their laws its mean is high − low exactly, whatever the atoms.
  double within(double low, double high) const;
};

/// What became of a request. Its stages add up to its time in the system exactly: arrival ≤
/// dispatched ≤ admitted < first_token ≤ finished. What has not happened by its end is empty.
struct RequestRecord {
  std::uint64_t id = 0;
  End end = End::kUnfinished;
  MonoTime arrival;
  std::optional<MonoTime> dispatched;  ///< handed to an engine
  std::optional<MonoTime> admitted;    ///< first entered a batch
  std::optional<MonoTime> first_token;
  std::optional<MonoTime> finished;
  Tokens prompt{0}, cached{0}, output{0}, cap{0};  ///< cached: at the first admission
  int engine = -1;                                 ///< −1: never dispatched
  int preemptions = 0;
  std::string tenant;
  std::optional<double> predicted_median;  ///< of the law that it was ordered by last, tokens
  std::optional<PredictedPlace> predicted_place;  ///< of `output` under the same law
};

/// `offered` = `completed` + `refused` + `unfinished`. The averages are exact integrals over time,
/// from 0 to `end`.
struct RunTotals {
  std::uint64_t offered = 0, completed = 0, refused = 0, unfinished = 0;
  /// Preemptions and iterations begun, their tokens, and prompt tokens looked up in and found by
  /// the prefix cache.
  std::uint64_t preemptions = 0, iterations = 0;
  std::int64_t computed_tokens = 0, prefix_asked = 0, prefix_hit = 0;
  std::int64_t output_tokens = 0;  ///< of completed requests
  MonoTime last_arrival;
  /// In no batch when the last request came: not yet admitted, or sent back and not admitted again.
  std::uint64_t waiting_at_last = 0;
  MonoTime end;              ///< of the last request, or the horizon
  double busy_s = 0;         ///< engine-seconds in iterations
  double mean_waiting = 0;   ///< requests in the dispatcher's queue and in the engines' lines
  double mean_running = 0;   ///< requests in batches
  double mean_kv_share = 0;  ///< of usable blocks that sequences hold, over all engines
  /// Of the oldest report that each choice of an engine was made from; nothing where no choice was
  /// made from reports.
  std::optional<double> mean_report_age_s, max_report_age_s;
};

/// Called once for every request, in the order in which they end; unfinished ones at last, by id.
using RecordSink = std::function<void(const RequestRecord&)>;

/// Errors: kInvalidArgument naming the field, its value and what it may be, or when the run reaches
/// the end of the clock (292 years) without a horizon; those of a trace;
/// kResourceExhausted when more than 16 million requests are in the system. A request that no
/// engine could ever hold, or that the dispatcher refuses, is no error: it is a record.
Result<RunTotals> run(const RunSpec& spec, const RecordSink& sink);
/// The same over requests of the caller's own; of `spec.workload` only `lengths` counts, for the
/// predictor. Errors also: kInvalidArgument for a request that arrives before the one before it.
Result<RunTotals> run(const RunSpec& spec, Workload& workload, const RecordSink& sink);

}  // namespace tailrace::simulate
