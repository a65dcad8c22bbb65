#include "kubernetes/discovery_paths.h"

#include <fmt/format.h>

#include "tailrace/net/percent.h"

namespace tailrace::kubernetes {

using net::percent_encoded;

namespace paths {
namespace {

std::string list_of(std::string_view root, const std::string& ns, std::string_view plural) {
  if (ns.empty()) return fmt::format("{}/{}", root, plural);
  return fmt::format("{}/namespaces/{}/{}", root, percent_encoded(ns), plural);
}

}  // namespace

std::string horizontal_pod_autoscalers(const std::string& ns) {
  return list_of("/apis/autoscaling/v2", ns, "horizontalpodautoscalers");
}
std::string scaled_objects(const std::string& ns) {
  return list_of("/apis/keda.sh/v1alpha1", ns, "scaledobjects");
}
std::string deployments(const std::string& ns) {
  return list_of("/apis/apps/v1", ns, "deployments");
}
std::string leader_worker_sets(const std::string& ns) {
  return list_of("/apis/leaderworkerset.x-k8s.io/v1", ns, "leaderworkersets");
}
std::string old_variants(const std::string& ns) {
  return list_of("/apis/llmd.ai/v1alpha1", ns, "variantautoscalings");
}
std::string nodes() {
  return "/api/v1/nodes";
}
std::string namespaces() {
  return "/api/v1/namespaces";
}
std::string pods(const std::string& ns, const std::string& selector) {
  return list_of("/api/v1", ns, "pods") + "?labelSelector=" + percent_encoded(selector);
}
std::string replica_sets(const std::string& ns, const std::string& selector) {
  return list_of("/apis/apps/v1", ns, "replicasets") +
         "?labelSelector=" + percent_encoded(selector);
}

}  // namespace paths

std::string TargetRef::scale_path() const {
  std::string plural = kind == "LeaderWorkerSet" ? "leaderworkersets" : "deployments";
  const std::string root = api_version.find('/') == std::string::npos ? "/api/" : "/apis/";
  return fmt::format("{}{}/namespaces/{}/{}/{}/scale", root, api_version, percent_encoded(ns),
                     plural, percent_encoded(name));
}

}  // namespace tailrace::kubernetes
