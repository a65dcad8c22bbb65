// What did a run's requests meet, who paid for it, and can the numbers be believed?
//
// A RunRecorder takes a run's records one by one, in memory that does not grow with them, and says
// what they add up to. Latencies are of completed requests behind the warm-up; throughput, counts
// and shares of time are of the whole run. One thread.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/report/latency_sketch.h"
#include "tailrace/simulate/experiment.h"
#include "tailrace/simulate/simulation.h"

namespace tailrace::simulate {

/// Percentiles are exact up to kExactMax values; of more they are read off buckets that grow by 2
/// %, within 1 %. Mean and maximum are exact.
struct Spread {
  std::uint64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
};

class SpreadCounter {
 public:
  static constexpr std::size_t kExactMax = 65'536;

  void add(double value);
  std::optional<Spread> spread() const;  ///< nothing if nothing was added
  const report::LatencySketch& sketch() const { return sketch_; }

 private:
  report::LatencySketch sketch_;
  std::vector<double> exact_;  ///< empty once there are too many
  double sum_ = 0;
};

/// How many requests end in which length, and when: rows by octave of the length, columns by time.
/// Columns double their width when time runs out of them, so any run fits.
class HeatCounts {
 public:
  static constexpr std::size_t kColumns = 48;
  static constexpr std::size_t kRows = 40;

  void add(std::int64_t length, double seconds);
  void merge(const HeatCounts& other);

  double column_seconds() const { return width_; }
  /// Until columns are at least so wide.
  void widen_to(double seconds);
  std::uint64_t at(std::size_t row, std::size_t column) const {
    return counts_[row * kColumns + column];
  }
  /// Row of a length: half octaves, 1, 2, 3, 4-5, 6-7, 8-11, …
  static std::size_t row_of(std::int64_t length);
  static std::int64_t least_of(std::size_t row);

 private:
  void widen();

  double width_ = 1.0 / 16;
  std::array<std::uint64_t, kRows * kColumns> counts_{};
};

/// Of values that come one by one.
struct Moments {
  std::uint64_t count = 0;
  double mean = 0, squares = 0;  ///< squares: sum about the mean

  void add(double value) {
    const double off = value - mean;
    mean += off / static_cast<double>(++count);
    squares += off * (value - mean);
  }
  double sd() const { return count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0; }
};

/// A workload before anybody serves it: what the program draws once per seed, so that classes,
/// warm-up and rates are the same for all who serve it.
struct WorkloadFacts {
  std::uint64_t requests = 0;
  std::uint64_t dropped = 0;  ///< rows of a trace that hold no answered request
  MonoTime first_arrival, last_arrival;
  std::optional<double> rate;  ///< requests per second between the two; nothing if all come at once
  double mean_length = 0;
  double p10 = 0, p50 = 0, p90 = 0, p99 = 0;
  std::int64_t longest = 0;
  double at_cap = 0;       ///< share whose length is their cap: cut there
  double most_common = 0;  ///< share of the most frequent single length
  Moments log_length;      ///< of requests whose law nobody knows (Request::truth)
  Moments mu, log_sigma;   ///< of the others, where it is a log-t
  /// Where each class but the last ends: quarters, the upper one split at 95 %. What has the last
  /// length belongs to the class whole, unless more than 1 % of the requests have it, such as a
  /// cap's; then `share` of them do, by their ids, and the classes keep their sizes.
  struct ClassEnd {
    std::int64_t length = 0;
    double share = 1;
  };
  std::array<ClassEnd, 4> class_ends{};
  /// 0 to 4, of a request.
  std::size_t class_of(std::int64_t length, std::uint64_t id) const;
  std::vector<std::pair<std::int64_t, std::uint64_t>>
      histogram;  ///< by half octave, from its least
};

/// Reads the whole workload once. Errors: those of make_workload.
Result<WorkloadFacts> describe_workload(const RunSpec& spec);

inline constexpr std::array<std::string_view, 5> kLengthClasses = {
    "shortest quarter", "second quarter", "third quarter", "75 to 95 %", "longest 5 %"};

/// Means over one class of requests.
struct ClassMeans {
  std::uint64_t count = 0;
  double e2e_s = 0, wait_s = 0, ttft_s = 0;
  double slow_down = 0;  ///< time in the system over the time alone on an idle engine
};

/// What nothing is known of is nothing, not 0: rates and shares of time of a run that took no time,
/// shares of requests where there were none.
struct RunResult {
  RunTotals totals;
  std::uint64_t measured = 0;  ///< completed behind the warm-up
  std::uint64_t foretold = 0;  ///< ordered by a law at last, of all
  std::optional<Spread> ttft, e2e, per_token, wait, itl;
  std::optional<double> seconds;  ///< simulated, from time 0 to the end; nothing if nobody came
  std::optional<double> requests_per_s, output_tokens_per_s, computed_tokens_per_s;
  std::optional<double> preemptions_per_request;
  std::optional<double> preempted_share;  ///< of completed requests
  /// Of the offered: what no engine could hold or the dispatcher refused, and what the horizon cut
  /// off.
  std::optional<double> refused, unfinished;
  /// Computed more than once; unknown where requests were cut off by the horizon.
  std::optional<double> recomputed_tokens;
  std::optional<double> utilisation;  ///< share of the engines' time that is in iterations
  std::optional<double> kv_share;
  std::optional<double> goodput;  ///< share of the offered, behind the warm-up, that met the SLO
  std::optional<double> rate;     ///< requests per second that came
  std::optional<double> load;     ///< over the maximum rate
  /// Share of the offered that were in no batch when the last one came: waiting for their first
  /// slot, or sent back.
  std::optional<double> waiting_at_last;
  /// That share is beyond 2 % and beyond 3/√n: more than a stable queue's fluctuation.
  bool overloaded = false;
  /// When so many had completed as are 30 % of all that came, the warm-up too: offline generation
  /// is judged by it. Nothing if fewer completed.
  std::optional<double> seconds_to_30_percent;
  std::optional<double> starved;  ///< share that waited over 10 times as long as they then ran
  std::array<ClassMeans, kLengthClasses.size()> classes;
  /// Kendall's, of predicted medians and lengths; nothing where all of either are the same.
  std::optional<double> tau;
  /// Share of lengths within their laws' central intervals of 50 and 90 % (PredictedPlace). Nothing
  /// without laws, or where every answer was cut at its cap.
  std::optional<double> within_50, within_90;
};

/// A metric by its name, for tables, JSON and comparisons.
struct Metric {
  std::string_view name;  ///< "ttft_s.p99"
  std::string_view help;
  /// Nothing where a run does not have it.
  std::optional<double> (*of)(const RunResult&);
  /// What it can be; intervals of its mean are cut there.
  double least = 0, most = std::numeric_limits<double>::infinity();
};
std::span<const Metric> metrics();

class RunRecorder {
 public:
  /// `facts` of the run's workload. All arguments are copied.
  RunRecorder(const RunSpec& spec, const WorkloadFacts& facts, double warm_up, const Slo& slo);

  void add(const RequestRecord& record);
  RunResult result(const RunTotals& totals) const;

  const report::LatencySketch& ttft() const { return ttft_.sketch(); }
  const report::LatencySketch& e2e() const { return e2e_.sketch(); }
  const report::LatencySketch& per_token() const { return per_token_.sketch(); }
  const HeatCounts& heat() const { return heat_; }

 private:
  void add_completed(const RequestRecord& record);
  void add_prediction(const RequestRecord& record);
  bool meets_slo(double ttft, double per_token, std::optional<double> itl) const;

  struct ClassSums {
    std::uint64_t count = 0;
    double e2e = 0, wait = 0, ttft = 0, slow_down = 0;
  };

  engine::EngineConfig engine_;
  int engines_;
  WorkloadFacts facts_;
  std::uint64_t first_measured_;
  Slo slo_;
  SpreadCounter ttft_, e2e_, per_token_, wait_, itl_;
  HeatCounts heat_;
  std::array<ClassSums, kLengthClasses.size()> classes_{};
  std::uint64_t offered_measured_ = 0, measured_ = 0, good_ = 0, starved_ = 0;
  std::uint64_t foretold_ = 0;
  std::uint64_t preempted_ = 0, completed_ = 0;
  std::int64_t needed_tokens_ = 0;
  std::optional<double> seconds_to_30_percent_;
  /// Every `stride_`-th request's predicted median and length.
  std::vector<double> predicted_, realised_;
  std::vector<std::uint64_t> ids_;
  std::uint64_t stride_ = 1;
  std::uint64_t placed_ = 0, placed_whole_ = 0;  ///< with a place; of them, not cut at the cap
  double within_50_ = 0, within_90_ = 0;
};

/// Seconds that a request would take alone on an idle engine.
double alone_s(const engine::EngineConfig& engine, Tokens prompt, Tokens output);

}  // namespace tailrace::simulate
