#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "autoscaler/support/keda_record.h"
#include "tailrace/autoscaler/keda.h"

namespace tailrace::autoscaler {
namespace {

using std::chrono::seconds;
using testing::record_of;

TEST(KedaBoard, KnowsNothingBeforeTheFirstCycle) {
  const KedaBoard board;
  EXPECT_EQ(board.desired("llm", "a").error().code, ErrorCode::kUnavailable);
}

TEST(KedaBoard, AVariantOfWhichNothingWasDecidedIsAnErrorAndNeverZero) {
  KedaBoard board;
  board.record(record_of(0, false), true);
  EXPECT_EQ(board.desired("llm", "a").error().code, ErrorCode::kUnavailable);
  board.record(record_of(3), true);
  EXPECT_EQ(board.desired("llm", "a"), 3);
  board.record(record_of(3, false), true);
  EXPECT_EQ(board.desired("llm", "a"), 3) << "held";
}

TEST(KedaBoard, ABlindCycleKeepsWhatWasDecided) {
  KedaBoard board;
  board.record(record_of(3), true);
  CycleRecord blind;
  blind.blind = "nothing answers";
  board.record(blind, true);
  EXPECT_EQ(board.desired("llm", "a"), 3);
}

TEST(KedaBoard, OneThatDoesNotLeadKnowsNothing) {
  KedaBoard board;
  board.record(record_of(3), true);
  board.record(record_of(3), false);
  const auto desired = board.desired("llm", "a");
  ASSERT_FALSE(desired.has_value());
  EXPECT_EQ(desired.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(desired.error().message, ::testing::HasSubstr("does not lead"));
}

TEST(KedaBoard, AVariantThatVanishedIsNotFound) {
  KedaBoard board;
  board.record(record_of(3), true);
  board.record({}, true);
  EXPECT_EQ(board.desired("llm", "a").error().code, ErrorCode::kNotFound);
}

TEST(KedaBoard, ManyReadersSeeOnlyWhatWasWritten) {
  KedaBoard board;
  board.record(record_of(1), true);
  std::atomic<bool> wrong{false};
  std::vector<std::thread> readers;
  readers.reserve(4);
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      std::uint64_t version = 0;
      while (!board.closed()) {
        const auto desired = board.desired("llm", "a");
        if (!desired || *desired < 1 || *desired > 200) wrong = true;
        version = board.wait(version, seconds(1));
      }
    });
  }
  for (std::int64_t n = 1; n <= 200; ++n) board.record(record_of(n), true);
  board.close();
  for (auto& reader : readers) reader.join();
  EXPECT_FALSE(wrong);
}

}  // namespace
}  // namespace tailrace::autoscaler
