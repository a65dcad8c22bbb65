// Which variants of which models does the cluster run, and who scales them?
//
// A variant is a HorizontalPodAutoscaler or a KEDA ScaledObject with the annotations that the
// workload-variant-autoscaler uses (llm-d.ai/managed, llm-d.ai/model-id, llm-d.ai/variant-cost), or
// a Deployment with ours (tailrace.dev/model-id, …). Where both kinds of scaler point at one target
// the ScaledObject wins. Reading documents is pure; only Discovery talks. What is wrong with one
// object is a problem of that object.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/kubernetes/api.h"

namespace tailrace::kubernetes {

enum class ScalerKind { kHorizontalPodAutoscaler, kScaledObject, kDeployment };
std::string_view to_string(ScalerKind kind);  ///< "HorizontalPodAutoscaler", …: the object's kind

/// What is scaled.
struct TargetRef {
  std::string api_version = "apps/v1", kind = "Deployment", ns, name;

  /// "/apis/apps/v1/namespaces/NS/deployments/NAME/scale"
  std::string scale_path() const;
  friend auto operator<=>(const TargetRef&, const TargetRef&) = default;
};

/// The engine that a pod template starts, as far as its flags tell.
struct EngineFlags {
  std::string engine = "vllm";  ///< vllm, sglang, tensorrt-llm, llama.cpp, unknown
  std::optional<std::int64_t> max_num_seqs, max_batched_tokens, max_model_len;
  std::optional<std::int64_t> kv_tokens;      ///< where a flag states the cache's size
  std::optional<std::int64_t> data_parallel;  ///< engines in one replica, each with these limits
  /// Names by which requests and metrics may call the model: served names, the model, adapters.
  std::vector<std::string> served_names;
  /// Every flag by its long name, and the engine's own environment. Secrets are left out.
  std::map<std::string, std::string> all;
  std::string image;
  int port = 8000;  ///< that serves requests and metrics
};

struct DiscoveredPod {
  std::string name, address;
  bool ready = false, terminating = false;
};

struct DiscoveredVariant {
  std::string ns, name, model;
  ScalerKind scaler = ScalerKind::kHorizontalPodAutoscaler;
  TargetRef target;
  double cost = 10;
  std::int64_t min = 0;
  std::optional<std::int64_t> max;
  std::string role;         ///< "prefill", "decode" or "both"
  std::string accelerator;  ///< "": not resolved
  int gpus_per_replica = 1;
  EngineFlags engine;
  bool paused = false;              ///< its scaler is: min and max are what it is held at
  std::int64_t spec_replicas = 0;   ///< asked for
  std::int64_t ready_replicas = 0;  ///< serving; neither surge nor terminating pods count
  std::vector<DiscoveredPod> pods;
  std::string fingerprint;
  std::string target_uid;  ///< Events about the target need it to be shown
};

struct DiscoveryProblem {
  std::string object;   ///< "HorizontalPodAutoscaler llm/llama"
  std::string message;  ///< what is wrong and the remedy
};

struct GpuKind {
  std::int64_t count = 0;
  std::string vendor;  ///< "nvidia.com": what its resource is named by

  friend bool operator==(const GpuKind&, const GpuKind&) = default;
};

struct Inventory {
  std::vector<DiscoveredVariant> variants;  ///< by namespace and name
  std::vector<DiscoveryProblem> problems;
  /// Of the nodes that take new pods, by their product label; empty: not known, since nodes could
  /// not be read.
  std::optional<std::map<std::string, GpuKind>> gpus;
};

struct DiscoveryConfig {
  std::vector<std::string> namespaces;  ///< empty: all
  std::string controller_instance;      ///< only objects with that label (CONTROLLER_INSTANCE)
  bool read_nodes = true;               ///< for kinds and numbers of GPUs
};

class Discovery {
 public:
  static std::unique_ptr<Discovery> make(net::EventLoop& loop, Api& api, DiscoveryConfig config);
  virtual ~Discovery() = default;
  /// What is there now. Errors: those of the API; then nothing is known.
  virtual void discover(UniqueFunction<void(Result<Inventory>)> done) = 0;
};

}  // namespace tailrace::kubernetes
