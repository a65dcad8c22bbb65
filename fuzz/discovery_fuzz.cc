// Any document as any object of the API: discovery reads it or refuses it in words, and whatever
// variant comes of it is one that the analyzer takes.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kubernetes/discovery_join.h"
#include "tailrace/core/check.h"

namespace {

using namespace tailrace;
using namespace tailrace::kubernetes;

template <class T>
void add(Result<T> reading, std::vector<T>& into) {
  if (reading) {
    into.push_back(*std::move(reading));
  } else {
    TAILRACE_CHECK(!reading.error().message.empty());
  }
}

void check_limit(const std::optional<std::int64_t>& value) {
  TAILRACE_CHECK(!value || (*value >= 0 && *value <= 1'000'000'000'000));
}

void check_variant(const DiscoveredVariant& v) {
  TAILRACE_CHECK(!v.name.empty() && !v.model.empty() && v.fingerprint.size() == 16);
  TAILRACE_CHECK(std::isfinite(v.cost) && v.cost >= 0);
  TAILRACE_CHECK(v.min >= 0 && (!v.max || v.min <= *v.max));
  TAILRACE_CHECK(v.gpus_per_replica >= 1);
  TAILRACE_CHECK(v.ready_replicas >= 0 && v.ready_replicas <= v.spec_replicas);
  TAILRACE_CHECK(v.engine.port >= 1 && v.engine.port <= 65535);
  for (const auto& limit : {v.engine.max_num_seqs, v.engine.max_batched_tokens,
                            v.engine.max_model_len, v.engine.kv_tokens, v.engine.data_parallel}) {
    check_limit(limit);
  }
}

}  // namespace

/// One document a line: each is read as every kind, then all are joined.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 16'384) return 0;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  ClusterReading cluster;
  PodsReading pods;
  pods.pods_known = size % 2 == 0;
  pods.sets_known = size % 3 == 0;
  for (int documents = 0; !text.empty() && documents < 16; ++documents) {
    const auto end = text.find('\n');
    const auto one = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    add(read_horizontal_pod_autoscaler(one), cluster.scalers);
    add(read_scaled_object(one), cluster.scalers);
    add(read_deployment(one), cluster.workloads);
    add(read_leader_worker_set(one), cluster.workloads);
    add(read_old_variant(one), cluster.old_variants);
    add(read_namespace(one), cluster.namespaces);
    add(read_node(one), cluster.nodes);
    add(read_pod(one), pods.pods);
    add(read_replica_set(one), pods.sets);
  }
  auto selection = select_variants(cluster, {});
  for (const auto& problem : selection.problems) TAILRACE_CHECK(!problem.message.empty());
  for (auto& candidate : selection.candidates) {
    add_pods(candidate, pods, cluster, "");
    check_variant(candidate.variant);
  }
  for (const auto& [product, kind] : gpus_of_nodes(cluster.nodes)) {
    TAILRACE_CHECK(kind.count >= 0);  // 0: none of its nodes takes pods now
  }
  return 0;
}
