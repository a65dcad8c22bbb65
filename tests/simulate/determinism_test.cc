// The same seed gives the same bytes: now, again, and from any compiler.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "support/runs.h"

namespace tailrace::simulate {
namespace {

const char* const kGolden = TAILRACE_SOURCE_DIR "/tests/simulate/golden/varied_runs.txt";

TEST(Determinism, TheSameSeedGivesTheSameRecordsAgain) {
  EXPECT_EQ(testing::fingerprints(0, 40), testing::fingerprints(0, 40));
}

TEST(Determinism, AnotherSeedGivesOtherRecords) {
  RunSpec spec;
  spec.workload.arrivals.count = 50;
  const auto print = [&spec](std::uint64_t seed) {
    spec.seed = seed;
    testing::Ran ran;
    ran.totals = run(spec, [&ran](const RequestRecord& r) { ran.records.push_back(r); }).value();
    return testing::fingerprint(ran);
  };
  EXPECT_NE(print(1), print(2));
}

// Written by one compiler, read by all that build this test.
TEST(Determinism, EveryCompilerGetsTheCommittedRecords) {
  const std::vector<std::string> prints = testing::fingerprints(0, 200);
  if (std::getenv("TAILRACE_WRITE_GOLDEN") != nullptr) {
    std::ofstream out(kGolden);
    for (const std::string& print : prints) out << print << '\n';
    ASSERT_TRUE(out.good()) << kGolden;
  }
  std::ifstream in(kGolden);
  std::vector<std::string> golden;
  for (std::string line; std::getline(in, line);) golden.push_back(line);
  EXPECT_EQ(prints, golden)
      << "a run's records have changed. Where that is meant, write them anew: "
         "TAILRACE_WRITE_GOLDEN=1 build/bin/simulate_test "
         "--gtest_filter='Determinism.*'";
}

}  // namespace
}  // namespace tailrace::simulate
