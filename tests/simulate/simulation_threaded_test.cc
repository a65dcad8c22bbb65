// Runs share nothing: as many as one likes at once, each as if it were alone.
#include <gtest/gtest.h>

#include <thread>

#include "support/runs.h"

namespace tailrace::simulate {
namespace {

TEST(SimulationThreads, RunsAtOnceGiveWhatTheyGiveAlone) {
  constexpr std::uint64_t kRuns = 30;
  const std::vector<std::string> alone = testing::fingerprints(0, kRuns);
  std::vector<std::string> one;
  std::vector<std::string> two;
  std::thread first([&one] { one = testing::fingerprints(0, kRuns); });
  std::thread second([&two] { two = testing::fingerprints(0, kRuns); });
  first.join();
  second.join();
  EXPECT_EQ(one, alone);
  EXPECT_EQ(two, alone);
}

}  // namespace
}  // namespace tailrace::simulate
