// Optimizers and rescale against the published numbers, and against numbers of our own that follow
// the same description.
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "capacity/support/models.h"
#include "capacity/support/vectors.h"
#include "tailrace/capacity/rescale.h"

namespace tailrace::capacity {
namespace {

using namespace testing;
namespace json = boost::json;

using Row = tailrace::testing::Vector;
using tailrace::testing::queueing_vectors_of;

double number(const json::object& object, const char* key, double otherwise) {
  const json::value* value = object.if_contains(key);
  return value == nullptr || value->is_null() ? otherwise : value->to_number<double>();
}

Role role_of(std::string_view text) {
  return text == "prefill" ? Role::kPrefill : text == "decode" ? Role::kDecode : Role::kBoth;
}

std::string text(const json::object& object, const char* key, const std::string& otherwise) {
  const json::value* value = object.if_contains(key);
  return value == nullptr ? otherwise : std::string(value->as_string());
}

/// `own` has a variant's fields; `common` those that a row gives once for all.
VariantCapacity read_variant(const json::object& own, const json::object& common) {
  const auto field = [&](const char* key, double otherwise) {
    return number(own, key, number(common, key, otherwise));
  };
  VariantCapacity v = variant(text(own, "name", text(common, "name", "only")), field("cost", 10),
                              field("prc", 0), 0);
  // Published replica counts include those on their way.
  v.pending = std::int64_t(field("pending", 0));
  v.current = std::int64_t(field("current", 0)) - v.pending;
  v.min = std::int64_t(field("min", 0));
  if (const double max = field("max", -1); max >= 0) v.max = std::int64_t(max);
  v.gpus_per_replica = int(field("gpus_per_replica", 1));
  v.role = role_of(text(own, "role", "both"));
  v.accelerator = text(own, "accelerator", "A100");
  return v;
}

ModelAnalysis read_model(const json::object& own, const json::object& common) {
  ModelAnalysis m;
  m.key = {"ns", text(own, "name", "only")};
  m.priority = number(own, "priority", 1);
  m.required_per_s = number(own, "required", 0);
  m.spare_per_s = number(own, "spare", 0);
  for (const char* side : {"role_required", "role_spare"}) {
    const json::value* needs = own.if_contains(side);
    if (needs == nullptr) continue;
    for (const auto& [role, amount] : needs->as_object()) {
      RoleNeed& need = m.roles[role_of(role)];
      (side == std::string("role_spare") ? need.spare_per_s : need.required_per_s) =
          amount.to_number<double>();
    }
  }
  if (const json::value* variants = own.if_contains("variants")) {
    for (const json::value& v : variants->as_array()) {
      m.variants.push_back(read_variant(v.as_object(), common));
    }
  } else {
    m.variants.push_back(read_variant(own, common));
  }
  return m;
}

std::optional<GpuLimits> read_limits(const json::object& inputs) {
  const json::value* limits = inputs.if_contains("limits");
  if (limits == nullptr || limits->is_null()) return std::nullopt;
  GpuLimits out;
  for (const auto& [accelerator, gpus] : limits->as_object()) {
    out.available[accelerator] = gpus.to_number<std::int64_t>();
  }
  return out;
}

TEST(PublishedOptimizer, GivesThePublishedTargets) {
  const auto vectors = queueing_vectors_of({"cost-aware", "greedy"});
  if (vectors.empty()) GTEST_SKIP() << "no shared reference vectors; set TAILRACE_SHARED";
  int compared = 0;
  for (const Row& row : vectors) {
    if (row.id.starts_with("I")) continue;  // capacity assembly has a test of its own
    SCOPED_TRACE(row.id + ": " + row.group);
    std::vector<ModelAnalysis> models;
    if (const json::value* several = row.inputs.if_contains("models")) {
      for (const json::value& m : several->as_array()) {
        models.push_back(read_model(m.as_object(), row.inputs));
        models.back().variants[0].name = models.back().key.model;
      }
    } else {
      models.push_back(read_model(row.inputs, row.inputs));
    }
    OptimizerConfig config{.shrink = ShrinkRule::kPublished};
    if (row.group.find("greedy") != std::string::npos) config.kind = OptimizerKind::kGreedyByScore;
    const auto got = targets(optimize(config, models, read_limits(row.inputs)));
    if (const json::value* one = row.expected.if_contains("target")) {
      EXPECT_EQ(got.begin()->second, one->to_number<std::int64_t>());
      ++compared;
      continue;
    }
    for (const auto& [name, target] : row.expected.at("targets").as_object()) {
      EXPECT_EQ(got.at(name), target.to_number<std::int64_t>()) << name;
      ++compared;
    }
  }
  EXPECT_GE(compared, 20);
}

TEST(PublishedOptimizer, RescalesAsPublished) {
  const auto vectors = queueing_vectors_of({"priority rescale"});
  if (vectors.empty()) GTEST_SKIP() << "no shared reference vectors; set TAILRACE_SHARED";
  for (const Row& row : vectors) {
    SCOPED_TRACE(row.id);
    std::vector<RescaleClaim> claims;
    for (const json::value& m : row.inputs.at("models").as_array()) {
      const json::object& claim = m.as_object();
      claims.push_back({text(claim, "id", ""), number(claim, "priority", 1),
                        number(claim, "demand", 0), std::int64_t(number(claim, "floor", 0)),
                        std::int64_t(number(claim, "cap", 0))});
    }
    const auto result =
        rescale_by_priority(row.inputs.at("budget").to_number<std::int64_t>(), claims);
    EXPECT_EQ(result.over_budget, row.expected.at("over_budget").as_bool());
    for (const auto& [id, target] : row.expected.at("targets").as_object()) {
      EXPECT_EQ(result.targets.at(id), target.to_number<std::int64_t>()) << std::string(id);
    }
  }
}

TEST(PublishedOptimizer, SplitsGpusOverRolesAsPublished) {
  const auto vectors = queueing_vectors_of({"role split"});
  if (vectors.empty()) GTEST_SKIP() << "no shared reference vectors; set TAILRACE_SHARED";
  for (const Row& row : vectors) {
    SCOPED_TRACE(row.id);
    std::map<Role, std::int64_t> floors;
    std::map<Role, double> weights;
    for (const auto& [role, gpus] : row.inputs.at("floors").as_object()) {
      floors[role_of(role)] = gpus.to_number<std::int64_t>();
    }
    for (const auto& [role, weight] : row.inputs.at("weights").as_object()) {
      weights[role_of(role)] = weight.to_number<double>();
    }
    const auto split =
        split_by_role(row.inputs.at("total").to_number<std::int64_t>(), floors, weights);
    for (const auto& [role, gpus] : row.expected) {
      EXPECT_EQ(split.at(role_of(role)), gpus.to_number<std::int64_t>()) << std::string(role);
    }
  }
}

ModelAnalysis needs(double required, double spare, std::vector<VariantCapacity> variants) {
  ModelAnalysis m;
  m.key = {"ns", "m"};
  m.required_per_s = required;
  m.spare_per_s = spare;
  m.variants = std::move(variants);
  return m;
}

constexpr OptimizerConfig kPublished{.shrink = ShrinkRule::kPublished};

TEST(CostAware, TheCheapestPerUnitOfCapacityGrowsNotTheCheapestReplica) {
  const auto m = needs(30, 0, {variant("small", 5, 2, 1), variant("big", 20, 10, 1)});
  EXPECT_EQ(optimized(m, kPublished), (Targets{{"small", 1}, {"big", 4}}));
}

TEST(CostAware, PendingReplicasDoNotKeepAVariantFromGrowing) {
  const auto m = needs(20, 0, {variant("cheap", 5, 10, 1, 1), variant("dear", 15, 10, 1)});
  EXPECT_EQ(optimized(m, kPublished), (Targets{{"cheap", 4}, {"dear", 1}}));
}

TEST(CostAware, AVariantWithoutCapacityIsLeftOutInBothDirections) {
  auto cheap = without_capacity("cheap", 1, 3, Evidence::kIdle);
  EXPECT_EQ(optimized(needs(20, 0, {cheap, variant("dear", 15, 10, 1)}), kPublished),
            (Targets{{"cheap", 3}, {"dear", 3}}));
  EXPECT_EQ(optimized(needs(0, 500, {cheap, variant("dear", 15, 10, 4)}), kPublished),
            (Targets{{"cheap", 3}, {"dear", 1}}));
}

TEST(CostAware, WhatFitsUnderNoMaximumStaysUnservedAndIsSaid) {
  auto only = variant("only", 5, 10, 1);
  only.max = 2;
  const auto m = needs(50, 0, {only});
  const auto decisions = optimize(kPublished, {&m, 1}, std::nullopt);
  EXPECT_EQ(decisions[0].desired, 2);
  only.current = 2;
  const auto full = needs(50, 0, {only});
  const auto held = optimize(kPublished, {&full, 1}, std::nullopt);
  EXPECT_EQ(held[0].action, Action::kHold);
  EXPECT_NE(held[0].waits_for.find("room for 50 requests/s"), std::string::npos)
      << held[0].waits_for;
}

TEST(CostAware, RolesGrowTogetherAsFarAsTheSlowerOneGets) {
  auto prefill = variant("prefill", 5, 10, 1);
  prefill.role = Role::kPrefill;
  prefill.max = 2;
  auto decode = variant("decode", 5, 10, 1);
  decode.role = Role::kDecode;
  auto m = needs(0, 0, {prefill, decode});
  m.roles[Role::kPrefill].required_per_s = 20;
  m.roles[Role::kDecode].required_per_s = 40;
  EXPECT_EQ(optimized(m, kPublished), (Targets{{"prefill", 2}, {"decode", 3}}))
      << "half of what prefill needs, so half of what decode needs";
}

TEST(CostAware, NobodyShrinksWhileOneRoleNeedsMore) {
  auto prefill = variant("prefill", 5, 10, 1);
  prefill.role = Role::kPrefill;
  auto decode = variant("decode", 5, 10, 5);
  decode.role = Role::kDecode;
  auto m = needs(0, 0, {prefill, decode});
  m.roles[Role::kPrefill].required_per_s = 10;
  m.roles[Role::kDecode].spare_per_s = 40;
  EXPECT_EQ(optimized(m, kPublished), (Targets{{"prefill", 2}, {"decode", 5}}));
}

constexpr OptimizerConfig kGreedy{.kind = OptimizerKind::kGreedyByScore,
                                  .shrink = ShrinkRule::kPublished};

TEST(Greedy, AnAcceleratorWithoutALimitGetsNothingAndMinusOneIsUnlimited) {
  const auto m = needs(50, 0, {variant("only", 5, 10, 1)});
  EXPECT_EQ(optimized(m, kGreedy, GpuLimits{.available = {{"H100", 8}}}), (Targets{{"only", 1}}));
  EXPECT_EQ(optimized(m, kGreedy, GpuLimits{.available = {{"A100", -1}}}), (Targets{{"only", 6}}));
  EXPECT_EQ(optimized(m, kGreedy, std::nullopt), (Targets{{"only", 1}}));
}

TEST(Greedy, AQuotaIsASecondBudget) {
  const auto m = needs(50, 0, {variant("only", 5, 10, 1)});
  const GpuLimits limits{.available = {{"A100", 8}}, .quota = {{"ns", {{"A100", 3}}}}};
  EXPECT_EQ(optimized(m, kGreedy, limits), (Targets{{"only", 4}}));
  const GpuLimits other{.available = {{"A100", 8}}, .quota = {{"else", {{"A100", 3}}}}};
  EXPECT_EQ(optimized(m, kGreedy, other), (Targets{{"only", 6}}));
}

TEST(Greedy, ScarceGpusGoToTheHigherPriorityFirst) {
  auto low = needs(20, 0, {variant("low", 5, 10, 1)});
  low.key.model = "low";
  auto high = needs(20, 0, {variant("high", 5, 10, 1)});
  high.key.model = "high";
  high.priority = 5;
  const std::vector<ModelAnalysis> models{low, high};
  EXPECT_EQ(targets(optimize(kGreedy, models, GpuLimits{.available = {{"A100", 2}}})),
            (Targets{{"low", 1}, {"high", 3}}));
  EXPECT_EQ(targets(optimize(kGreedy, models, GpuLimits{.available = {{"A100", 3}}})),
            (Targets{{"low", 2}, {"high", 3}}));
}

TEST(Greedy, AModelOfPriorityZeroCompetesByItsNeed) {
  auto m = needs(20, 0, {variant("only", 5, 10, 1)});
  m.priority = 0;
  EXPECT_EQ(optimized(m, kGreedy, GpuLimits{.available = {{"A100", 8}}}), (Targets{{"only", 3}}));
}

TEST(Greedy, AVariantWithoutFreeGpusIsPassedOverForADearerOne) {
  auto cheap = variant("cheap", 5, 10, 1);
  auto dear = variant("dear", 15, 10, 1);
  dear.accelerator = "H100";
  const auto m = needs(40, 0, {cheap, dear});
  EXPECT_EQ(optimized(m, kGreedy, GpuLimits{.available = {{"A100", 1}, {"H100", 9}}}),
            (Targets{{"cheap", 2}, {"dear", 4}}));
}

/// One pool of 6 A100, all in use: four serve `rich`, who wants no more, two `poor`.
std::vector<Decision> rescaled(double priority, double required) {
  auto rich = needs(0, 0, {variant("rich", 5, 10, 4)});
  rich.key.model = "rich";
  rich.demand_per_s = 40;
  auto poor = needs(required, 0, {variant("poor", 5, 10, 2)});
  poor.key.model = "poor";
  poor.demand_per_s = 20 + required;
  poor.priority = priority;
  const std::vector<ModelAnalysis> models{rich, poor};
  OptimizerConfig config = kGreedy;
  config.rescale = true;
  return optimize(config, models, GpuLimits{.available = {{"A100", 0}}});
}

TEST(Rescale, InsideGreedyTakesFromTheModelOfLowerClaim) {
  // 6 GPUs, claims 4 x 1 and 4 x 1: three each, so one goes. Nothing is free yet, so nobody grows.
  const auto even = rescaled(1, 20);
  EXPECT_EQ(targets(even), (Targets{{"poor", 2}, {"rich", 3}}));
  EXPECT_EQ(even[0].reason, "rescale: 3 GPUs are this model's share");
  // Three times the priority: 1.5 GPUs against 4.5, of which it wants 4.
  EXPECT_EQ(targets(rescaled(3, 20)), (Targets{{"poor", 2}, {"rich", 2}}));
}

TEST(Rescale, InsideGreedyLeavesAPoolAloneThatIsLargeEnough) {
  const auto none = rescaled(3, 0);
  EXPECT_EQ(targets(none), (Targets{{"poor", 2}, {"rich", 4}}));
}

TEST(Rescale, RemaindersGoToTheLargestAndTiesToTheFirstId) {
  const std::vector<RescaleClaim> claims{
      {"b", 1, 10, 0, 10}, {"a", 1, 10, 0, 10}, {"c", 1, 10, 0, 10}};
  const auto result = rescale_by_priority(7, claims);
  EXPECT_EQ(result.targets, (std::map<std::string, std::int64_t>{{"a", 3}, {"b", 2}, {"c", 2}}));
}

TEST(Rescale, WhatOneDoesNotNeedIsSplitAmongTheOthers) {
  const std::vector<RescaleClaim> claims{{"a", 1, 2, 0, 9}, {"b", 1, 9, 0, 3}, {"c", 1, 9, 0, 9}};
  const auto result = rescale_by_priority(12, claims);
  EXPECT_EQ(result.targets, (std::map<std::string, std::int64_t>{{"a", 2}, {"b", 3}, {"c", 7}}));
}

}  // namespace
}  // namespace tailrace::capacity
