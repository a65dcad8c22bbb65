// What holds of every decision, whatever the numbers.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "capacity/support/models.h"
#include "tailrace/capacity/enforcer.h"
#include "tailrace/capacity/explain.h"
#include "tailrace/capacity/rescale.h"
#include "tailrace/capacity/stabilisation.h"

namespace tailrace::capacity {
namespace {

using namespace testing;

constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();

template <class T>
T one_of(std::initializer_list<T> values) {
  return *rc::gen::elementOf(std::vector<T>(values));
}

std::int64_t up_to(std::int64_t most) {
  return *rc::gen::inRange<std::int64_t>(0, most + 1);
}

VariantCapacity any_variant(int index) {
  VariantCapacity v = variant("v" + std::to_string(index), double(1 + up_to(30)),
                              double(1 + up_to(40)) / 2, up_to(6), up_to(3));
  v.accelerator = one_of<std::string>({"A100", "H100"});
  v.gpus_per_replica = int(1 + up_to(3));
  v.min = up_to(2);
  if (up_to(1) == 1) v.max = v.min + up_to(8);
  if (up_to(4) == 0) {
    v.evidence = one_of({Evidence::kUnknown, Evidence::kIdle, Evidence::kUnreachable});
    v.per_replica_per_s = 0;
  }
  return v;
}

ModelAnalysis any_model(int index) {
  std::vector<VariantCapacity> variants;
  const auto n = int(1 + up_to(3));
  for (int i = 0; i < n; ++i) variants.push_back(any_variant(i));
  ModelAnalysis m = model("m" + std::to_string(index), double(up_to(200)), std::move(variants));
  m.priority = double(up_to(3));
  return m;
}

std::vector<ModelAnalysis> any_models() {
  std::vector<ModelAnalysis> models;
  const auto n = int(1 + up_to(3));
  for (int i = 0; i < n; ++i) models.push_back(any_model(i));
  return models;
}

OptimizerConfig any_config() {
  return {.kind = one_of({OptimizerKind::kCostAware, OptimizerKind::kGreedyByScore}),
          .shrink = one_of({ShrinkRule::kSafe, ShrinkRule::kPublished}),
          .pending_guard = up_to(1) == 1,
          .rescale = up_to(1) == 1};
}

GpuLimits any_limits() {
  GpuLimits limits;
  limits.available["A100"] = up_to(20);
  if (up_to(1) == 1) limits.available["H100"] = up_to(20);
  if (up_to(2) == 0) limits.quota["ns"]["A100"] = up_to(10);
  return limits;
}

RC_GTEST_PROP(OptimizerProperty, TargetsStayBetweenZeroAndTheMaximum, ()) {
  const auto models = any_models();
  const auto decisions = optimize(any_config(), models, any_limits());
  std::size_t next = 0;
  for (const ModelAnalysis& m : models) {
    for (const VariantCapacity& v : m.variants) {
      const Decision& d = decisions[next++];
      RC_ASSERT(d.variant == v.name && d.key == m.key);
      RC_ASSERT(d.desired >= 0);
      RC_ASSERT(d.desired <= d.observed() || !v.max || d.desired <= *v.max);
      RC_ASSERT(d.desired >= std::min(d.observed(), v.min));
      RC_ASSERT(!d.reason.empty() && !d.steps.empty());
      RC_ASSERT(d.steps.back().after == d.desired);
    }
  }
  RC_ASSERT(next == decisions.size());
}

RC_GTEST_PROP(OptimizerProperty, AfterTheEnforcerTheBoundsHold, ()) {
  const auto models = any_models();
  auto decisions = optimize(any_config(), models, any_limits());
  std::span<Decision> rest = decisions;
  for (const ModelAnalysis& m : models) {
    enforce(m, {}, rest.first(m.variants.size()));
    for (const VariantCapacity& v : m.variants) {
      RC_ASSERT(rest[0].desired >= v.min);
      RC_ASSERT(!v.max || rest[0].desired <= *v.max);
      rest = rest.subspan(1);
    }
  }
}

RC_GTEST_PROP(OptimizerProperty, TheSafeRuleLeavesCapacityThatServesForTheDemand, ()) {
  const ModelAnalysis m = any_model(0);
  const auto decisions = optimize({}, {&m, 1}, std::nullopt);
  double before = 0;
  double after = 0;
  bool fewer = false;
  for (std::size_t i = 0; i < m.variants.size(); ++i) {
    const VariantCapacity& v = m.variants[i];
    before += double(v.current) * v.per_replica_per_s;
    after += double(std::min(v.current, decisions[i].desired)) * v.per_replica_per_s;
    fewer = fewer || decisions[i].desired < v.current;
  }
  if (fewer) RC_ASSERT(after * (1 + 1e-6) >= m.demand_per_s);
  RC_ASSERT(after <= before);
}

RC_GTEST_PROP(OptimizerProperty, MoreDemandNeverMeansLessCapacity, ()) {
  const ModelAnalysis m = any_model(0);
  ModelAnalysis busier = model("m0", m.demand_per_s + double(up_to(50)), m.variants);
  busier.priority = m.priority;
  OptimizerConfig config = any_config();
  config.kind = OptimizerKind::kCostAware;
  const auto capacity = [&config](const ModelAnalysis& analysis) {
    double sum = 0;
    const auto decisions = optimize(config, {&analysis, 1}, std::nullopt);
    for (std::size_t i = 0; i < decisions.size(); ++i) {
      sum += double(decisions[i].desired) * analysis.variants[i].per_replica_per_s;
    }
    return sum;
  };
  RC_ASSERT(capacity(busier) >= capacity(m) * (1 - 1e-6));
}

RC_GTEST_PROP(OptimizerProperty, MoreDemandNeverMeansFewerReplicasOfAnOnlyVariant, ()) {
  auto v = any_variant(0);
  const double demand = double(up_to(200));
  const auto replicas = [&v](double d) {
    const auto m = model("m", d, {v});
    return optimize({}, {&m, 1}, std::nullopt)[0].desired;
  };
  RC_ASSERT(replicas(demand + double(up_to(50))) >= replicas(demand));
}

RC_GTEST_PROP(OptimizerProperty, GreedyNeverTakesMoreGpusThanThereAre, ()) {
  const auto models = any_models();
  const GpuLimits limits = any_limits();
  OptimizerConfig config = any_config();
  config.kind = OptimizerKind::kGreedyByScore;
  const auto decisions = optimize(config, models, limits);
  std::map<std::string, std::int64_t> taken;
  std::size_t next = 0;
  for (const ModelAnalysis& m : models) {
    for (const VariantCapacity& v : m.variants) {
      const Decision& d = decisions[next++];
      taken[v.accelerator] +=
          std::max<std::int64_t>(0, d.desired - d.observed()) * v.gpus_per_replica;
    }
  }
  for (const auto& [accelerator, gpus] : taken) {
    RC_ASSERT(gpus <= limits.left("ns", accelerator));
  }
}

RC_GTEST_PROP(OptimizerProperty, TheOrderOfModelsAndVariantsDecidesNothing, ()) {
  auto models = any_models();
  const auto config = any_config();
  const auto limits = any_limits();
  const auto by_name = [&](const std::vector<ModelAnalysis>& in) {
    std::map<std::string, std::int64_t> out;
    for (const Decision& d : optimize(config, in, limits)) {
      out[d.key.model + "/" + d.variant] = d.desired;
    }
    return out;
  };
  const auto straight = by_name(models);
  std::reverse(models.begin(), models.end());
  for (ModelAnalysis& m : models) std::reverse(m.variants.begin(), m.variants.end());
  RC_ASSERT(by_name(models) == straight);
}

RC_GTEST_PROP(OptimizerProperty, AbsurdNumbersGiveOrdinaryDecisions, ()) {
  const auto amount = [] {
    return one_of({0.0, 1e-300, 1.0, 1e308, -1.0, std::numeric_limits<double>::infinity(),
                   std::numeric_limits<double>::quiet_NaN()});
  };
  const auto count = [] { return one_of<std::int64_t>({0, 1, 7, kInt64Max, -kInt64Max - 1}); };
  std::vector<ModelAnalysis> models(2);
  for (std::size_t i = 0; i < models.size(); ++i) {
    ModelAnalysis& m = models[i];
    m.key = {"ns", std::to_string(i)};
    m.priority = amount();
    m.supply_per_s = amount();
    m.demand_per_s = amount();
    m.backlog_per_s = amount();
    m.required_per_s = amount();
    m.spare_per_s = amount();
    for (int n = 0; n < 3; ++n) {
      VariantCapacity v = variant("v" + std::to_string(n), amount(), amount(), count(), count());
      v.min = count();
      if (up_to(1) == 1) v.max = count();
      v.gpus_per_replica = one_of({0, 1, std::numeric_limits<int>::max()});
      m.variants.push_back(v);
    }
  }
  GpuLimits limits;
  limits.available["A100"] = count();
  auto decisions = optimize(any_config(), models, limits);
  Stabiliser stabiliser({});
  stabiliser.apply(amount(), decisions);
  std::span<Decision> rest = decisions;
  for (const ModelAnalysis& m : models) {
    const auto own = rest.first(m.variants.size());
    rest = rest.subspan(m.variants.size());
    enforce(m, {.enabled = true, .requests = amount(), .waiting = amount()}, own);
  }
  limit_growth(models, limits, decisions);
  for (const Decision& d : decisions) RC_ASSERT(d.desired >= 0);
  for (const ModelAnalysis& m : models) {
    RC_ASSERT(!explain(m, decisions).empty());
    const std::string document = explain_json(m, decisions);
    RC_ASSERT(document.find("nan") == std::string::npos);
    RC_ASSERT(document.find("1e99999") == std::string::npos);
  }
}

RC_GTEST_PROP(RescaleProperty, SpendsTheBudgetAndNotMore, ()) {
  std::vector<RescaleClaim> claims;
  const auto n = int(1 + up_to(5));
  for (int i = 0; i < n; ++i) {
    claims.push_back(
        {std::to_string(i), double(1 + up_to(4)), double(1 + up_to(20)), up_to(4), up_to(20)});
  }
  const std::int64_t budget = up_to(60);
  const auto result = rescale_by_priority(budget, claims);
  std::int64_t given = 0;
  std::int64_t floors = 0;
  std::int64_t wanted = 0;
  for (const RescaleClaim& c : claims) {
    const std::int64_t most = std::max(c.floor, std::min(std::int64_t(std::ceil(c.demand)), c.cap));
    RC_ASSERT(result.targets.at(c.id) >= c.floor && result.targets.at(c.id) <= most);
    given += result.targets.at(c.id);
    floors += c.floor;
    wanted += most;
  }
  RC_ASSERT(result.over_budget == (floors > budget));
  RC_ASSERT(given == (result.over_budget ? floors : std::min(budget, wanted)));
}

RC_GTEST_PROP(StabiliserProperty, NeverTurnsGrowthIntoShrinkingOrBack, ()) {
  Stabiliser stabiliser({});
  double now = 0;
  std::int64_t observed = up_to(10);
  for (int cycle = 0; cycle < 30; ++cycle) {
    now += double(up_to(120));
    const std::int64_t wanted = up_to(20);
    Decision d = testing::decision("v", observed, wanted);
    stabiliser.apply(now, {&d, 1});
    RC_ASSERT(d.desired >= std::min(wanted, observed));
    RC_ASSERT(d.desired <= std::max(wanted, observed));
    if (up_to(1) == 1) observed = d.desired;
  }
}

}  // namespace
}  // namespace tailrace::capacity
