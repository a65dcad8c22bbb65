// What happens to every request when this workload meets these engines under this policy?
//
// A discrete-event simulation over the engine, the scheduler and the dispatcher that the other
// programs use; only clock and network are virtual. Events are ordered by (time, kind, sequence),
// chance comes from named streams of one seed: same spec, same bytes, on any machine. Memory grows
// with the requests in the system, not with the workload. One thread.
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
  /// A dispatcher as in the gateway: its queue holds what the engines have no slot for. Without it
  /// every request goes to an engine as it arrives.
  bool queue = false;
  dispatch::DispatchConfig dispatch;
  int slots_per_engine = 0;  ///< 0: the engine's max_num_seqs
  enum class Choice { kRoundRobin, kLeastOutstanding, kLeastPredictedWork, kPrefixAffinity };
  Choice choice = Choice::kRoundRobin;  ///< without a queue
  Duration staleness{0};                ///< age of what the choice knows of the engines
};

struct RunSpec {
  WorkloadSpec workload;
  FleetSpec fleet;
  FrontSpec front;
  PredictorSpec predictor;
  std::uint64_t seed = 1;
  std::optional<double>
      horizon_s;  ///< stops here, whatever is left; else runs until all have ended
};

enum class End { kCompleted, kRefused, kUnfinished };

struct RequestRecord {
  std::uint64_t id = 0;
  End end = End::kUnfinished;
  MonoTime arrival;
  MonoTime dispatched;  ///< handed to an engine
  MonoTime admitted;    ///< first entered a batch
  std::optional<MonoTime> first_token;
  std::optional<MonoTime> finished;
  Tokens prompt{0}, cached{0}, output{0}, cap{0};  ///< cached: at the first admission
  int engine = -1;
  int preemptions = 0;
  std::string tenant;
  std::optional<double> predicted_median;  ///< of the law it was ordered by, tokens
};

struct RunTotals {
  std::uint64_t offered = 0, completed = 0, refused = 0, unfinished = 0;
  std::uint64_t preemptions = 0, iterations = 0;
  std::int64_t computed_tokens = 0, output_tokens = 0, prefix_asked = 0, prefix_hit = 0;
  MonoTime last_arrival, end;
  double busy_s = 0;         ///< engine-seconds in iterations
  double mean_waiting = 0;   ///< time average of requests that wait, over the run
  double mean_running = 0;   ///< of those in batches
  double mean_kv_share = 0;  ///< of usable blocks that sequences hold
};

/// Called once for every request, when it has ended, in the order in which they end.
using RecordSink = std::function<void(const RequestRecord&)>;

/// Errors: kInvalidArgument naming the field, its value and what it may be; those of a trace.
Result<RunTotals> run(const RunSpec& spec, const RecordSink& sink);

}  // namespace tailrace::simulate
