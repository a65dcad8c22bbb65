// Whatever the network, the server, the clocks and people do: there are never two leaders at once.
#include <gtest/gtest.h>

#include "kubernetes/support/cluster.h"
#include "tailrace/core/rng.h"
#include "tailrace/kubernetes/lease.h"

namespace tailrace::kubernetes::testing {
namespace {

constexpr int kSeeds = 1000;
constexpr int kInstances = 3;
const std::string kLease = "/apis/coordination.k8s.io/v1/namespaces/llm/leases/tailrace-autoscaler";

/// Instances that come, go, lose their connection and return, over a server that does the same.
class Election {
 public:
  explicit Election(std::uint64_t seed) : rng_(seed), network_(loop_, seed) {
    net::SimLink link;
    link.delay = milliseconds(1);
    link.jitter = milliseconds(1 + static_cast<int>(rng_.below(400)));
    network_.set_link(link);
    server_.fault = [this](const SeenRequest&) { return trouble(); };
    for (int i = 0; i < kInstances; ++i) instances_.emplace_back();
  }

  void live(Duration duration) {
    const MonoTime end = loop_.now() + duration;
    while (loop_.now() < end) {
      loop_.run_for(milliseconds(1 + rng_.below(1000)));
      check();
      if (!calm_ && rng_.below(4) == 0) happen();
    }
  }
  /// Nothing goes wrong from now on, and all are there.
  void calm() {
    calm_ = true;
    server_.stop();
    server_.start();
    for (auto& instance : instances_) {
      instance = join();
    }
  }
  int leaders() const {
    int count = 0;
    for (const auto& instance : instances_) {
      if (instance && instance->elector->now().leads) ++count;
    }
    return count;
  }
  int most() const { return most_; }
  int terms() const { return terms_; }

 private:
  struct Instance {
    Instance(net::SimLoop& loop, net::SimNetwork& network, const FakeApi& server,
             const std::string& name, double calendar_s, std::uint64_t seed,
             UniqueFunction<void(const Leadership&)> heard)
        : calendar(calendar_s) {
      ApiConfig how;
      how.seed = seed;
      api = Api::make(loop, network, server.access(), how);
      LeaseConfig config;
      config.ns = "llm";
      config.identity = name;
      elector = LeaderElector::make(loop, *api, calendar, config, std::move(heard));
    }
    ManualCalendar calendar;
    std::unique_ptr<Api> api;
    std::unique_ptr<LeaderElector> elector;
  };

  std::unique_ptr<Instance> join() {
    const std::string name = "i" + std::to_string(++born_);
    return std::make_unique<Instance>(loop_, network_, server_, name, 2e9 * rng_.uniform(),
                                      rng_.next_u64(), [this](const Leadership& now) {
                                        if (now.leads) ++terms_;
                                      });
  }

  std::optional<Fault> trouble() {
    if (calm_) return std::nullopt;
    Fault fault;
    switch (rng_.below(20)) {
      case 0:
        fault.cut_before = true;
        return fault;
      case 1:
        fault.cut_after = true;
        return fault;
      case 2:  // carried out later, perhaps after its sender has given up
        fault.delay = from_seconds(20 * rng_.uniform());
        return fault;
      case 3:
        fault.delay = from_seconds(20 * rng_.uniform());
        fault.cut_after = true;
        return fault;
      case 4:
        return failing(500);
      case 5:
        return failing(429, 3);
      case 6:
        return failing(409);
      default:
        return std::nullopt;
    }
  }

  void happen() {
    auto& instance = instances_[rng_.below(kInstances)];
    switch (rng_.below(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        if (!instance) instance = join();
        break;
      case 4:
        instance.reset();  // killed
        break;
      case 5:
        if (instance) instance->elector->release([] {});
        break;
      case 6:
        server_.stop();
        break;
      case 7:
      case 8:
        server_.stop();
        server_.start();
        break;
      case 9:
        if (rng_.below(4) == 0) server_.remove(kLease);
        break;
      case 10:  // a cable is cut: nothing arrives, nobody is told
        for (const auto& connection : network_.connections()) {
          if (rng_.below(2) == 0) connection->freeze();
        }
        break;
      default:
        if (instance) instance->calendar.set(2e9 * rng_.uniform());
        break;
    }
  }

  void check() { most_ = std::max(most_, leaders()); }

  Rng rng_;
  net::SimLoop loop_;
  net::SimNetwork network_;
  FakeApi server_{loop_, network_};
  std::vector<std::unique_ptr<Instance>> instances_;
  int born_ = 0, most_ = 0, terms_ = 0;
  bool calm_ = false;
};

TEST(LeaseProperty, NeverTwoLeadersAndOneAsSoonAsThingsAreCalm) {
  int terms = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Election election(seed);
    election.live(std::chrono::minutes(5));
    ASSERT_LE(election.most(), 1) << "seed " << seed;
    election.calm();
    election.live(seconds(90));
    ASSERT_LE(election.most(), 1) << "seed " << seed;
    ASSERT_EQ(election.leaders(), 1) << "seed " << seed;
    terms += election.terms();
  }
  EXPECT_GT(terms, 2 * kSeeds) << "the troubles leave room for terms of office";
}

}  // namespace
}  // namespace tailrace::kubernetes::testing
