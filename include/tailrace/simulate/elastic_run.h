// What happens to every request while engines come and go?
//
// A fleet of several kinds of engines behind one dispatcher, as in the gateway, and a scaler that
// is asked in every cycle, with what engines report, how many of each kind there should be. An
// engine that is added takes its start-up time to come; one that is removed gets no new requests,
// ends those it has, and is gone then. Without any engine requests wait. Events are in the order of
// time; at one instant iterations end, engines come, the scaler decides, requests arrive, the
// dispatcher assigns, iterations begin. Same spec and same scaler, same bytes. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/dispatch/dispatcher.h"
#include "tailrace/engine/engine_config.h"
#include "tailrace/simulate/simulation.h"
#include "tailrace/simulate/workload.h"

namespace tailrace::simulate {

/// One kind of engine.
struct ElasticVariant {
  std::string name;  ///< unique
  engine::EngineConfig engine;
  int slots = 0;    ///< requests that the dispatcher sends there at once; 0: max_num_seqs
  int initial = 1;  ///< engines that are ready at the start
  Duration startup = std::chrono::seconds(30);
};

/// Clients that each send a request, wait for its end, think, and send the next one.
struct ClosedLoop {
  int clients = 1;
  double think_s = 1;  ///< mean of an exponential time
};

struct ElasticSpec {
  std::vector<ElasticVariant> variants;
  WorkloadSpec workload;              ///< without sessions where `closed` is set
  std::optional<ClosedLoop> closed;   ///< then the workload's times of arrival do not count
  dispatch::DispatchConfig dispatch;  ///< policy and choice; its queue has no bound here
  double cycle_s = 15;
  /// Requests come, the scaler is asked and engines cost until then; those in the system end.
  double duration_s = 600;
  /// How long after it the last ones may take; who has not ended then is unfinished.
  double patience_s = 3'600;
  std::uint64_t seed = 1;
};

/// What an engine's metrics page says. Counters are since it began; of requests that ended, where
/// no other thing is said. TTFT is from the request's coming to the engine.
struct EngineReport {
  std::string name;  ///< "VARIANT-NUMBER"; numbers are never used again
  std::size_t variant = 0;
  MonoTime began;
  bool draining = false;
  std::uint64_t received = 0;  ///< handed to it, ended or not
  std::uint64_t completed = 0;
  double input_tokens = 0, input_squares = 0, output_tokens = 0, output_squares = 0;
  double ttft_s = 0;  ///< of the requests that have a first token
  std::uint64_t first_tokens = 0;
  double gap_s = 0;  ///< between tokens, over all that decode
  std::uint64_t gaps = 0;
  double running_s = 0;           ///< requests in the batch, integrated
  std::size_t running = 0;        ///< now
  std::size_t waiting = 0;        ///< in its line, now
  double kv_share = 0;            ///< of its memory, now
  std::uint64_t preemptions = 0;  ///< counter
};

struct VariantReport {
  int ready = 0;     ///< that take requests
  int starting = 0;  ///< on their way
  int draining = 0;
  std::optional<MonoTime> grew;  ///< when engines were last added
};

/// What the scaler sees.
struct FleetReport {
  MonoTime now;
  std::vector<VariantReport> variants;
  std::vector<EngineReport> engines;  ///< ready and draining ones, in the order of their coming
  std::uint64_t arrived = 0;          ///< at the dispatcher, since the start
  std::size_t waiting = 0;            ///< there, now
};

/// Engines wanted of each variant, draining ones not counted. Too few: those on their way go first,
/// the youngest first; then those with the fewest requests.
using Scaler = std::function<std::vector<int>(const FleetReport&)>;

struct ElasticTotals {
  std::uint64_t offered = 0, completed = 0, refused = 0, unfinished = 0;
  /// Of each variant, engines integrated from the decision that adds one to its end, until
  /// duration_s.
  std::vector<double> engine_s;
  MonoTime end;  ///< of the last request
};

/// Errors: kInvalidArgument naming the field, its value and what it may be; those of a trace;
/// kResourceExhausted when more than 16 million requests are in the system.
Result<ElasticTotals> run_elastic(const ElasticSpec& spec, const Scaler& scaler,
                                  const RecordSink& sink);

}  // namespace tailrace::simulate
