// What does the engine itself do at this rate, where no formula can say?
//
// queueing::LatencyOracle by simulation of the emulated engine: lengths of the workload's moments
// (tables_for), Poisson arrivals, a million requests at most. Memory that is full now and then
// makes rare long lines, of which a fifth of that may hold none or two. 0.1 to 1 s a question.
// A pure function of its arguments and the options' seed; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tailrace/core/result.h"
#include "tailrace/engine/engine_config.h"
#include "tailrace/queueing/service_model.h"

namespace tailrace::simulate {

struct OracleOptions {
  std::uint64_t seed = 1;
  std::size_t requests_max = 1'000'000;
  /// It stops early when the standard errors of the means, and of P99 of TTFT, are below these
  /// shares of them.
  double precision = 0.01, p99_precision = 0.04;
};

/// The engine that such a model describes: blocks of 16 tokens, chunked prefill, whole sequences
/// reserved, first come first served. The iteration that `iterations` adds is one more answer
/// token. Errors: those of EngineConfig::check.
Result<engine::EngineConfig> engine_of(const queueing::ServiceModel& model);
/// The model of an engine: its iteration time, knee included, and its limits.
queueing::ServiceModel service_model_of(const engine::EngineConfig& engine);

/// Its answers carry means and percentiles, from_oracle set. `stable`: below what the engine
/// completes when requests never run out, which is max_rate_per_s; unstable answers have no
/// latencies. Errors: those of check(); kUnsupported where requests are too long to simulate or
/// do not fit into memory.
std::shared_ptr<const queueing::LatencyOracle> make_latency_oracle(
    const OracleOptions& options = {});

}  // namespace tailrace::simulate
