// What is a variant, and what did its pods report in one cycle?
//
// A variant is one way to serve a model: one deployment on one accelerator with one set of flags.
// All variants of a model in a namespace serve the same traffic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/capacity/forecast.h"
#include "tailrace/tune/observation.h"

namespace tailrace::capacity {

struct ModelKey {
  std::string ns, model;

  std::string text() const { return ns + "/" + model; }
  friend auto operator<=>(const ModelKey&, const ModelKey&) = default;
};

enum class Role { kBoth, kPrefill, kDecode };

struct Variant {
  ModelKey key;
  std::string name;
  std::string accelerator;
  std::string fingerprint;  ///< of image, flags and hardware: parameters are of this, not of a name
  double cost = 10;         ///< of one replica, in the operator's own unit
  int gpus_per_replica = 1;
  std::int64_t current = 0;  ///< replicas that serve
  std::int64_t pending = 0;  ///< replicas on their way, not in `current`
  std::int64_t min = 0;
  std::optional<std::int64_t> max;
  Role role = Role::kBoth;
  queueing::ServiceLimits limits;
  double knee_tokens = 0;
  /// When replicas were last added, on the time line of the observations: fresh ones warm up.
  std::optional<double> scaled_up_at_s;
  std::vector<tune::Observation> pods;
};

/// What only the gateway sees of a model. One that counts arrivals and says nothing of a queue
/// holds nothing back.
struct Backlog {
  double requests = 0;  ///< waiting there
  /// That the waiting ones are predicted to generate: how much work they are, beside their number.
  std::optional<double> output_tokens = std::nullopt;
  /// All requests for the model that come to the gateway, held back and refused ones included.
  std::optional<double> arrivals_per_s = std::nullopt;
  double arrivals_window_s = 0;  ///< that they were counted over; 0: since the cycle before
  /// Requests for the model that generate nothing, such as embeddings: nothing is sized for them,
  /// and they keep the model from zero. Empty where the gateway does not tell them apart.
  std::optional<double> relayed_per_s = std::nullopt;
  /// Requests wait there until some replica has a place for them, rather than in replicas.
  bool one_queue = false;

  /// Somebody asks for the model, whatever for; also where a number is none.
  bool asked_for() const {
    return !(requests <= 0 && arrivals_per_s.value_or(0) <= 0 && relayed_per_s.value_or(0) <= 0);
  }
};

struct ModelState {
  ModelKey key;
  double priority = 1;
  std::optional<Backlog> gateway;  ///< empty: unknown
  std::vector<Variant> variants;
};

}  // namespace tailrace::capacity
