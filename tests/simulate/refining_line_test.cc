#include "simulate/refining_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/runs.h"

namespace tailrace::simulate {
namespace {

using ::testing::ElementsAre;

/// Notes what it is told.
class Notebook final : public engine::PolicyScheduler {
 public:
  explicit Notebook(std::vector<std::string>& notes) : notes_(notes) {}
  void describe(schedule::Job) override {}
  void set_law(engine::SequenceId id, const length::LengthLaw& law, MonoTime) override {
    notes_.push_back(std::to_string(id.count() >> LiveTable::kSlotBits) + ": " + law.describe());
  }
  void push(const engine::SequenceView&, MonoTime) override {}
  std::optional<engine::SequenceId> head(MonoTime) override { return std::nullopt; }
  void pop_head() override {}
  bool remove(engine::SequenceId) override { return false; }
  std::size_t size() const override { return 1; }
  std::int64_t review_interval() const override { return 8; }
  void review(std::span<const engine::SequenceView>, const engine::Room&, MonoTime,
              std::vector<engine::SequenceId>&) override {
    notes_.push_back("review");
  }

 private:
  std::vector<std::string>& notes_;
};

/// Says at every refinement that as many tokens again are to come.
class Doubling final : public LengthPredictor {
 public:
  std::optional<length::LengthLaw> predict(const Request&) override { return std::nullopt; }
  std::optional<length::LengthLaw> refine(const Request&, Tokens attained) override {
    return length::LengthLaw::exponential(2 * static_cast<double>(attained.count())).value();
  }
};

TEST(RefiningLine, AsksOncePerStepAndTellsBeforeTheReview) {
  LiveTable live;
  Doubling predictor;
  std::vector<std::string> notes;
  const auto line = make_refining_line(std::make_unique<Notebook>(notes), 50, predictor, live);
  EXPECT_EQ(line->review_interval(), 8);
  engine::SequenceView sequence;
  sequence.id = engine::SequenceId(live.add(testing::request(0, 0, 10, 500), MonoTime{}).key);
  std::vector<engine::SequenceId> preempt;
  for (const std::int64_t generated : {49, 50, 57, 100, 103}) {
    sequence.generated = Tokens(generated);
    line->review(std::span(&sequence, 1), {}, MonoTime{}, preempt);
  }
  EXPECT_THAT(notes, ElementsAre("review", "1: exponential scale 100", "review", "review",
                                 "1: exponential scale 200", "review", "review"));
}

}  // namespace
}  // namespace tailrace::simulate
