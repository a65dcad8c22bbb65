// Who leads, when several of us run?
//
// Leader election by a coordination.k8s.io/v1 Lease, with the rules of client-go: a holder renews,
// others wait until the holder's time has run out by their own clock, each change is a compare and
// swap on resourceVersion. A leader that could not renew for renew_s steps down by itself, before
// anybody else may take over. Loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tailrace/core/calendar.h"
#include "tailrace/kubernetes/api.h"

namespace tailrace::kubernetes {

struct LeaseConfig {
  std::string ns, name = "tailrace-autoscaler";
  std::string identity;  ///< the pod's name and something of its own
  double lease_s = 15, renew_s = 10, retry_s = 2;

  /// Errors: kInvalidArgument unless lease_s > renew_s > retry_s > 0, and for empty names.
  Result<void> check() const;
};

struct Leadership {
  bool leads = false;
  std::string holder;            ///< "": nobody, or unknown
  std::uint64_t generation = 0;  ///< leaseTransitions: larger in every term of office
  std::string reason;            ///< one sentence
};

class LeaderElector {
 public:
  static std::unique_ptr<LeaderElector> make(net::EventLoop& loop, Api& api,
                                             const Calendar& calendar, LeaseConfig config,
                                             UniqueFunction<void(const Leadership&)> on_change);
  virtual ~LeaderElector() = default;
  virtual const Leadership& now() const = 0;
  /// Gives the lease back, so that another takes over at once; then `done`, also where that failed.
  virtual void release(UniqueFunction<void()> done) = 0;
};

}  // namespace tailrace::kubernetes
