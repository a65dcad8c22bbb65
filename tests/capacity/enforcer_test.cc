// Bounds, scale to zero, limits and writers.
#include "tailrace/capacity/enforcer.h"

#include <gtest/gtest.h>

#include "capacity/support/models.h"
#include "tailrace/capacity/limits.h"

namespace tailrace::capacity {
namespace {

using namespace testing;

std::vector<Decision> enforced(const ModelAnalysis& m, const ZeroEvidence& zero,
                               std::vector<Decision> decisions) {
  enforce(m, zero, decisions);
  return decisions;
}

TEST(Enforcer, CutsToTheMaximumAndRaisesToTheMinimum) {
  auto a = variant("a", 5, 10, 2);
  a.max = 4;
  auto b = variant("b", 5, 10, 2);
  b.min = 3;
  const auto m = model("m", 40, {a, b});
  const auto out = enforced(m, {}, {decision("a", 2, 9), decision("b", 2, 1)});
  EXPECT_EQ(targets(out), (Targets{{"a", 4}, {"b", 3}}));
  EXPECT_EQ(out[0].steps.back().rule, "max");
  EXPECT_EQ(out[0].steps.back().before, 9);
  EXPECT_EQ(out[1].steps.back().rule, "min");
  EXPECT_EQ(out[1].action, Action::kScaleUp);
}

TEST(Enforcer, BoundsThatContradictEachOtherBindNothing) {
  auto a = variant("a", 5, 10, 3);
  a.min = 5;
  a.max = 2;
  const auto m = model("m", 0, {a});
  for (const std::int64_t there : {0, 3, 7}) {
    const auto out = enforced(m, {}, {decision("a", there, there)});
    EXPECT_EQ(targets(out), (Targets{{"a", there}}));
    EXPECT_EQ(out[0].action, Action::kHold);
  }
}

TEST(Enforcer, AMaximumOfZeroTakesAllReplicasAndSaysWhatThatMeans) {
  auto a = variant("a", 5, 10, 3);
  a.max = 0;
  const auto m = model("m", 20, {a});
  const auto out = enforced(m, {}, {decision("a", 3, 3)});
  EXPECT_EQ(targets(out), (Targets{{"a", 0}}));
  EXPECT_EQ(out[0].reason, "3 cut to the maximum 0, with which it serves nothing");
  EXPECT_EQ(out[0].waits_for, "a maximum above 0: no variant of the model may have a replica");
}

class ScaleToZero : public ::testing::Test {
 protected:
  ModelAnalysis m = model("m", 0, {variant("cheap", 5, 10, 1), variant("dear", 15, 10, 2)});
  std::vector<Decision> given{decision("cheap", 1, 1), decision("dear", 2, 2)};
  Targets after(const ZeroEvidence& zero) { return targets(enforced(m, zero, given)); }
  const Targets kKept{{"cheap", 1}, {"dear", 2}};
  const Targets kNone{{"cheap", 0}, {"dear", 0}};
};

TEST_F(ScaleToZero, AnUnknownCountOfRequestsKeepsTheReplicas) {
  EXPECT_EQ(after({.enabled = true}), kKept);
}
TEST_F(ScaleToZero, ARequestInTheRetentionKeepsTheReplicas) {
  EXPECT_EQ(after({.enabled = true, .requests = 1}), kKept);
}
TEST_F(ScaleToZero, NoRequestInTheRetentionTakesAllReplicas) {
  const auto out = enforced(m, {.enabled = true, .retention_s = 600, .requests = 0}, given);
  EXPECT_EQ(targets(out), kNone);
  EXPECT_EQ(out[0].reason, "no request in the last 600 s");
}
TEST_F(ScaleToZero, ARequestThatWaitsKeepsTheReplicas) {
  EXPECT_EQ(after({.enabled = true, .requests = 0, .waiting = 1}), kKept);
}
TEST_F(ScaleToZero, AMinimumOfAnyVariantRulesItOut) {
  m.variants[1].min = 1;
  EXPECT_EQ(after({.enabled = true, .requests = 0}), kKept);
}
TEST_F(ScaleToZero, WhereItIsOffTheCheapestKeepsOne) {
  given = {decision("cheap", 1, 0), decision("dear", 2, 0)};
  EXPECT_EQ(after({}), (Targets{{"cheap", 1}, {"dear", 0}}));
}
TEST_F(ScaleToZero, ACostOfZeroCountsAsTenAndTiesFallToTheName) {
  given = {decision("cheap", 1, 0), decision("dear", 2, 0)};
  m.variants[0].cost = 0;
  m.variants[1].cost = 9;
  EXPECT_EQ(after({}), (Targets{{"cheap", 0}, {"dear", 1}}));
  m.variants[1].cost = 10;
  EXPECT_EQ(after({}), (Targets{{"cheap", 1}, {"dear", 0}}));
}
TEST_F(ScaleToZero, AWaitingRequestRaisesTheCheapestFromZero) {
  given = {decision("cheap", 0, 0), decision("dear", 0, 0)};
  EXPECT_EQ(after({.enabled = true, .requests = 0, .waiting = 3}),
            (Targets{{"cheap", 1}, {"dear", 0}}));
  EXPECT_EQ(after({.enabled = true, .requests = 0, .waiting = 0}), kNone);
  EXPECT_EQ(after({.enabled = true, .requests = 5}), kNone) << "nothing is known to wait";
}
TEST_F(ScaleToZero, AVariantThatMayHaveNoReplicaIsNotTheOneThatKeepsOne) {
  given = {decision("cheap", 1, 0), decision("dear", 2, 0)};
  m.variants[0].max = 0;
  EXPECT_EQ(after({}), (Targets{{"cheap", 0}, {"dear", 1}}));
}
TEST_F(ScaleToZero, AnInactiveModelIsLeftAsItIs) {
  m.active = false;
  EXPECT_EQ(after({.enabled = true, .requests = 0}), kKept);
}

TEST(Bounds, AMinimumAboveTheMaximumIsRefusedInWords) {
  Variant v;
  v.name = "a";
  v.min = 3;
  v.max = 2;
  const auto result = check_bounds(v);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "variant \"a\": min 3 is above max 2; use a minimum of at most the maximum");
  v.max = 3;
  EXPECT_TRUE(check_bounds(v));
  v.min = -1;
  EXPECT_FALSE(check_bounds(v));
}

TEST(LimitGrowth, CutsWhatDoesNotFitInTheOrderOfSpareThenCost) {
  auto cheap = variant("cheap", 5, 10, 1);
  auto dear = variant("dear", 15, 10, 1);
  const std::vector<ModelAnalysis> models{model("m", 0, {dear, cheap})};
  std::vector<Decision> decisions{decision("dear", 1, 4), decision("cheap", 1, 4)};
  limit_growth(models, GpuLimits{.available = {{"A100", 4}}}, decisions);
  EXPECT_EQ(targets(decisions), (Targets{{"cheap", 4}, {"dear", 2}}));
  EXPECT_EQ(decisions[0].waits_for, "2 GPUs of A100");
  EXPECT_EQ(decisions[0].steps.back().rule, "limit");
}

TEST(LimitGrowth, NeverCutsBelowTheMinimum) {
  auto a = variant("a", 5, 10, 1);
  a.min = 3;
  const std::vector<ModelAnalysis> models{model("m", 0, {a, variant("b", 1, 10, 1)})};
  std::vector<Decision> decisions{decision("a", 1, 6), decision("b", 1, 6)};
  limit_growth(models, GpuLimits{.available = {{"A100", 1}}}, decisions);
  EXPECT_EQ(targets(decisions), (Targets{{"a", 3}, {"b", 1}}))
      << "a minimum takes its GPUs before anybody else";
}

TEST(LimitGrowth, LeavesWhatShrinksAlone) {
  const std::vector<ModelAnalysis> models{model("m", 0, {variant("a", 5, 10, 4)})};
  std::vector<Decision> decisions{decision("a", 4, 2)};
  limit_growth(models, GpuLimits{}, decisions);
  EXPECT_EQ(targets(decisions), (Targets{{"a", 2}}));
}

TEST(Reconcile, ADecisionOfThisTermOverTheSameReplicasStands) {
  Decision d = decision("a", 2, 5);
  d.writer = {"one", 7};
  const Decision out = reconcile(d, {"one", 7}, 2, 0);
  EXPECT_EQ(out.desired, 5);
  EXPECT_EQ(out.action, Action::kScaleUp);
}

TEST(Reconcile, PodsThatBecameReadyMeanwhileAreTheSameReplicas) {
  Decision d = decision("a", 2, 5);
  d.writer = {"one", 7};
  d.pending = 1;
  d.apply("optimizer", "again", 5);
  EXPECT_EQ(reconcile(d, {"one", 7}, 3, 0).desired, 5);
}

TEST(Reconcile, ADecisionOfAnotherTermOrWriterIsVoid) {
  Decision d = decision("a", 2, 5);
  d.writer = {"one", 6};
  for (const Writer& holder : {Writer{"one", 7}, Writer{"two", 6}}) {
    const Decision out = reconcile(d, holder, 2, 0);
    EXPECT_EQ(out.desired, 2);
    EXPECT_EQ(out.action, Action::kHold);
    EXPECT_EQ(out.steps.back().rule, "writer");
  }
}

}  // namespace
}  // namespace tailrace::capacity
