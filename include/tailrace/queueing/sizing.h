// At which rate does one replica still keep these latency targets, and how many replicas does that
// make?
//
// The largest rate at which every target holds, by monotone search over service_model.h. A target
// that no rate meets is an answer with a reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tailrace/queueing/service_model.h"

namespace tailrace::queueing {

/// What of its distribution a target binds. Other than the mean: corrected mode only.
enum class Statistic { kMean, kP50, kP90, kP95, kP99 };
std::string_view to_string(Statistic which);  ///< "mean", "p50", …

/// 0 is no target.
struct Targets {
  double ttft_ms = 0;
  double itl_ms = 0;
  double e2e_ms = 0;
  Statistic statistic = Statistic::kMean;  ///< of each target that has none of its own
  std::optional<Statistic> ttft_statistic = {}, itl_statistic = {}, e2e_statistic = {};

  friend bool operator==(const Targets&, const Targets&) = default;
};

/// What the rate ends at.
enum class SizingLimit { kNone, kTtft, kItl, kE2e, kStability };
std::string_view to_string(SizingLimit limit);

/// What the target of kTtft, kItl or kE2e binds.
Statistic statistic_of(const Targets& targets, SizingLimit limit);

struct Sizing {
  bool reachable = false;
  double rate_per_s = 0;        ///< lambda*; 0 where unreachable
  double throughput_per_s = 0;  ///< per-replica capacity: the rate less what the chain blocks
  SizingLimit limit = SizingLimit::kNone;
  /// At that rate; at the least rate where unreachable. Where only stability ends the rate, times
  /// that include the queue are given only if a target asked for one. No ITL without a second
  /// token.
  Latency achieved;
  /// The rate that each target alone would allow; empty where it is not set or not reachable.
  std::optional<double> ttft_rate_per_s, itl_rate_per_s, e2e_rate_per_s;
  /// Why the rate should not be trusted. Where latencies grow so fast with the rate that what the
  /// formula may be off by hardly moves it, that is nothing, although `achieved` is out of range.
  OutOfRange out_of_range = OutOfRange::kNone;
  std::string reason;  ///< one sentence for people
};

/// `workload.rate_per_s` is ignored. Where the formula is out of its range at its own answer and
/// the model has an oracle, up to eight simulations correct the rate (not the rates of each target
/// alone); where none confirms any rate the formula's answer stands, `achieved.from_oracle` false.
/// Latencies are taken to grow with the rate. Microseconds without an oracle. Errors: those of
/// check(), a negative or non-finite target, a percentile in a published mode, the oracle's.
Result<Sizing> size(const ServiceModel& model, const Workload& workload, const Targets& targets);

/// ceil(arrival / capacity), at least 1. Errors: kInvalidArgument; kResourceExhausted above 1e9.
Result<std::int64_t> replicas_for(double arrival_per_s, double capacity_per_s);

/// The latency at which iterations take k · alpha (specification 3.2).
struct SloFromMultiplier {
  double ttft_ms = 0, itl_ms = 0;
};
SloFromMultiplier infer_slo(const IterationModel& model, const Workload& workload, double k);

}  // namespace tailrace::queueing
