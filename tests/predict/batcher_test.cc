#include "tailrace/predict/batcher.h"

#include <gtest/gtest.h>

namespace tailrace::predict {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

MonoTime at(Duration since_start) {
  return MonoTime(since_start);
}

PredictRequest request(std::uint64_t id) {
  return {JobId(id), {}};
}

std::vector<std::uint64_t> ids(const std::vector<PredictRequest>& batch) {
  std::vector<std::uint64_t> out;
  for (const auto& entry : batch) out.push_back(entry.id.count());
  return out;
}

TEST(Batcher, IsNeverDueWhileNothingWaits) {
  Batcher batcher;
  EXPECT_FALSE(batcher.due());
  EXPECT_TRUE(batcher.take(at(milliseconds(100))).empty());
}

TEST(Batcher, OneRequestWaitsForCompanyExactlyThreeMilliseconds) {
  Batcher batcher;
  batcher.add(request(1), at(milliseconds(10)));
  EXPECT_EQ(batcher.due(), at(milliseconds(13)));
  EXPECT_TRUE(batcher.take(at(milliseconds(13) - Duration(1))).empty());
  EXPECT_EQ(batcher.pending(), 1U);
  EXPECT_EQ(ids(batcher.take(at(milliseconds(13)))), std::vector<std::uint64_t>{1});
  EXPECT_EQ(batcher.pending(), 0U);
}

TEST(Batcher, LaterRequestsDoNotPutOffTheFirst) {
  Batcher batcher;
  batcher.add(request(1), at(milliseconds(0)));
  batcher.add(request(2), at(milliseconds(2)));
  EXPECT_EQ(batcher.due(), at(milliseconds(3)));
  EXPECT_EQ(ids(batcher.take(at(milliseconds(3)))), (std::vector<std::uint64_t>{1, 2}));
}

TEST(Batcher, ThirtySecondRequestMakesTheBatchDueAtOnce) {
  Batcher batcher;
  for (std::uint64_t id = 1; id <= 31; ++id) batcher.add(request(id), at(microseconds(id)));
  EXPECT_TRUE(batcher.take(at(microseconds(31))).empty());
  batcher.add(request(32), at(microseconds(32)));
  EXPECT_EQ(batcher.due(), at(microseconds(32)));
  EXPECT_EQ(batcher.take(at(microseconds(32))).size(), 32U);
}

TEST(Batcher, BatchHoldsAtMostThirtyTwoAndTheRestKeepsItsOwnTime) {
  Batcher batcher;
  for (std::uint64_t id = 1; id <= 40; ++id) batcher.add(request(id), at(microseconds(10 * id)));
  const auto batch = batcher.take(at(microseconds(400)));
  ASSERT_EQ(batch.size(), 32U);
  EXPECT_EQ(batch.front().id, JobId(1));
  EXPECT_EQ(batch.back().id, JobId(32));
  EXPECT_EQ(batcher.pending(), 8U);
  EXPECT_TRUE(batcher.take(at(microseconds(400))).empty());
  EXPECT_EQ(batcher.due(), at(microseconds(330) + milliseconds(3)));
}

TEST(Batcher, RequestWhoseJobLeftIsNotPredicted) {
  Batcher batcher;
  for (std::uint64_t id = 1; id <= 3; ++id) batcher.add(request(id), at(milliseconds(id)));
  batcher.remove(JobId(1));
  batcher.remove(JobId(99));
  EXPECT_EQ(batcher.due(), at(milliseconds(5)));
  EXPECT_EQ(ids(batcher.take(at(milliseconds(5)))), (std::vector<std::uint64_t>{2, 3}));
}

TEST(Batcher, OldestGivesWayWhenTooManyWait) {
  Batcher batcher({.batch_max = 100, .wait_max = milliseconds(3), .pending_max = 3});
  EXPECT_TRUE(batcher.add(request(1), at(milliseconds(0))));
  EXPECT_TRUE(batcher.add(request(2), at(milliseconds(1))));
  EXPECT_TRUE(batcher.add(request(3), at(milliseconds(1))));
  EXPECT_FALSE(batcher.add(request(4), at(milliseconds(1))));
  EXPECT_EQ(batcher.pending(), 3U);
  EXPECT_EQ(ids(batcher.take(at(milliseconds(4)))), (std::vector<std::uint64_t>{2, 3, 4}));
}

TEST(Batcher, ZeroLimitsStillLetOneRequestThrough) {
  Batcher batcher({.batch_max = 0, .wait_max = Duration(0), .pending_max = 0});
  EXPECT_TRUE(batcher.add(request(1), at(Duration(0))));
  EXPECT_EQ(batcher.take(at(Duration(0))).size(), 1U);
}

}  // namespace
}  // namespace tailrace::predict
