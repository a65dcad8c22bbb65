#include "tailrace/kubernetes/discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "kubernetes/discovery_join.h"
#include "kubernetes/discovery_paths.h"

namespace tailrace::kubernetes {
namespace {

constexpr std::size_t kCallsAtOnce = 8;
constexpr std::size_t kProblemsMax = 1'000;

using Objects = std::vector<std::string>;
template <class T>
using Reader = Result<T> (*)(std::string_view json);
using ListDone = UniqueFunction<void(Result<Objects>)>;

/// Accelerators that were resolved before, by target: a variant without pods keeps what it was.
using Remembered = std::map<TargetRef, std::string>;

/// One look at the cluster.
class Run {
 public:
  Run(Api& api, const DiscoveryConfig& config, Remembered& remembered, Task finished)
      : api_(api), config_(config), remembered_(remembered), finished_(std::move(finished)) {}

  void start() {
    std::vector<std::string> everywhere = config_.namespaces;
    if (everywhere.empty()) everywhere.emplace_back();
    for (const auto& ns : everywhere) {
      need(paths::horizontal_pod_autoscalers(ns), read_horizontal_pod_autoscaler, cluster_.scalers);
      need(paths::scaled_objects(ns), read_scaled_object, cluster_.scalers);
      need(paths::deployments(ns), read_deployment, cluster_.workloads);
      need(paths::leader_worker_sets(ns), read_leader_worker_set, cluster_.workloads);
      want(paths::old_variants(ns), read_old_variant, cluster_.old_variants, "");
    }
    if (config_.read_nodes) {
      want(paths::nodes(), read_node, cluster_.nodes,
           "GPUs and their kinds are not known; let the role list nodes, or turn this off",
           &nodes_known_);
    }
    // Who names namespaces has said already which ones he wants.
    if (config_.namespaces.empty()) {
      want(paths::namespaces(), read_namespace, cluster_.namespaces,
           "namespaces with wva.llmd.ai/exclude=true are not left out; let the role list them");
    }
    pump();
  }

  Result<Inventory> take() {
    if (error_) return fail(*error_);
    return std::move(inventory_);
  }

 private:
  struct Ask {
    std::string path;
    ListDone done;
  };

  /// Without this list nothing is known; a kind that the cluster does not have is an empty list.
  template <class T>
  void need(const std::string& path, Reader<T> read, std::vector<T>& into) {
    asks_.push_back({path, [this, path, read, &into](const Result<Objects>& objects) {
                       if (objects) return add(*objects, path, read, into);
                       if (objects.error().code == ErrorCode::kNotFound) return;
                       if (!error_) error_ = objects.error().with_context("discovery");
                     }});
  }

  /// A list that one can do without, at the price that `without` tells.
  template <class T>
  void want(const std::string& path, Reader<T> read, std::vector<T>& into,
            const std::string& without, bool* known = nullptr) {
    asks_.push_back(
        {path, [this, path, read, &into, without, known](const Result<Objects>& objects) {
           if (known != nullptr) *known = objects.has_value();
           if (objects) return add(*objects, path, read, into);
           if (!without.empty()) {
             problem(path, objects.error().message + ": " + without);
           }
         }});
  }

  template <class T>
  void add(const Objects& objects, const std::string& path, Reader<T> read, std::vector<T>& into) {
    into.reserve(into.size() + objects.size());
    for (const auto& object : objects) {
      if (auto reading = read(object)) {
        into.push_back(*std::move(reading));
      } else {
        problem(path, reading.error().message);
      }
    }
  }

  void problem(std::string object, std::string message) {
    if (inventory_.problems.size() >= kProblemsMax) return;
    inventory_.problems.push_back({std::move(object), std::move(message)});
  }

  /// Some questions at a time; when all are answered, the next step.
  void pump() {
    pumping_ = true;  // answers may come at once
    while (under_way_ < kCallsAtOnce && next_ < asks_.size() && !error_) {
      const std::size_t index = next_++;
      ++under_way_;
      auto call = api_.list(asks_[index].path, [this, index](Result<Objects> objects) {
        asks_[index].done(std::move(objects));
        --under_way_;
        if (!pumping_) pump();
      });
      calls_.push_back(std::move(call));
    }
    pumping_ = false;
    if (under_way_ > 0) return;
    if (error_ || step_ == Step::kPods) return end();
    step_ = Step::kPods;
    ask_for_pods();
    pump();
  }

  void ask_for_pods() {
    selection_ = select_variants(cluster_, config_);
    for (auto& found : selection_.problems) {
      problem(std::move(found.object), std::move(found.message));
    }
    asks_.clear();
    next_ = 0;
    pods_.resize(selection_.candidates.size());
    for (std::size_t i = 0; i < selection_.candidates.size(); ++i) {
      const auto& candidate = selection_.candidates[i];
      // Without a selector every pod of the namespace would come.
      if (candidate.selector.empty()) continue;
      const auto& target = candidate.variant.target;
      ask_of_target(paths::pods(target.ns, candidate.selector), i, read_pod, pods_[i].pods,
                    pods_[i].pods_known);
      if (target.kind == "Deployment") {
        ask_of_target(paths::replica_sets(target.ns, candidate.selector), i, read_replica_set,
                      pods_[i].sets, pods_[i].sets_known);
      }
    }
  }

  template <class T>
  void ask_of_target(const std::string& path, std::size_t index, Reader<T> read,
                     std::vector<T>& into, bool& known) {
    asks_.push_back({path, [this, path, index, read, &into, &known](const Result<Objects>& got) {
                       known = got.has_value();
                       if (got) return add(*got, path, read, into);
                       problem(selection_.candidates[index].object, got.error().message);
                     }});
  }

  void end() {
    if (!error_) fill_inventory();
    finished_();
  }

  void fill_inventory() {
    Remembered now;
    for (std::size_t i = 0; i < selection_.candidates.size(); ++i) {
      auto& candidate = selection_.candidates[i];
      const TargetRef target = candidate.variant.target;
      add_pods(candidate, pods_[i], cluster_, remembered_[target]);
      now[target] = candidate.variant.accelerator;
      inventory_.variants.push_back(std::move(candidate.variant));
    }
    remembered_ = std::move(now);
    if (nodes_known_) inventory_.gpus = gpus_of_nodes(cluster_.nodes);
    std::sort(inventory_.problems.begin(), inventory_.problems.end(),
              [](const DiscoveryProblem& a, const DiscoveryProblem& b) {
                return std::tie(a.object, a.message) < std::tie(b.object, b.message);
              });
  }

  enum class Step { kLists, kPods };

  Api& api_;
  const DiscoveryConfig& config_;
  Remembered& remembered_;
  Task finished_;
  Step step_ = Step::kLists;
  std::vector<Ask> asks_;
  std::size_t next_ = 0, under_way_ = 0;
  bool pumping_ = false, nodes_known_ = false;
  std::vector<std::unique_ptr<ApiCall>> calls_;
  std::optional<Error> error_;
  ClusterReading cluster_;
  Selection selection_;
  std::vector<PodsReading> pods_;
  Inventory inventory_;
};

class ApiDiscovery final : public Discovery {
 public:
  ApiDiscovery(net::EventLoop& loop, Api& api, DiscoveryConfig config)
      : loop_(loop), api_(api), config_(std::move(config)) {}

  void discover(UniqueFunction<void(Result<Inventory>)> done) override {
    const std::uint64_t id = ++last_id_;
    auto& entry = runs_[id];
    entry.done = std::move(done);
    entry.run = std::make_unique<Run>(api_, config_, remembered_, [this, id] {
      // Not from inside of the run's own call.
      loop_.post([this, id, alive = std::weak_ptr<bool>(alive_)] {
        if (!alive.expired()) finish(id);
      });
    });
    entry.run->start();
  }

 private:
  struct Entry {
    std::unique_ptr<Run> run;
    UniqueFunction<void(Result<Inventory>)> done;
  };

  void finish(std::uint64_t id) {
    const auto found = runs_.find(id);
    Entry entry = std::move(found->second);
    runs_.erase(found);
    entry.done(entry.run->take());
  }

  net::EventLoop& loop_;
  Api& api_;
  DiscoveryConfig config_;
  Remembered remembered_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Entry> runs_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<Discovery> Discovery::make(net::EventLoop& loop, Api& api, DiscoveryConfig config) {
  return std::make_unique<ApiDiscovery>(loop, api, std::move(config));
}

}  // namespace tailrace::kubernetes
