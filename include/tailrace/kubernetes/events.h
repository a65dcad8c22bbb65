// How does a person who runs `kubectl describe` learn what was decided and why?
//
// Kubernetes Events (events.k8s.io/v1) about the objects that are scaled. They are a courtesy:
// sending never fails the caller, never waits, and is bounded. At most one Event per subject and
// cycle; what was said last time is not said again but counted in the same Event's series. Needs
// the verbs create and patch on `events` of events.k8s.io. Loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tailrace/core/calendar.h"
#include "tailrace/kubernetes/api.h"

namespace tailrace::kubernetes {

struct ObjectRef {
  std::string api_version, kind, ns, name;
  std::string uid;  ///< `kubectl describe` shows only Events that have it
};

struct EventNote {
  ObjectRef about;
  bool warning = false;
  std::string reason;  ///< one word in CamelCase: "ScaledUp"
  std::string action;  ///< what was done: "Scale"; "": as the reason
  std::string note;    ///< for people, cut at 1 KiB
};

struct EventsConfig {
  std::string controller = "tailrace.dev/autoscaler";
  std::string instance;               ///< the pod's name
  double repeat_s = 600;              ///< the same is counted in the Event at most so often
  std::size_t waiting_max = 64;       ///< requests under way; what is beyond is dropped
  std::size_t subjects_max = 10'000;  ///< that are remembered
};

struct EventsSeen {
  std::uint64_t sent = 0, repeated = 0, dropped = 0, failed = 0;
};

class EventRecorder {
 public:
  static std::unique_ptr<EventRecorder> make(Api& api, const Calendar& calendar,
                                             EventsConfig config);
  virtual ~EventRecorder() = default;
  /// `cycle`: its number; the second note on the same object in one cycle is dropped.
  virtual void record(std::uint64_t cycle, EventNote note) = 0;
  virtual const EventsSeen& seen() const = 0;
};

}  // namespace tailrace::kubernetes
