#include "predict/tenant_shares.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tailrace/core/rng.h"

namespace tailrace::predict {
namespace {

/// Weight that each tenant got in the last half of `count` observations; `pick` names the tenants.
template <class Pick>
std::map<std::string, double> weights(TenantShares& shares, int count, Pick pick) {
  std::map<std::string, double> total;
  for (int i = 0; i < count; ++i) {
    const std::string tenant = pick();
    const double weight = shares.observe(tenant).weight;
    if (i >= count / 2) total[tenant] += weight;
  }
  return total;
}

TEST(TenantShares, TenantAloneCountsInFull) {
  TenantShares shares;
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(shares.observe("").weight, 1);
}

TEST(TenantShares, FloodCountsAboutAsMuchAsEachOther) {
  TenantShares shares;
  Rng rng(1);
  const auto total = weights(shares, 20'000, [&]() -> std::string {
    return rng.below(10) < 6 ? "flood" : "t" + std::to_string(rng.below(4));
  });
  for (int t = 0; t < 4; ++t) {
    EXPECT_NEAR(total.at("flood") / total.at("t" + std::to_string(t)), 1, 0.2) << t;
  }
}

TEST(TenantShares, EqualTenantsCountInFull) {
  TenantShares shares;
  Rng rng(2);
  const auto total = weights(shares, 8000, [&] { return "t" + std::to_string(rng.below(4)); });
  double sum = 0;
  for (const auto& [tenant, weight] : total) sum += weight;
  EXPECT_GT(sum / 4000, 0.93);
}

TEST(TenantShares, SamplingHoldsTheWeight) {
  TenantShares shares;
  Rng rng(3);
  double weight = 0;
  double sampled = 0;
  for (int i = 0; i < 10'000; ++i) {
    const bool flood = rng.below(10) != 0;
    const auto share = shares.observe(flood ? "flood" : "other");
    if (!flood) continue;
    weight += share.weight;
    sampled += share.sampled ? 1 : 0;
  }
  EXPECT_NEAR(sampled, weight, 2);
}

TEST(TenantShares, TenantThatLeftIsForgotten) {
  TenantShares shares;
  for (int i = 0; i < 2000; ++i) shares.observe(i % 2 == 0 ? "stays" : "leaves");
  for (int i = 0; i < 30'000; ++i) shares.observe("stays");
  EXPECT_EQ(shares.observe("stays").weight, 1);
}

TEST(TenantShares, InventedNamesLeaveKnownTenantsTheirPlace) {
  TenantShares shares;
  for (int i = 0; i < 500; ++i) shares.observe("real");
  double weight = 0;
  for (int i = 0; i < 20'000; ++i) {
    shares.observe("invented " + std::to_string(i));
    if (i % 20 == 0) weight += shares.observe("real").weight / 1000;
  }
  EXPECT_GE(weight, TenantShares::kLeastWeight);
  EXPECT_LE(weight, 1);
}

TEST(TenantShares, ImageHoldsEverything) {
  TenantShares shares;
  Rng rng(4);
  for (int i = 0; i < 1000; ++i) shares.observe("t" + std::to_string(rng.below(20)));
  ImageWriter out("shares", 1);
  shares.write(out);
  const std::string image = std::move(out).finish();
  auto in = ImageReader::open(image, "shares", 1);
  ASSERT_TRUE(in);
  TenantShares loaded;
  ASSERT_TRUE(loaded.read(*in));
  EXPECT_TRUE(in->complete());
  for (int i = 0; i < 1000; ++i) {
    const std::string tenant = "t" + std::to_string(rng.below(25));
    const auto a = shares.observe(tenant);
    const auto b = loaded.observe(tenant);
    ASSERT_EQ(a.weight, b.weight);
    ASSERT_EQ(a.sampled, b.sampled);
  }
}

}  // namespace
}  // namespace tailrace::predict
