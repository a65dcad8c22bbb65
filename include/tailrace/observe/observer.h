// What does each pod of each variant do now, by which metric, and how old is that?
//
// The Observer turns series into readings: it knows the names that each engine gives to a quantity
// (observe/engine_tables.h), makes rates of counters across restarts, means, second moments and
// quantiles of histograms, and matches pods with the variants that are expected. What was not
// matched, not there, too old or contradictory is a Condition that names it; nothing missing is
// ever a zero. Pure: the caller brings the series and the time. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/observe/source.h"

namespace tailrace::observe {

enum class EngineKind { kVllm, kSglang, kTensorRtLlm, kLlamaCpp };
std::string_view to_string(EngineKind kind);

enum class Freshness { kFresh, kStale, kUnavailable };
std::string_view to_string(Freshness freshness);

/// A number, finite and at least 0, with its age; without a value the reason why there is none.
struct Measured {
  std::optional<double> value;
  double age_s = 0;       ///< of the newest point that it is made from
  std::string metric;     ///< the series' name that it came from
  std::string missing;    ///< why there is no value
  bool at_least = false;  ///< the true value may be larger: a quantile beyond the last bucket
  /// It has no value because its exporter says one that no such quantity can have.
  bool unbelievable = false;
};

/// Of a histogram of lengths: how many of the window's were at most `upper` tokens.
struct LengthBucket {
  double upper = 0;  ///< inclusive; the last may be infinite
  double cumulative = 0;

  friend bool operator==(const LengthBucket&, const LengthBucket&) = default;
};

/// One engine process over the window. Rates are per second, times milliseconds, lengths tokens.
struct PodReading {
  std::string pod;       ///< "llama-7c9f" or, with several engines in a pod, "llama-7c9f:8001"
  std::string replica;   ///< the pod alone
  bool expected = true;  ///< its pod is one of the variant's expected ones
  EngineKind engine = EngineKind::kVllm;
  Freshness freshness = Freshness::kUnavailable;
  double time_s = 0;  ///< of its newest point
  /// Requests arriving: what a gateway sent to it where one tells, else what it completed and by
  /// how much the number inside it grew. Completions alone say nothing of demand once it is full.
  Measured rate;
  Measured completed;                    ///< requests completed in the window
  Measured input_tokens, output_tokens;  ///< means
  /// Where the engine has histograms of lengths: what second moments are made from.
  std::vector<LengthBucket> input_buckets, output_buckets;
  Measured ttft_ms, itl_ms, ttft_p99_ms, itl_p99_ms;
  /// By which a gap between tokens grows with one more stream, as a share of the gap, and the
  /// standard error of that as a share of it, as gateways see them: an engine may send several
  /// tokens at once, so that their gaps are not its own. Unknown where noise hides the growth.
  Measured itl_per_stream_ratio, itl_per_stream_error;
  Measured running;  ///< mean over the window
  Measured waiting;  ///< newest
  Measured kv_usage, kv_tokens, prefix_hit;
};

struct ExpectedPod {
  std::string name;
  std::string address;  ///< "10.1.2.3", or "127.0.0.1:8001" where several share one; may be empty
};

/// A variant as discovery or the configuration has it.
struct ExpectedVariant {
  std::string ns;  ///< may be empty, as outside of a cluster: then any
  std::string model, name;
  /// The model's name in metrics where it differs (a served alias, LoRA adapters of the base).
  std::vector<std::string> model_aliases;
  EngineKind engine = EngineKind::kVllm;
  std::vector<ExpectedPod> pods;
};

/// What a gateway says of a model: what has arrived, and what waits where no engine sees it. One
/// for each of its processes.
struct GatewayReading {
  std::string kind;  ///< "tailrace gateway", "llm-d endpoint picker"
  std::string ns;    ///< the gateway's own; may be empty
  std::string model, instance;
  Freshness freshness = Freshness::kUnavailable;
  Measured arrivals_per_s;  ///< those turned away for want of room included
  Measured relayed_per_s;   ///< that generate nothing, such as embeddings; not in `arrivals_per_s`
  Measured waiting_requests;
  Measured waiting_tokens;  ///< that the waiting ones are predicted to generate
  Measured input_tokens, output_tokens, input_cv, output_cv;
};

enum class ConditionKind {
  kSourceFailed,     ///< nothing could be read
  kSeriesMissing,    ///< a quantity has no series under any known name
  kLabelMismatch,    ///< series are there, but none of them is of an expected pod or model
  kUnmatchedSeries,  ///< this pod's series belong to no expected variant
  kPodMissing,       ///< an expected pod reports nothing
  kStale,
  kUnavailable,
  kCounterReset,
  kClockSkew,
  kContradiction,
  kLimit,  ///< more than is remembered or listed
};
std::string_view to_string(ConditionKind kind);

struct Condition {
  ConditionKind kind = ConditionKind::kSourceFailed;
  std::string subject;  ///< namespace/variant, pod, series or target
  std::string message;  ///< one sentence with the remedy
};

struct VariantReading {
  std::string ns, model, name;
  /// In the order of the expected ones, then others by name: those whose series carry the
  /// variant's label, such as surge pods.
  std::vector<PodReading> pods;
  std::vector<std::string> silent;  ///< expected pods that report nothing, or nothing since long
};

struct Reading {
  double time_s = 0;
  double window_s = 0;                   ///< that rates and means are of
  std::vector<VariantReading> variants;  ///< in the order of the expected ones
  std::vector<GatewayReading> gateways;
  std::map<std::string, std::size_t> unmatched;  ///< by namespace: pods of no expected variant
  std::vector<Condition> conditions;
};

struct ObserverConfig {
  double window_s = 60;        ///< that rates and means are taken over
  double fresh_s = 60;         ///< younger is fresh
  double unavailable_s = 300;  ///< older is unavailable: facts/queueing 2.4
  /// How long a pod may say nothing, or be of no variant, since it was first heard of, before that
  /// is a condition: a scrape may not have come yet, nor discovery.
  double grace_s = 0;
  std::size_t series_max = 1'000'000;
  std::size_t points_max = 1'000;  ///< of one series
  std::size_t conditions_max = 1'000;
};

class Observer {
 public:
  explicit Observer(const ObserverConfig& config);
  Observer(Observer&&) noexcept;
  Observer& operator=(Observer&&) noexcept;
  ~Observer();

  /// The series that readings of these engines are made from.
  static std::vector<std::string> names_of(std::span<const EngineKind> engines);

  /// Adds what was fetched to what is remembered, and says what is known at `now_s`, which does not
  /// decrease. A failed fetch adds nothing: readings get older.
  Reading read(double now_s, const Fetched& fetched, std::span<const ExpectedVariant> expected);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tailrace::observe
