#include "tailrace/kubernetes/lease.h"

#include <gmock/gmock.h>

#include "kubernetes/lease_document.h"
#include "kubernetes/support/cluster.h"

namespace tailrace::kubernetes::testing {
namespace {

using ::testing::HasSubstr;

const std::string kLeases = "/apis/coordination.k8s.io/v1/namespaces/llm/leases";
const std::string kLease = kLeases + "/tailrace-autoscaler";

/// One instance of the program: its own client, calendar and elector.
struct Instance {
  Instance(net::SimLoop& loop, net::SimNetwork& network, const FakeApi& server, std::string name,
           double calendar_s = 1'800'000'000)
      : calendar(calendar_s), api(Api::make(loop, network, server.access())) {
    LeaseConfig config;
    config.ns = "llm";
    config.identity = std::move(name);
    elector = LeaderElector::make(loop, *api, calendar, config,
                                  [this](const Leadership& now) { heard.push_back(now); });
  }
  bool leads() const { return elector && elector->now().leads; }

  ManualCalendar calendar;
  std::unique_ptr<Api> api;
  std::vector<Leadership> heard;
  std::unique_ptr<LeaderElector> elector;
};

class LeaseTest : public ClusterTest {
 protected:
  std::unique_ptr<Instance> join(const std::string& name, double calendar_s = 1'800'000'000) {
    return std::make_unique<Instance>(loop, network, server, name, calendar_s);
  }
  /// One that leads, past the pause after the first creation.
  std::unique_ptr<Instance> leader(const std::string& name) {
    auto made = join(name);
    run(seconds(20));
    EXPECT_TRUE(made->leads());
    return made;
  }
  /// Seconds until it is so, or a minute.
  double until(const std::function<bool()>& so) {
    const MonoTime began = loop.now();
    while (!so() && loop.now() - began < seconds(60)) run(milliseconds(100));
    return to_seconds(loop.now() - began);
  }
};

TEST_F(LeaseTest, TwoElectOneAndBothKnowWhom) {
  const auto a = join("a");
  const auto b = join("b");
  run(seconds(30));
  ASSERT_NE(a->leads(), b->leads());
  const Instance& leader = a->leads() ? *a : *b;
  const Instance& other = a->leads() ? *b : *a;
  EXPECT_EQ(leader.elector->now().holder, &leader == a.get() ? "a" : "b");
  EXPECT_EQ(other.elector->now().holder, leader.elector->now().holder);
  EXPECT_THAT(other.elector->now().reason, HasSubstr("holds the lease"));
  run(seconds(600));
  EXPECT_TRUE(leader.leads()) << "for as long as it renews";
  EXPECT_EQ(leader.heard.back().leads, true);
}

TEST_F(LeaseTest, TheFirstEverLeadsOnlyWhenALeaderOfADeletedLeaseMustHaveStopped) {
  const auto a = join("a");
  run(seconds(14));
  EXPECT_FALSE(a->leads());
  EXPECT_THAT(a->elector->now().reason, HasSubstr("there was no lease"));
  run(seconds(5));
  EXPECT_TRUE(a->leads());
  EXPECT_EQ(server.dotted(kLease, "/spec/holderIdentity"), "a");
  EXPECT_EQ(server.dotted(kLease, "/spec/leaseDurationSeconds"), "15");
  EXPECT_EQ(server.dotted(kLease, "/spec/acquireTime"), "2027-01-15T08:00:00.000000Z");
}

TEST_F(LeaseTest, TermsAreCountedFromOneOnAndNoneIsCountedBeforeTheLeaseWasRead) {
  auto a = join("a");
  EXPECT_EQ(a->elector->now().generation, 0u);
  until([&] { return a->leads(); });
  EXPECT_EQ(a->elector->now().generation, 1u);
  EXPECT_EQ(server.dotted(kLease, "/spec/leaseTransitions"), "0");
  const auto b = join("b");
  run(seconds(5));
  EXPECT_EQ(b->elector->now().generation, 1u) << "whose term it is";
  a.reset();
  until([&] { return b->leads(); });
  EXPECT_EQ(b->elector->now().generation, 2u);
  EXPECT_EQ(server.dotted(kLease, "/spec/leaseTransitions"), "1");
}

TEST_F(LeaseTest, AnotherTakesOverWhenTheLeaderDiesByItsOwnClock) {
  for (const double skew_s : {0.0, -1e6, 1e6}) {
    server.remove(kLease);
    auto a = leader("a");
    const auto b = join("b", 1'800'000'000 + skew_s);
    run(seconds(5));
    const auto generation = a->elector->now().generation;
    a.reset();
    const double took_s = until([&] { return b->leads(); });
    EXPECT_GE(took_s, 12) << skew_s;
    EXPECT_LE(took_s, 20) << skew_s;
    EXPECT_GT(b->elector->now().generation, generation);
  }
}

TEST_F(LeaseTest, ALeaderStepsDownBeforeAnybodyMayTakeOver) {
  const auto a = leader("a");
  server.stop();
  const double held_s = until([&] { return !a->leads(); });
  EXPECT_GE(held_s, 7);
  EXPECT_LE(held_s, 10);
  run(seconds(1));
  EXPECT_FALSE(a->heard.back().leads);
  EXPECT_THAT(a->heard.back().reason, HasSubstr("could not be renewed for 10 s"));
  server.start();
  EXPECT_LE(until([&] { return a->leads(); }), 5) << "the lease is still its own";
}

TEST_F(LeaseTest, AServerThatAnswersOnlyWithErrorsEndsATerm) {
  auto a = leader("a");
  server.fault = [](const SeenRequest&) { return failing(500); };
  const double held_s = until([&] { return !a->leads(); });
  EXPECT_LE(held_s, 10);
}

TEST_F(LeaseTest, ADeletedLeaseHasNoLeaderForTheLeasesTime) {
  const auto a = leader("a");
  const auto b = join("b");
  run(seconds(5));
  server.remove(kLease);
  run(seconds(4));
  EXPECT_FALSE(a->leads());
  EXPECT_FALSE(b->leads());
  EXPECT_LE(until([&] { return a->leads() || b->leads(); }), 20);
  EXPECT_TRUE(server.has(kLease));
}

TEST_F(LeaseTest, ALeaseGivenBackIsTakenAtOnce) {
  const auto a = leader("a");
  const auto b = join("b");
  run(seconds(5));
  bool done = false;
  a->elector->release([&] { done = true; });
  EXPECT_FALSE(a->leads()) << "before the lease is given back";
  EXPECT_LE(until([&] { return b->leads(); }), 3);
  EXPECT_TRUE(done);
  run(seconds(60));
  EXPECT_FALSE(a->leads()) << "it takes part no more";
}

TEST_F(LeaseTest, GivingBackEndsAlsoWhereItFails) {
  const auto a = leader("a");
  server.stop();
  bool done = false;
  a->elector->release([&] { done = true; });
  run(seconds(20));
  EXPECT_TRUE(done);
}

TEST_F(LeaseTest, ALeaseThatWasEmptiedByHandIsNotTakenAtOnce) {
  server.put(kLease, R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease"})");
  const auto a = join("a");
  run(seconds(14));
  EXPECT_FALSE(a->leads());
  EXPECT_LE(until([&] { return a->leads(); }), 5);
}

TEST_F(LeaseTest, AnotherWriterOfTheLeaseDoesNotEndATerm) {
  const auto a = leader("a");
  for (int i = 0; i < 10; ++i) {
    auto lease = server.get(kLease);
    lease["metadata"].as_object()["labels"] = {{"team", std::to_string(i)}};
    server.put(kLease, boost::json::serialize(lease));
    run(seconds(3));
    EXPECT_TRUE(a->leads());
  }
  EXPECT_EQ(server.dotted(kLease, "/metadata/labels/team"), "9") << "and is not undone";
}

TEST_F(LeaseTest, ALeaderWhoseLeaseIsTakenStepsDown) {
  const auto a = leader("a");
  auto lease = server.get(kLease);
  lease["spec"].as_object()["holderIdentity"] = "somebody";
  server.put(kLease, boost::json::serialize(lease));
  run(seconds(3));
  EXPECT_FALSE(a->leads());
  EXPECT_EQ(a->elector->now().holder, "somebody");
}

TEST_F(LeaseTest, RespectsALongerLeaseOfAnother) {
  server.put(kLease, R"({"kind":"Lease","spec":{"holderIdentity":"x","leaseDurationSeconds":60}})");
  const auto a = join("a");
  run(seconds(55));
  EXPECT_FALSE(a->leads());
  EXPECT_LE(until([&] { return a->leads(); }), 10);
}

TEST_F(LeaseTest, ARestartedLeaderIsAnotherOne) {
  auto a = leader("a-1");
  a = join("a-2");
  run(seconds(8));
  EXPECT_FALSE(a->leads());
  EXPECT_LE(until([&] { return a->leads(); }), 12);
}

TEST(LeaseConfig, SaysWhatMustHold) {
  LeaseConfig config;
  config.ns = "llm";
  config.identity = "a";
  EXPECT_TRUE(config.check());
  config.renew_s = 20;
  EXPECT_THAT(config.check().error().message, HasSubstr("15, 10 and 2"));
  config = {};
  EXPECT_FALSE(config.check());
}

TEST(LeaseDocument, WritesTimesAsTheServerReadsThem) {
  EXPECT_EQ(micro_time(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(micro_time(1'709'210'096.25), "2024-02-29T12:34:56.250000Z");
  EXPECT_EQ(micro_time(1e300), "9999-12-31T23:59:59.000000Z");
}

TEST(LeaseDocument, TakesNoHarmFromStrangeLeases) {
  EXPECT_FALSE(parse_lease("{}"));
  EXPECT_FALSE(parse_lease(R"({"kind":"Lease","metadata":{}})"));
  const auto odd = parse_lease(
      R"({"kind":"Lease","metadata":{"resourceVersion":"1"},"spec":{"holderIdentity":null,
          "leaseDurationSeconds":-5,"leaseTransitions":-1}})");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->holder, "");
  EXPECT_EQ(odd->duration_s, 0);
  EXPECT_EQ(odd->transitions, 0U);
}

}  // namespace
}  // namespace tailrace::kubernetes::testing
