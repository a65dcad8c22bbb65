// What a ConfigMap can hold of what was learnt, and how it comes there and back.
#include "tailrace/autoscaler/state_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autoscaler/support/fakes.h"
#include "kubernetes/support/cluster.h"

namespace tailrace::autoscaler {
namespace {

/// A brain that has learnt of so many accelerators, the later ones more recently.
std::string learnt(int accelerators, double& now_s) {
  Brain brain{capacity::StabilisationConfig{}};
  capacity::CycleConfig config;
  brain.configure(config);
  now_s = testing::kStartS;
  for (int a = 0; a < accelerators; ++a) {
    testing::Fleet fleet;
    for (int c = 0; c < 6; ++c) {
      now_s += 15;
      auto snapshot = fleet.snapshot(now_s);
      snapshot.models[0].variants[0].accelerator = fmt::format("gpu-{}", a);
      (void)brain.think(snapshot);
    }
  }
  return brain.save(now_s);
}

TEST(ShrunkState, ForgetsWhatWasNotSeenForLongestAndIsStillRead) {
  double now_s = 0;
  const std::string whole = learnt(8, now_s);
  std::size_t dropped = 0;
  EXPECT_EQ(shrink_state(whole, whole.size(), dropped), whole);
  EXPECT_EQ(dropped, 0u);

  const std::string less = shrink_state(whole, whole.size() * 2 / 3, dropped);
  EXPECT_LE(less.size(), whole.size() * 2 / 3);
  EXPECT_GE(dropped, 1u);
  EXPECT_LT(dropped, 8u);
  EXPECT_EQ(less.find("\"gpu-0\""), std::string::npos);
  EXPECT_NE(less.find("\"gpu-7\""), std::string::npos);
  Brain brain{capacity::StabilisationConfig{}};
  const auto read = brain.restore(less);
  EXPECT_TRUE(read) << read.error().message;
}

TEST(ShrunkState, WhatIsNoneOfOursIsLeftAsItIs) {
  std::size_t dropped = 0;
  EXPECT_EQ(shrink_state("no JSON at all", 3, dropped), "no JSON at all");
  EXPECT_EQ(shrink_state("{\"x\":1}", 3, dropped), "{\"x\":1}");
  EXPECT_EQ(dropped, 0u);
}

class StoredInACluster : public kubernetes::testing::ClusterTest {
 protected:
  static constexpr const char* kPath = "/api/v1/namespaces/own/configmaps/state";

  std::unique_ptr<StateStore> join() { return config_map_state_store(*api, "own", "state"); }
  Result<std::optional<std::string>> load(StateStore& store) {
    std::optional<Result<std::optional<std::string>>> loaded;
    store.load([&](Result<std::optional<std::string>> done) { loaded = std::move(done); });
    run(std::chrono::seconds(60));
    return loaded ? *loaded : fail(ErrorCode::kInternal, "no answer");
  }
  Result<void> save(StateStore& store, std::string document) {
    std::optional<Result<void>> saved;
    store.save(std::move(document), [&](Result<void> done) { saved = std::move(done); });
    run(std::chrono::seconds(60));
    return saved ? *saved : fail(ErrorCode::kInternal, "no answer");
  }
};

TEST_F(StoredInACluster, NothingIsThereAtFirstAndWhatIsSavedIsReadByTheNext) {
  const auto store = join();
  EXPECT_EQ(load(*store).value(), std::nullopt);
  ASSERT_TRUE(save(*store, "one"));
  EXPECT_EQ(server.dotted(kPath, "/data/state.json"), "one");
  ASSERT_TRUE(save(*store, "two"));
  EXPECT_EQ(load(*join()).value(), "two");
}

TEST_F(StoredInACluster, KeysAndLabelsOfOthersStay) {
  server.put(kPath, R"({"metadata":{"labels":{"a":"b"}},"data":{"note":"mine"}})");
  const auto store = join();
  EXPECT_EQ(load(*store).value(), std::nullopt);
  ASSERT_TRUE(save(*store, "one"));
  EXPECT_EQ(server.dotted(kPath, "/data/note"), "mine");
  EXPECT_EQ(server.dotted(kPath, "/metadata/labels/a"), "b");
}

TEST_F(StoredInACluster, ASaveOverSomebodyElsesIsRefusedOnceAndThenHolds) {
  const auto leader = join(), other = join();
  (void)load(*leader);
  ASSERT_TRUE(save(*leader, "one"));
  (void)load(*other);
  ASSERT_TRUE(save(*leader, "two"));
  const auto refused = save(*other, "three");
  ASSERT_FALSE(refused);
  EXPECT_EQ(server.dotted(kPath, "/data/state.json"), "two");
  EXPECT_TRUE(save(*other, "three"));
  EXPECT_EQ(server.dotted(kPath, "/data/state.json"), "three");
}

TEST_F(StoredInACluster, OneThatWasDeletedIsMadeAnew) {
  const auto store = join();
  (void)load(*store);
  ASSERT_TRUE(save(*store, "one"));
  server.remove(kPath);
  EXPECT_FALSE(save(*store, "two"));
  EXPECT_TRUE(save(*store, "two"));
  EXPECT_EQ(server.dotted(kPath, "/data/state.json"), "two");
}

TEST_F(StoredInACluster, AServerThatIsAwayIsAnErrorAndNotAnEmptyState) {
  server.put(kPath, R"({"data":{"state.json":"one"}})");
  server.stop();
  const auto store = join();
  EXPECT_FALSE(load(*store));
  EXPECT_FALSE(save(*store, "nothing"));
  server.start();
  EXPECT_EQ(load(*store).value(), "one");
}

}  // namespace
}  // namespace tailrace::autoscaler
