// What came out of an experiment, run by run and over seeds?
//
// Runs go to several threads; results are put together in the order of the grid, so the outcome is
// the same on one thread and on many. Memory grows with cells and runs, not with requests.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/report/summary.h"
#include "tailrace/simulate/experiment.h"
#include "tailrace/simulate/results.h"

namespace tailrace::simulate {

/// The most that a fleet serves of a workload, and how that was found: `requests` of it come all at
/// once, to engines that serve in arrival order, dealt out in turn, without predictions. Between
/// the end of the first fifth and that of the fourth the queue is never empty and batches have
/// settled; the rate of completions in between is the maximum rate.
struct Capacity {
  double per_second = 0;
  std::uint64_t requests = 0;  ///< 20 for each of the fleet's slots, from 2,000 to 200,000
  double seconds = 0;          ///< simulated, of the stretch that counted
};
Result<Capacity> measure_capacity(const RunSpec& spec);

struct CellResult {
  std::optional<std::size_t> capacity;         ///< an index into ExperimentResult::capacities
  std::optional<double> maximum_rate;          ///< measured or given
  WorkloadFacts facts;                         ///< of the first seed
  std::vector<RunResult> runs;                 ///< one per seed, in their order
  report::LatencySketch ttft, e2e, per_token;  ///< of all seeds
  HeatCounts heat;

  /// The mean over seeds of a metric, its interval cut at what the metric can be; nothing where a
  /// run lacks it.
  std::optional<report::Interval> mean(const Metric& metric) const;
  bool overloaded() const;  ///< in more than half of the runs
  /// "overloaded"; "refusing", where a request was refused in any run; both; "unknown", where none
  /// completed in any run; else "stable".
  std::string_view verdict() const;
};

/// The geometric mean over seeds of a metric's ratio, this cell's over the other's.
std::optional<report::Interval> ratio(const CellResult& cell, const CellResult& baseline,
                                      const Metric& metric);

struct ExperimentResult {
  std::vector<Capacity> capacities;
  std::vector<CellResult> cells;  ///< as in the experiment
};

/// Where single requests go, if anybody wants them. One part per run.
class RequestLog {
 public:
  class Part {
   public:
    virtual ~Part() = default;
    virtual void add(const RequestRecord& record) = 0;
  };

  virtual ~RequestLog() = default;
  /// For a run that begins. Any thread.
  virtual Result<std::unique_ptr<Part>> begin(std::size_t cell, std::uint64_t seed) = 0;
  /// It has ended. One call at a time, in the order of the grid.
  virtual Result<void> end(std::unique_ptr<Part> part) = 0;
};

struct Progress {
  std::string_view what;  ///< "maximum rates", "workloads", "runs"
  std::size_t done = 0;
  std::size_t of = 0;
  std::uint64_t requests = 0;  ///< ended so far, in all runs
};

struct RunOptions {
  std::size_t jobs = 1;  ///< threads, ≥ 1
  RequestLog* requests = nullptr;
  /// Called from the caller's thread several times a second.
  std::function<void(const Progress&)> progress;
};

/// Errors: what simulate::run says of a cell, with the cell's name before it; those of the log.
Result<ExperimentResult> run_experiment(const Experiment& experiment, const RunOptions& options);

}  // namespace tailrace::simulate
