#include "tailrace/autoscaler/scale_actuator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "capacity/support/models.h"

namespace tailrace::autoscaler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// An API server with one scale, which answers when a test says so.
class FakeApi final : public kubernetes::Api {
 public:
  struct Handle final : kubernetes::ApiCall {
    explicit Handle(std::shared_ptr<bool> c) : cancelled(std::move(c)) {}
    ~Handle() override { *cancelled = true; }
    std::shared_ptr<bool> cancelled;
  };
  struct Waiting {
    kubernetes::ApiRequest request;
    UniqueFunction<void(Result<kubernetes::ApiAnswer>)> done;
    std::shared_ptr<bool> cancelled;
  };

  std::unique_ptr<kubernetes::ApiCall> send(
      kubernetes::ApiRequest request,
      UniqueFunction<void(Result<kubernetes::ApiAnswer>)> done) override {
    auto cancelled = std::make_shared<bool>(false);
    requests.push_back(request.method + " " + request.path);
    waiting.push_back({std::move(request), std::move(done), cancelled});
    return std::make_unique<Handle>(cancelled);
  }
  std::unique_ptr<kubernetes::ApiCall> list(
      std::string, UniqueFunction<void(Result<std::vector<std::string>>)>) override {
    return nullptr;
  }
  std::unique_ptr<kubernetes::ApiCall> watch(std::string, kubernetes::WatchHandlers) override {
    return nullptr;
  }

  /// Answers until nothing waits.
  void answer() {
    while (!waiting.empty()) {
      auto next = std::move(waiting.front());
      waiting.erase(waiting.begin());
      if (*next.cancelled) continue;
      if (next.request.method == "PATCH") {
        patches.push_back(next.request.body);
        replicas = patched_to;
      }
      if (unreachable) {
        next.done(fail(ErrorCode::kUnavailable, "connection refused"));
        continue;
      }
      kubernetes::ApiAnswer answer;
      answer.status = 200;
      answer.body = R"({"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"llama",)"
                    R"("namespace":"llm","resourceVersion":"7"},"spec":{"replicas":)" +
                    std::to_string(replicas) + R"(},"status":{"replicas":0}})";
      next.done(std::move(answer));
    }
  }

  int replicas = 2, patched_to = 5;
  bool unreachable = false;
  std::vector<Waiting> waiting;
  std::vector<std::string> requests, patches;
};

class Recorder final : public kubernetes::EventRecorder {
 public:
  void record(std::uint64_t, kubernetes::EventNote note) override {
    reasons.push_back(note.reason);
    notes.push_back(std::move(note));
  }
  const kubernetes::EventsSeen& seen() const override { return seen_; }
  std::vector<std::string> reasons;
  std::vector<kubernetes::EventNote> notes;

 private:
  kubernetes::EventsSeen seen_;
};

capacity::Decision decision(std::int64_t current, std::int64_t desired) {
  capacity::Decision made = capacity::testing::decision("llama", current, desired);
  made.key = {"llm", "m"};
  return made;
}

struct Scaling : ::testing::Test {
  FakeApi api;
  Recorder events;
  std::unique_ptr<ScaleActuator> actuator = ScaleActuator::make(api, &events);
  std::vector<std::optional<Outcome>> outcomes;

  void see(kubernetes::ScalerKind kind, std::int64_t spec) {
    kubernetes::DiscoveredVariant variant;
    variant.target_uid = "uid-1";
    variant.ns = "llm";
    variant.name = "llama";
    variant.scaler = kind;
    variant.target.ns = "llm";
    variant.target.name = "llama";
    variant.spec_replicas = spec;
    kubernetes::Inventory inventory;
    inventory.variants = {variant};
    actuator->see(inventory);
  }
  void apply(capacity::Decision made) {
    const std::size_t i = outcomes.size();
    outcomes.emplace_back();
    actuator->apply({{"1-llama", std::move(made)}},
                    [this, i](std::vector<Outcome> all) { outcomes[i] = all.at(0); });
  }
};

TEST_F(Scaling, PatchesADeploymentThatIsOurs) {
  see(kubernetes::ScalerKind::kDeployment, 2);
  apply(decision(2, 5));
  api.answer();
  ASSERT_TRUE(outcomes[0].has_value());
  EXPECT_TRUE(outcomes[0]->done);
  EXPECT_EQ(outcomes[0]->message, "llama scaled from 2 to 5");
  ASSERT_EQ(api.patches.size(), 1u);
  EXPECT_THAT(api.patches[0], HasSubstr(R"("replicas":5)"));
  EXPECT_THAT(api.requests.front(), HasSubstr("/namespaces/llm/deployments/llama/scale"));
  EXPECT_THAT(events.reasons, ElementsAre("ScaledUp"));
  EXPECT_EQ(events.notes[0].about.kind, "Deployment");
  EXPECT_EQ(events.notes[0].about.uid, "uid-1");
}

TEST_F(Scaling, LeavesWhatHasAScalerOfItsOwnToThatOne) {
  see(kubernetes::ScalerKind::kHorizontalPodAutoscaler, 2);
  apply(decision(2, 5));
  ASSERT_TRUE(outcomes[0].has_value());
  EXPECT_TRUE(outcomes[0]->done);
  EXPECT_THAT(outcomes[0]->message, HasSubstr("left to HorizontalPodAutoscaler llama"));
  EXPECT_THAT(api.requests, IsEmpty());
  EXPECT_THAT(events.reasons, ElementsAre("ScaledUp"));
}

TEST_F(Scaling, DoesNotUndoWhatSomebodyElseHasDone) {
  see(kubernetes::ScalerKind::kDeployment, 2);
  api.replicas = 9;
  apply(decision(2, 5));
  api.answer();
  ASSERT_TRUE(outcomes[0].has_value());
  EXPECT_FALSE(outcomes[0]->done);
  EXPECT_THAT(outcomes[0]->message, HasSubstr("asks for 9 now and not for 2"));
  EXPECT_THAT(api.patches, IsEmpty());
  EXPECT_THAT(events.reasons, IsEmpty());
}

TEST_F(Scaling, TheSameOrderAgainFindsItDone) {
  see(kubernetes::ScalerKind::kDeployment, 2);
  api.replicas = 5;
  apply(decision(2, 5));
  api.answer();
  ASSERT_TRUE(outcomes[0].has_value());
  EXPECT_TRUE(outcomes[0]->done);
  EXPECT_THAT(outcomes[0]->message, HasSubstr("already"));
  EXPECT_THAT(api.patches, IsEmpty());
}

TEST_F(Scaling, AHoldWritesNothing) {
  see(kubernetes::ScalerKind::kDeployment, 2);
  apply(decision(2, 2));
  auto uninformed = decision(2, 2);
  uninformed.informed = false;
  apply(uninformed);
  EXPECT_TRUE(outcomes[0]->done);
  EXPECT_TRUE(outcomes[1]->done);
  EXPECT_THAT(api.requests, IsEmpty());
  EXPECT_THAT(events.reasons, ElementsAre("MetricsUnavailable"));
  EXPECT_TRUE(events.notes[0].warning);
}

TEST_F(Scaling, AnApiServerThatDoesNotAnswerIsSaid) {
  see(kubernetes::ScalerKind::kDeployment, 2);
  api.unreachable = true;
  apply(decision(2, 5));
  api.answer();
  EXPECT_FALSE(outcomes[0]->done);
  EXPECT_THAT(outcomes[0]->message, HasSubstr("connection refused"));
}

TEST_F(Scaling, ANewerDecisionReplacesOneThatIsUnderWay) {
  see(kubernetes::ScalerKind::kDeployment, 2);
  apply(decision(2, 4));
  EXPECT_FALSE(outcomes[0].has_value());
  apply(decision(2, 5));
  ASSERT_TRUE(outcomes[0].has_value());
  EXPECT_THAT(outcomes[0]->message, HasSubstr("replaced by a newer decision"));
  api.answer();
  ASSERT_TRUE(outcomes[1].has_value());
  EXPECT_TRUE(outcomes[1]->done);
  EXPECT_EQ(api.patches.size(), 1u);
}

TEST_F(Scaling, WhatTheClusterDoesNotHaveIsSaid) {
  apply(decision(2, 5));
  EXPECT_FALSE(outcomes[0]->done);
  EXPECT_THAT(outcomes[0]->message, HasSubstr("no object of the cluster is known as \"llama\""));
}

TEST_F(Scaling, EndsWhileACallIsUnderWay) {
  see(kubernetes::ScalerKind::kDeployment, 2);
  apply(decision(2, 5));
  actuator.reset();
  api.answer();
  EXPECT_FALSE(outcomes[0].has_value());
  EXPECT_THAT(api.patches, IsEmpty());
}

TEST(EventOfADecision, SaysInOneWordWhatHappened) {
  EXPECT_EQ(event_of(decision(2, 5)).reason, "ScaledUp");
  EXPECT_EQ(event_of(decision(5, 2)).reason, "ScaledDown");
  EXPECT_EQ(event_of(decision(5, 0)).reason, "ScaledToZero");
  EXPECT_EQ(event_of(decision(3, 3)).reason, "");
  auto cut = decision(2, 5);
  cut.apply("limit", "no GPU is free", 2);
  EXPECT_EQ(event_of(cut).reason, "ResourceConstrained");
  EXPECT_THAT(event_of(cut).note, HasSubstr("2 replicas are held"));
}

}  // namespace
}  // namespace tailrace::autoscaler
