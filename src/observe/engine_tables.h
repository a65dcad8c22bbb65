// Under which names does each engine, and each gateway, export a quantity?
//
// One table per engine. A quantity has its series in order of preference: today's name first, then
// those of older releases. What a series is (counter, gauge, histogram) is its type here, and each
// quantity takes only the types that can mean it: a counter that only ever rises cannot stand where
// a level is wanted.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tailrace/observe/observer.h"

namespace tailrace::observe {

/// Only the series of the family with this label's value count; without a name all of them.
struct OnlyWhere {
  std::string_view label, value;
};

/// Rises until its process ends; says something by how much it rose.
struct Counter {
  std::string_view name;
  OnlyWhere only = {};
};
/// A level, now.
struct Gauge {
  std::string_view name;
  OnlyWhere only = {};
};
/// name_sum, name_count and name_bucket; `scale` makes our unit of the exporter's.
struct Histogram {
  std::string_view name;
  double scale = 1;
};
/// One level times another.
struct GaugeProduct {
  Gauge one, other;
};
/// A series whose labels say it: the product of two of them.
struct InfoProduct {
  std::string_view name, one, other;
};
/// A gap between tokens at a pod, by which it grows with one more stream, and the standard error of
/// that: three levels of one moment.
struct GaugesOfPace {
  Gauge gap, per_stream, error;
};
/// How much one counter rose for each unit of another.
struct CounterRatio {
  Counter over, under;
  double scale = 1;
};
/// How much a counter rose for each request.
struct PerRequest {
  Counter total;
  double scale = 1;
};
/// A mean time for each request, and the wait before it: mean number waiting over the rate at which
/// requests come (Little's law).
struct PerRequestAndWait {
  Counter seconds;
  double scale = 1;
};

using Mean = std::variant<Histogram, CounterRatio, PerRequest, PerRequestAndWait>;
using Level = std::variant<Gauge, GaugeProduct, InfoProduct>;
using Share = std::variant<CounterRatio, Gauge>;

struct EngineTable {
  EngineKind kind = EngineKind::kVllm;
  std::vector<std::string_view> prefixes;  ///< whose series these are
  std::vector<Counter> completed;
  std::vector<Gauge> running, waiting;
  std::vector<Mean> input_tokens, output_tokens, ttft_ms, itl_ms;
  std::vector<Level> kv_usage, kv_tokens;
  std::vector<Share> prefix_hit;
};

const EngineTable& table_of(EngineKind kind);
std::span<const EngineTable> engine_tables();

/// A process in front of the engines.
struct GatewayTable {
  std::string_view name;  ///< for people
  /// That carry the model's name: the first that is there and not empty.
  std::vector<std::string_view> model_labels;
  std::vector<Counter> arrivals;
  std::vector<Counter> relayed;  ///< that generate nothing, where `arrivals` leaves them out
  std::vector<Gauge> waiting_requests, waiting_tokens;
  std::vector<Mean> input_tokens, output_tokens;
  std::vector<CounterRatio> input_squares, output_squares;  ///< means of squares
  /// What was sent to each pod, and how fast its tokens come; the first of `pod_labels` that is
  /// there names it, with `port_label` where there is one.
  std::vector<Counter> dispatched;
  std::vector<GaugesOfPace> pace;
  std::vector<std::string_view> pod_labels;
  std::string_view port_label;
};

std::span<const GatewayTable> gateway_tables();

/// When a process began; tells a restart where no counter fell.
inline constexpr std::string_view kProcessStart = "process_start_time_seconds";

/// Every name to fetch for these engines and all gateways, suffixes included, sorted.
std::vector<std::string> series_names(std::span<const EngineKind> engines);

/// Is a quantity made of the sum of this name's series, so that without one of them it is unknown?
/// Series that an exporter drops by and by, such as those of pods that are gone, are not.
bool is_summed(std::string_view name);
/// Labels that carry a model's name, of engines and gateways.
std::span<const std::string_view> model_label_names();

/// docs/autoscaler-metrics.md's table of engines, quantities and series.
std::string engine_tables_reference();

}  // namespace tailrace::observe
