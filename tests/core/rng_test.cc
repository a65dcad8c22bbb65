#include "tailrace/core/rng.h"

#include <gtest/gtest.h>

#include "tailrace/core/time.h"

namespace tailrace {
namespace {

TEST(Rng, SameSeedSameNumbersOnEveryMachine) {
  Rng a(7);
  Rng b(7);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(a.next_u64(), b.next_u64());
  // A golden value: it must not change with the compiler or the standard library.
  EXPECT_EQ(Rng(1).next_u64(), 9822250072823399003ULL);
  EXPECT_EQ(stable_hash("tailrace"), 16804009170652834320ULL);
}

TEST(Rng, AForkDependsOnItsNameAndNotOnWhatTheParentDrew) {
  Rng parent(7);
  const std::uint64_t first = parent.fork("arrivals").next_u64();
  parent.next_u64();
  EXPECT_EQ(parent.fork("arrivals").next_u64(), first);
  EXPECT_NE(parent.fork("lengths").next_u64(), first);
}

TEST(Time, SaturatesInsteadOfOverflowing) {
  EXPECT_EQ(from_seconds(1.5), std::chrono::milliseconds(1500));
  EXPECT_EQ(from_seconds(1e300), Duration::max());
  EXPECT_EQ(from_seconds(-1e300), Duration::min());
  EXPECT_EQ(from_seconds(0.0 / 0.0 * 0), Duration{0});
}

}  // namespace
}  // namespace tailrace
