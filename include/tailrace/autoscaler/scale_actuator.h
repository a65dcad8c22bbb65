// How do decisions reach the workloads of a cluster?
//
// Deployments that carry our annotations are scaled directly, through their scale subresource, and
// only where they still ask for what the decision started from. What has a scaler of its own (an
// HorizontalPodAutoscaler, a ScaledObject) is left to that one, which reads the exported numbers:
// two writers would undo each other's work. Either way an Event on the object says what was decided
// and why, at most one for each object and cycle. Loop thread only.
#pragma once

#include <memory>

#include "tailrace/autoscaler/world.h"
#include "tailrace/kubernetes/api.h"
#include "tailrace/kubernetes/discovery.h"
#include "tailrace/kubernetes/events.h"

namespace tailrace::autoscaler {

class ScaleActuator : public Actuator {
 public:
  /// `api` and `events` must outlive it; `events` may be null.
  static std::unique_ptr<ScaleActuator> make(kubernetes::Api& api,
                                             kubernetes::EventRecorder* events);
  std::string_view name() const override { return "scale"; }
  /// What the decisions to come are about: which object each variant is, and how many replicas it
  /// asked for when it was looked at.
  virtual void see(const kubernetes::Inventory& inventory) = 0;
};

/// The Event that a decision deserves; `reason` is empty where nothing is to be said. `about` is
/// the caller's to fill in.
kubernetes::EventNote event_of(const capacity::Decision& decision);

}  // namespace tailrace::autoscaler
