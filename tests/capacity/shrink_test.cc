// What the safe rule takes away, and what it does not.
#include <gtest/gtest.h>

#include "capacity/support/models.h"

namespace tailrace::capacity {
namespace {

using namespace testing;

constexpr OptimizerConfig kPublished{.shrink = ShrinkRule::kPublished};

// The published example of spare that one variant has and another one spends (row I5).
TEST(SafeShrink, SmallReplicasStayUntilTheBigOneServes) {
  const auto loading = model("m", 6, {variant("big", 5, 10, 0, 1), variant("small", 20, 1, 5)});
  EXPECT_EQ(optimized(loading, kPublished), (Targets{{"big", 1}, {"small", 0}}))
      << "published: nobody is left who serves";
  EXPECT_EQ(optimized(loading), (Targets{{"big", 1}, {"small", 5}}));

  const auto serving = model("m", 6, {variant("big", 5, 10, 1), variant("small", 20, 1, 5)});
  EXPECT_EQ(optimized(serving), (Targets{{"big", 1}, {"small", 0}}));
}

TEST(SafeShrink, ReplicasOnTheirWayGoBeforeThoseThatServe) {
  const auto m = model("m", 20, {variant("a", 10, 10, 2, 3)});
  const auto decisions = optimize({}, {&m, 1}, std::nullopt);
  EXPECT_EQ(decisions[0].desired, 2);
  EXPECT_EQ(decisions[0].action, Action::kScaleDown);
}

TEST(SafeShrink, ADearReplicaServesOnWhileACheapOneIsOnItsWay) {
  const auto m = model("m", 20, {variant("dear", 30, 10, 2), variant("cheap", 10, 10, 0, 2)});
  EXPECT_EQ(optimized(m, kPublished), (Targets{{"dear", 0}, {"cheap", 2}}));
  EXPECT_EQ(optimized(m), (Targets{{"dear", 2}, {"cheap", 0}}))
      << "what is spare is what does not serve yet";
}

TEST(SafeShrink, AnIdleVariantGoesWhereTheOthersCarryTheDemand) {
  const auto idle = without_capacity("idle", 10, 3, Evidence::kIdle);
  EXPECT_EQ(optimized(model("m", 15, {idle, variant("busy", 10, 10, 2)})),
            (Targets{{"idle", 0}, {"busy", 2}}));
  auto floor = idle;
  floor.min = 1;
  EXPECT_EQ(optimized(model("m", 15, {floor, variant("busy", 10, 10, 2)})),
            (Targets{{"idle", 1}, {"busy", 2}}));
}

TEST(SafeShrink, AnIdleVariantStaysWhileTheOthersDoNotCarryTheDemand) {
  const auto m = model(
      "m", 25, {without_capacity("idle", 10, 3, Evidence::kIdle), variant("busy", 10, 10, 2, 1)});
  const auto decisions = optimize({}, {&m, 1}, std::nullopt);
  EXPECT_EQ(targets(decisions), (Targets{{"idle", 3}, {"busy", 3}}));
  EXPECT_EQ(decisions[0].waits_for, "replicas that carry 25 requests/s without idle");
}

TEST(SafeShrink, AVariantThatCannotKeepTheSloIsReplacedByOthersThatCarryItsTraffic) {
  const auto slow = without_capacity("slow", 5, 4, Evidence::kUnreachable);
  EXPECT_EQ(optimized(model("m", 30, {slow, variant("fast", 20, 10, 2)})),
            (Targets{{"slow", 4}, {"fast", 3}}));
  EXPECT_EQ(optimized(model("m", 30, {slow, variant("fast", 20, 10, 2, 1)})),
            (Targets{{"slow", 4}, {"fast", 3}}));
  EXPECT_EQ(optimized(model("m", 30, {slow, variant("fast", 20, 10, 3)})),
            (Targets{{"slow", 0}, {"fast", 3}}));
}

TEST(SafeShrink, NobodyShrinksWhileReplicasOfTheModelSayNothing) {
  const auto m = model(
      "m", 5, {without_capacity("silent", 10, 1, Evidence::kUnknown), variant("busy", 10, 10, 4)});
  const auto decisions = optimize({}, {&m, 1}, std::nullopt);
  EXPECT_EQ(targets(decisions), (Targets{{"silent", 1}, {"busy", 4}}));
  EXPECT_NE(decisions[1].waits_for.find("metrics of silent"), std::string::npos);
}

TEST(SafeShrink, AnEmptyVariantOfWhichNothingIsKnownKeepsNobodyFromShrinking) {
  EXPECT_EQ(optimized(model(
                "m", 5,
                {without_capacity("new", 10, 0, Evidence::kUnknown), variant("busy", 10, 10, 4)})),
            (Targets{{"new", 0}, {"busy", 1}}));
}

TEST(SafeShrink, SilentReplicasKeepNobodyFromGrowing) {
  EXPECT_EQ(optimized(model("m", 55,
                            {without_capacity("silent", 10, 1, Evidence::kUnknown),
                             variant("busy", 10, 10, 4)})),
            (Targets{{"silent", 1}, {"busy", 6}}));
}

TEST(SafeShrink, AModelThatIsIdleAltogetherShrinksToOneReplicaOfItsCheapest) {
  auto m = model("m", 0,
                 {without_capacity("cheap", 5, 3, Evidence::kIdle),
                  without_capacity("dear", 10, 2, Evidence::kIdle)});
  m.failure = "no pod has traffic";
  EXPECT_EQ(optimized(m), (Targets{{"cheap", 1}, {"dear", 0}}));
  m.demand_per_s = 1;  // something waits at the gateway
  EXPECT_EQ(optimized(m), (Targets{{"cheap", 3}, {"dear", 2}}));
}

TEST(SafeShrink, AModelWithoutAnyKnowledgeIsHeldAndSaysWhatItWaitsFor) {
  auto m = model("m", 0, {without_capacity("a", 5, 3, Evidence::kUnknown)});
  m.failure = "no usable metrics";
  const auto decisions = optimize({}, {&m, 1}, std::nullopt);
  EXPECT_EQ(decisions[0].desired, 3);
  EXPECT_FALSE(decisions[0].informed);
  EXPECT_EQ(decisions[0].reason, "held: no usable metrics");
  EXPECT_EQ(decisions[0].waits_for, "usable metrics");
}

TEST(SafeShrink, AnInactiveModelIsHeld) {
  auto m = model("m", 500, {variant("a", 5, 10, 3)});
  m.active = false;
  const auto decisions = optimize({}, {&m, 1}, std::nullopt);
  EXPECT_EQ(decisions[0].desired, 3);
  EXPECT_FALSE(decisions[0].informed);
  EXPECT_NE(decisions[0].waits_for.find("`default`"), std::string::npos);
}

TEST(SafeShrink, EachRoleIsAskedForItself) {
  auto prefill = variant("prefill", 5, 10, 3);
  prefill.role = Role::kPrefill;
  auto decode = variant("decode", 5, 10, 1, 2);
  decode.role = Role::kDecode;
  auto m = model("m", 10, {prefill, decode});
  m.roles[Role::kPrefill] = {.demand_per_s = 10, .spare_per_s = 20};
  m.roles[Role::kDecode] = {.demand_per_s = 10, .spare_per_s = 20};
  EXPECT_EQ(optimized(m), (Targets{{"prefill", 1}, {"decode", 1}}));
}

TEST(SafeShrink, AnUnknownDemandIsOneThatNobodyCarries) {
  auto m = model("m", 10, {variant("a", 5, 10, 3)});
  m.demand_per_s = std::numeric_limits<double>::quiet_NaN();
  m.spare_per_s = 20;
  EXPECT_EQ(optimized(m), (Targets{{"a", 3}}));
}

TEST(PendingGuard, ABacklogAsksForNothingMoreWhileReplicasAreOnTheirWay) {
  auto m = model("m", 80, {variant("a", 5, 10, 2, 2)});
  m.backlog_per_s = 40;
  const auto decisions = optimize({}, {&m, 1}, std::nullopt);
  EXPECT_EQ(decisions[0].desired, 4);
  EXPECT_EQ(decisions[0].waits_for, "the replicas on their way, which are for the backlog");
  EXPECT_EQ(optimized(m, {.pending_guard = false}), (Targets{{"a", 8}}));
  m.demand_per_s = 100;  // arrivals have grown
  m.required_per_s = 60;
  EXPECT_EQ(optimized(m), (Targets{{"a", 6}}));
}

TEST(PendingGuard, ABacklogIsServedWhereNothingIsOnItsWay) {
  auto m = model("m", 80, {variant("a", 5, 10, 4)});
  m.backlog_per_s = 40;
  EXPECT_EQ(optimized(m), (Targets{{"a", 8}}));
}

}  // namespace
}  // namespace tailrace::capacity
