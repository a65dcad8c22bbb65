#include "autoscaler/condition_log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tailrace::autoscaler {
namespace {

using observe::Condition;
using observe::ConditionKind;

Condition stale(const std::string& subject, const std::string& message) {
  return {ConditionKind::kStale, subject, message};
}

TEST(ConditionLog, SaysEachOnceWhenItComesAndOnceWhenItGoes) {
  ConditionLog log;
  const std::vector<Condition> both{stale("llm/a", "nothing new for 61 s"),
                                    stale("llm/b", "nothing new for 3 s")};
  EXPECT_EQ(log.changes(both).size(), 2u);
  EXPECT_TRUE(log.changes(both).empty());
  const std::vector<Condition> older{stale("llm/a", "nothing new for 76.5 s")};
  const auto gone = log.changes(older);
  ASSERT_EQ(gone.size(), 1u) << "an age that grows is no news";
  EXPECT_TRUE(gone[0].gone);
  EXPECT_EQ(gone[0].kind, "stale");
  EXPECT_EQ(gone[0].subject, "llm/b");
  EXPECT_EQ(gone[0].message, "nothing new for 3 s");
  EXPECT_EQ(log.changes(both).size(), 1u) << "b is back";
}

TEST(ConditionLog, AnotherMessageIsAChange) {
  ConditionLog log;
  const std::vector<Condition> before{stale("llm/a", "no answer")};
  const std::vector<Condition> after{stale("llm/a", "connection refused")};
  EXPECT_EQ(log.changes(before).size(), 1u);
  const auto changed = log.changes(after);
  ASSERT_EQ(changed.size(), 2u);
  EXPECT_FALSE(changed[0].gone);
  EXPECT_EQ(changed[0].message, "connection refused");
  EXPECT_TRUE(changed[1].gone);
}

TEST(ConditionLog, NoCycleSaysMoreThanItsBoundAndTheRestFollows) {
  ConditionLog log(20);
  std::vector<Condition> many;
  for (char a = 'a'; a < 'f'; ++a) {
    for (char b = 'a'; b < 'k'; ++b) many.push_back(stale(fmt::format("llm/{}{}", a, b), "old"));
  }
  EXPECT_EQ(log.changes(many).size(), 20u);
  EXPECT_EQ(log.changes(many).size(), 20u);
  EXPECT_EQ(log.changes(many).size(), 10u);
  EXPECT_TRUE(log.changes(many).empty());
  EXPECT_EQ(log.changes({}).size(), 20u);
}

}  // namespace
}  // namespace tailrace::autoscaler
