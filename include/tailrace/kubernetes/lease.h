// Who leads, when several of us run?
//
// Leader election by a coordination.k8s.io/v1 Lease, after client-go's rules and stricter where
// those allow two leaders. A holder renews; others wait until it has not done so for the lease's
// time by their own clock; each change is a compare and swap on resourceVersion. A leader that
// could not renew for renew_s steps down by itself, before anybody else may take over. Where there
// is no Lease, somebody may have deleted that of a living leader: whoever creates it leads only
// after lease_s. No calendar is ever compared, so clocks may differ by any amount; they may not run
// at speeds that differ by more than lease_s / renew_s. Needs the verbs get, create and update on
// `leases` of coordination.k8s.io. Loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tailrace/core/calendar.h"
#include "tailrace/kubernetes/api.h"

namespace tailrace::kubernetes {

struct LeaseConfig {
  std::string ns, name = "tailrace-autoscaler";
  std::string identity;  ///< the pod's name and something of its own: two may never share one
  double lease_s = 15, renew_s = 10, retry_s = 2;

  /// Errors: kInvalidArgument unless 3600 ≥ lease_s > renew_s > retry_s > 0 with lease_s whole, and
  /// for empty names.
  Result<void> check() const;
};

struct Leadership {
  bool leads = false;
  std::string holder;            ///< "": nobody, or unknown
  std::uint64_t generation = 0;  ///< terms of office up to this one, 1 in the first: never again
  std::string reason;            ///< one sentence
};

class LeaderElector {
 public:
  /// `config` must have passed check(). `on_change` runs whenever leads or holder changes, never
  /// inside make(); it may not destroy the elector.
  static std::unique_ptr<LeaderElector> make(net::EventLoop& loop, Api& api,
                                             const Calendar& calendar, LeaseConfig config,
                                             UniqueFunction<void(const Leadership&)> on_change);
  virtual ~LeaderElector() = default;
  /// By the clock, also when a late timer has not told on_change yet: ask before each action.
  virtual const Leadership& now() const = 0;
  /// Gives the lease back, so that another takes over at once, and takes part no more; then `done`,
  /// also where that failed.
  virtual void release(UniqueFunction<void()> done) = 0;
};

}  // namespace tailrace::kubernetes
