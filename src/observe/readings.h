// What does one pod do, and what does one gateway say of one model?
//
// Puts a Meter's answers together into readings. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "observe/exporters.h"
#include "observe/meter.h"

namespace tailrace::observe {

/// What gateways sent to one pod.
struct Dispatched {
  double per_s = 0, newest_s = 0;
  std::string metric;
};
/// What gateways say of the gaps between a pod's tokens, each counted by what it is worth.
struct Pace {
  double weight = 0;                   ///< sum of 1/error²
  double gap_s = 0, per_stream_s = 0;  ///< sums by weight
  double newest_s = 0;
  std::string metric;
  std::string unbelievable;  ///< what one says that cannot be
};
struct PodKey {
  std::string ns;    ///< the gateway's; may be empty
  std::string pod;   ///< without a rank
  std::string port;  ///< may be empty

  friend auto operator<=>(const PodKey&, const PodKey&) = default;
};
/// What gateways know of pods.
struct FromGateways {
  std::map<PodKey, Dispatched> dispatched;
  std::map<PodKey, Pace> paces;
};
/// Of one pod.
struct PodFromGateways {
  std::optional<Dispatched> dispatched;
  std::optional<Pace> pace;
};

/// Of all gateways together; those that have been silent for longer than `fresh_s` tell nothing.
FromGateways from_gateways(const std::vector<Exporter>& exporters, const MeterConfig& config,
                           double fresh_s);
PodFromGateways of_pod(const FromGateways& all, const std::string& ns, const std::string& pod,
                       const std::string& port);

Freshness freshness_of(double age_s, double fresh_s, double unavailable_s);

/// More requests than this are inside or before no process.
inline constexpr double kRequestsMost = 1e9;

/// What is odd about a pod.
struct PodNotes {
  std::size_t resets = 0;                 ///< counters that began anew in the window
  std::vector<std::string> gone;          ///< series without which a sum is not the whole
  std::vector<std::string> unbelievable;  ///< sentences
};

/// `exporter` has an engine. `own`: which of its series are of the variant's models.
PodReading pod_reading(const Exporter& exporter, const MeterConfig& config,
                       const std::function<bool(const Said&)>& own, const PodFromGateways& gateways,
                       PodNotes& notes);

/// By model; nothing where the exporter is no gateway.
std::vector<GatewayReading> gateway_readings(const Exporter& exporter, const MeterConfig& config);

}  // namespace tailrace::observe
