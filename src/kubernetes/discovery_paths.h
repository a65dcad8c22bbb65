// Which paths of the API does discovery read?
//
// All of them, in one place: the role in deploy/ grants exactly these (tests/kubernetes).
#pragma once

#include <string>

#include "tailrace/kubernetes/discovery.h"

namespace tailrace::kubernetes::paths {

// Lists; `ns` "" is all namespaces.
std::string horizontal_pod_autoscalers(const std::string& ns);
std::string scaled_objects(const std::string& ns);
std::string deployments(const std::string& ns);
std::string leader_worker_sets(const std::string& ns);
std::string old_variants(const std::string& ns);
std::string nodes();
std::string namespaces();
std::string pods(const std::string& ns, const std::string& selector);
std::string replica_sets(const std::string& ns, const std::string& selector);

}  // namespace tailrace::kubernetes::paths
