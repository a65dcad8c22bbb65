// The client against a real kube-apiserver. Started by tests/kubernetes/real/run, which sets
// TAILRACE_KUBECONFIG, TAILRACE_CLUSTER_RESTART (a command) and, to record, TAILRACE_RECORDER (the
// URL of a proxy).
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "kubernetes/support/scenario.h"
#include "tailrace/kubernetes/config_map.h"
#include "tailrace/kubernetes/lease.h"

namespace tailrace::kubernetes::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class RealApi : public ::testing::Test {
 protected:
  RealApi() {
    auto found = kubeconfig_access(from_environment("TAILRACE_KUBECONFIG"));
    if (!found) {
      ADD_FAILURE() << found.error().message;
      return;
    }
    access = std::move(*found);
    network = net::make_socket_network(*loop, tls_options(access));
    api = Api::make(*loop, *network, access);
  }
  bool until(const std::function<bool()>& so, Duration at_most = seconds(60)) {
    const MonoTime end = loop->now() + at_most;
    std::unique_ptr<net::Timer> tick;
    std::function<void()> look = [&] {
      if (so() || loop->now() >= end) return loop->stop();
      tick = loop->after(milliseconds(5), [&] { look(); });
    };
    if (so()) return true;
    tick = loop->after(milliseconds(1), [&] { look(); });
    loop->run();
    return so();
  }

  std::unique_ptr<net::EventLoop> loop = net::make_event_loop();
  ApiAccess access;
  std::unique_ptr<net::Network> network;
  std::unique_ptr<Api> api;
};

TEST_F(RealApi, AnswersTheScenario) {
  ApiConfig config;
  config.page_objects = 2;
  if (const std::string proxy = from_environment("TAILRACE_RECORDER"); !proxy.empty()) {
    access.server = *net::parse_url(proxy);
    network = net::make_socket_network(*loop);
  }
  api = Api::make(*loop, *network, access, config);
  run_scenario(*api, [this](const std::function<bool()>& so) { return until(so); }, 1'800'000'000);
}

/// One instance with its own client, as a process of its own would have.
struct Instance {
  Instance(net::EventLoop& loop, net::Network& network, const ApiAccess& access, std::string name)
      : api(Api::make(loop, network, access)) {
    LeaseConfig config;
    config.ns = "default";
    config.identity = std::move(name);
    config.lease_s = 6;
    config.renew_s = 4;
    config.retry_s = 1;
    elector = LeaderElector::make(loop, *api, calendar, config, [](const Leadership&) {});
  }
  bool leads() const { return elector->now().leads; }

  SystemCalendar calendar;
  std::unique_ptr<Api> api;
  std::unique_ptr<LeaderElector> elector;
};

TEST_F(RealApi, ElectsOneOfTwoAndAnotherWhenItDies) {
  auto a = std::make_unique<Instance>(*loop, *network, access, "a");
  auto b = std::make_unique<Instance>(*loop, *network, access, "b");
  ASSERT_TRUE(until([&] { return a->leads() || b->leads(); }));
  EXPECT_NE(a->leads(), b->leads());
  auto& leader = a->leads() ? a : b;
  auto& other = a->leads() ? b : a;
  int both = 0;
  until(
      [&] {
        both += leader->leads() && other->leads();
        return false;
      },
      seconds(8));
  EXPECT_EQ(both, 0);
  EXPECT_TRUE(leader->leads()) << "it renews";
  leader.reset();
  const MonoTime died = loop->now();
  ASSERT_TRUE(until([&] { return other->leads(); }));
  const double took_s = to_seconds(loop->now() - died);
  std::printf("another took over %.1f s after the leader died (lease 6 s)\n", took_s);
  EXPECT_GE(took_s, 4);
  bool done = false;
  other->elector->release([&] { done = true; });
  EXPECT_TRUE(until([&] { return done; }));
}

TEST_F(RealApi, WatchesAndElectionsSurviveARestartOfTheServer) {
  std::string last;
  int restarts = 0, interruptions = 0;
  WatchHandlers handlers;
  handlers.on_event = [&](std::string_view, std::string_view object) {
    const auto map = parse_config_map(object);
    if (map && map->name == "restarted") last = map->data.at("v");
  };
  handlers.on_restart = [&] { ++restarts; };
  handlers.on_interrupted = [&](const Error&) { ++interruptions; };
  const auto watch = api->watch(config_map_path("default"), std::move(handlers));
  Instance instance(*loop, *network, access, "c");
  ASSERT_TRUE(until([&] { return instance.leads() && restarts == 1; }));

  ConfigMap map;
  map.ns = "default";
  map.name = "restarted";
  map.data = {{"v", "before"}};
  std::optional<Result<ConfigMap>> written;
  auto call =
      write_config_map(*api, map, [&](Result<ConfigMap> done) { written = std::move(done); });
  ASSERT_TRUE(until([&] { return last == "before"; }));

  const std::string command = from_environment("TAILRACE_CLUSTER_RESTART");
  bool back = false;
  int status = -1;
  std::thread restarting([&] {
    const int result = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe)
    loop->post([&, result] {
      status = result;
      back = true;
    });
  });
  bool stood_down = false;
  EXPECT_TRUE(until(
      [&] {
        stood_down = stood_down || !instance.leads();
        return back;
      },
      seconds(200)));
  restarting.join();
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(until([&] { return instance.leads(); })) << "it leads again";
  map = written->value();
  map.data = {{"v", "after"}};
  call = write_config_map(*api, map, [&](Result<ConfigMap> done) { written = std::move(done); });
  EXPECT_TRUE(until([&] { return last == "after"; })) << "the watch goes on by itself";
  EXPECT_GT(interruptions, 0);
  std::printf("server restarted: %d interruptions, %d lists, leader stood down meanwhile: %s\n",
              interruptions, restarts, stood_down ? "yes" : "no");
}

}  // namespace
}  // namespace tailrace::kubernetes::testing
