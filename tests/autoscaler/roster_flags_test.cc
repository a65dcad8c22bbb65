#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tailrace/autoscaler/collector.h"

namespace tailrace::autoscaler {
namespace {

using ::testing::ElementsAre;

class FoundAtOnce final : public kubernetes::Discovery {
 public:
  explicit FoundAtOnce(kubernetes::DiscoveredVariant variant) {
    inventory_.variants.push_back(std::move(variant));
  }
  void discover(UniqueFunction<void(Result<kubernetes::Inventory>)> done) override {
    done(inventory_);
  }

 private:
  kubernetes::Inventory inventory_;
};

KnownVariant known(const kubernetes::DiscoveredVariant& found) {
  FoundAtOnce discovery(found);
  const auto roster = cluster_roster(discovery, {}, [](const kubernetes::Inventory&) {});
  Known out;
  roster->look(0, [&](Known now) { out = std::move(now); });
  return out.variants.at(0);
}

kubernetes::DiscoveredVariant llama() {
  kubernetes::DiscoveredVariant found;
  found.ns = "llm";
  found.name = "llama-h100";
  found.model = "llama";
  return found;
}

TEST(ClusterRoster, NamesByWhichEnginesCallTheModelAreItsOtherNames) {
  auto found = llama();
  found.engine.served_names = {"meta/llama", "llama", "sql-adapter"};
  EXPECT_THAT(known(found).model_aliases, ElementsAre("meta/llama", "sql-adapter"));
  EXPECT_EQ(known(found).key.model, "llama");
}

TEST(ClusterRoster, LimitsAreThoseOfTheFlags) {
  auto found = llama();
  found.engine.max_num_seqs = 64;
  found.engine.max_batched_tokens = 4096;
  found.engine.kv_tokens = 200'000;
  const auto limits = known(found).limits;
  EXPECT_EQ(limits.max_num_seqs, 64);
  EXPECT_EQ(limits.max_batched_tokens, 4096);
  EXPECT_EQ(limits.kv_tokens, 200'000);
  EXPECT_EQ(known(llama()).limits.kv_tokens, 0) << "not known";
}

TEST(ClusterRoster, EnginesInOneReplicaAddTheirLimits) {
  auto found = llama();
  found.engine.max_num_seqs = 64;
  found.engine.kv_tokens = std::numeric_limits<std::int64_t>::max();
  const auto one = known(found).limits;
  found.engine.data_parallel = 4;
  const auto four = known(found).limits;
  EXPECT_EQ(four.max_num_seqs, 256);
  EXPECT_EQ(four.max_batched_tokens, 4 * one.max_batched_tokens) << "each has the usual one";
  EXPECT_GT(four.kv_tokens, 0);
}

}  // namespace
}  // namespace tailrace::autoscaler
