#include "tailrace/kubernetes/scale.h"

#include <gmock/gmock.h>

#include "kubernetes/support/cluster.h"

namespace tailrace::kubernetes::testing {
namespace {

using ::testing::HasSubstr;
using Kind = ScaleOutcome::Kind;

const std::string kDeployment = "/apis/apps/v1/namespaces/llm/deployments/llama";
const std::string kScale = kDeployment + "/scale";

class ScaleTest : public ClusterTest {
 protected:
  ScaleTest() { ask(2); }
  void ask(int replicas) {
    server.put(kDeployment, R"({"spec":{"replicas":)" + std::to_string(replicas) +
                                R"(},"status":{"replicas":1}})");
  }
  Result<ScaleOutcome> change(std::int64_t from, std::int64_t to) {
    return wait<ScaleOutcome>(
        [&](auto done) { return change_scale(*api, {kScale, from, to}, std::move(done)); });
  }
  std::string asked() const { return server.dotted(kDeployment, "/spec/replicas"); }
};

TEST_F(ScaleTest, ReadsWhatIsAskedForAndWhatExists) {
  auto scale = wait<Scale>([&](auto done) { return read_scale(*api, kScale, std::move(done)); });
  ASSERT_TRUE(scale);
  EXPECT_EQ(scale->spec_replicas, 2);
  EXPECT_EQ(scale->status_replicas, 1);
  ask(0);
  scale = wait<Scale>([&](auto done) { return read_scale(*api, kScale, std::move(done)); });
  ASSERT_TRUE(scale);
  EXPECT_EQ(scale->spec_replicas, 0) << "which the server leaves out";
}

TEST_F(ScaleTest, AsksForMoreAndIsSatisfiedTheSecondTime) {
  const auto first = change(2, 5);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->kind, Kind::kPatched);
  EXPECT_EQ(first->scale.spec_replicas, 5);
  EXPECT_EQ(asked(), "5");
  const auto second = change(2, 5);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->kind, Kind::kAlready);
  EXPECT_EQ(server.count("PATCH", "/scale"), 1);
}

TEST_F(ScaleTest, LeavesWhatSomebodyElseAskedForMeanwhile) {
  ask(9);
  const auto outcome = change(2, 5);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->kind, Kind::kOvertaken);
  EXPECT_EQ(outcome->scale.spec_replicas, 9);
  EXPECT_EQ(asked(), "9");
}

TEST_F(ScaleTest, NoticesAChangeBetweenItsReadAndItsPatch) {
  server.fault = [&](const SeenRequest& request) -> std::optional<Fault> {
    if (request.method == "PATCH" && server.count("PATCH", "/scale") == 1) ask(7);
    return std::nullopt;
  };
  const auto outcome = change(2, 5);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->kind, Kind::kOvertaken);
  EXPECT_EQ(asked(), "7");
}

TEST_F(ScaleTest, TriesAgainWhenOnlyTheStatusChangedMeanwhile) {
  server.fault = [&](const SeenRequest& request) -> std::optional<Fault> {
    if (request.method == "PATCH" && server.count("PATCH", "/scale") <= 2) ask(2);
    return std::nullopt;
  };
  const auto outcome = change(2, 5);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->kind, Kind::kPatched);
  EXPECT_EQ(asked(), "5");
}

TEST_F(ScaleTest, DoesNotTryForEver) {
  server.fault = [&](const SeenRequest& request) -> std::optional<Fault> {
    if (request.method == "PATCH") ask(2);
    return std::nullopt;
  };
  EXPECT_EQ(change(2, 5).error().code, ErrorCode::kAlreadyExists);
}

TEST_F(ScaleTest, FindsOutThatALostAnswerWasDone) {
  server.fault = [&](const SeenRequest& request) -> std::optional<Fault> {
    if (request.method != "PATCH") return std::nullopt;
    Fault lost;
    lost.cut_after = true;
    return lost;
  };
  const auto lost = change(2, 5);
  EXPECT_FALSE(lost);
  EXPECT_EQ(asked(), "5");
  EXPECT_EQ(change(2, 5)->kind, Kind::kAlready);
}

TEST_F(ScaleTest, SaysWhyTheServerRefuses) {
  EXPECT_THAT(change(2, -1).error().message, HasSubstr("greater than or equal to 0"));
  EXPECT_EQ(change(2, -1).error().code, ErrorCode::kInvalidArgument);
  server.remove(kDeployment);
  EXPECT_EQ(change(2, 5).error().code, ErrorCode::kNotFound);
}

TEST(Scale, TakesNoHarmFromWhatIsNoScale) {
  for (const char* const text :
       {"", "{}", R"({"kind":"Scale"})", R"({"kind":"Scale","metadata":{},"spec":{}})",
        R"({"kind":"Scale","metadata":{"resourceVersion":"1"},"spec":{"replicas":-3}})",
        R"({"kind":"Scale","metadata":{"resourceVersion":"\""},"spec":{}})"}) {
    const auto scale = parse_scale(text);
    ASSERT_FALSE(scale) << text;
    EXPECT_EQ(scale.error().code, ErrorCode::kDataLoss);
  }
}

}  // namespace
}  // namespace tailrace::kubernetes::testing
