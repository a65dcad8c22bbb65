// What does the client do with an API server, whoever plays the server?
//
// One course of requests with the objects that an autoscaler meets. It runs against a real
// kube-apiserver (make test-kubernetes), against recorded answers of one, and against FakeApi. The
// requests are the same each time, byte for byte but for versions and list tokens.
#pragma once

#include <functional>
#include <string>

#include "tailrace/core/calendar.h"
#include "tailrace/kubernetes/api.h"

namespace tailrace::kubernetes::testing {

/// Lets the loop go on until `so`, or for long enough to give up; false then.
using Until = std::function<bool(const std::function<bool()>& so)>;

/// Reports what is not as it should be through GoogleTest. `calendar_s`: what objects are stamped
/// with.
void run_scenario(Api& api, const Until& until, double calendar_s);

}  // namespace tailrace::kubernetes::testing
