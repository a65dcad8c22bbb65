#include <gtest/gtest.h>

#include <cmath>

#include "evaluate/support/made_rows.h"
#include "tailrace/evaluate/leave_one_out.h"
#include "tailrace/evaluate/poison.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::evaluate {
namespace {

using testing::essays_and_words;

LeaveOneOutOptions small() {
  LeaveOneOutOptions options;
  options.models = 3;
  options.after = 50;
  options.window = 100;
  return options;
}

TEST(LeaveOneModelOut, AnUnseenModelIsOrderedByWhatOthersTaught) {
  const auto rows = essays_and_words(2000, 4, 7);
  const auto result =
      leave_one_model_out(rows, [] { return predict::make_online_predictor(); }, small());
  ASSERT_TRUE(result);
  ASSERT_EQ(result->models.size(), 3);
  for (const LeftOut& m : result->models) {
    EXPECT_GT(m.tau_early, 0.4) << m.model;
    EXPECT_GT(m.tau_final, 0.4) << m.model;
  }
  ASSERT_TRUE(result->share_of_final);
  EXPECT_NEAR(result->share_of_final->estimate, 1, 0.1);
  EXPECT_LE(result->share_of_final->low, result->share_of_final->estimate);
  EXPECT_GE(result->share_of_final->high, result->share_of_final->estimate);
}

/// Knows a model's order only once it has seen `kNeeded` of its answers, and nothing from others.
class SlowLearner final : public predict::Predictor {
 public:
  static constexpr int kNeeded = 200;
  std::string_view name() const override { return "slow"; }
  std::vector<predict::Prediction> predict(std::span<const predict::RequestFeatures> b) override {
    std::vector<predict::Prediction> out;
    for (const auto& f : b) {
      const bool essay = f.prompt_head.starts_with("write");
      const bool knows = seen_[f.model] >= kNeeded;
      out.push_back({*length::LengthLaw::log_normal(knows && essay ? 6 : 3, 1), true});
    }
    return out;
  }
  void observe(const predict::RequestFeatures& f, const predict::Observation&) override {
    ++seen_[f.model];
  }
  std::string save() const override {
    std::string image;
    for (const auto& [model, seen] : seen_) image += model + "=" + std::to_string(seen) + ";";
    return image;
  }
  Result<void> load(std::string_view image) override {
    while (!image.empty()) {
      const std::size_t equals = image.find('=');
      const std::size_t end = image.find(';');
      seen_[std::string(image.substr(0, equals))] =
          std::stoi(std::string(image.substr(equals + 1, end - equals - 1)));
      image.remove_prefix(end + 1);
    }
    return {};
  }

 private:
  std::map<std::string, int> seen_;
};

TEST(LeaveOneModelOut, TellsThatALearnerWithoutTransferIsLate) {
  const auto rows = essays_and_words(2400, 3, 7);
  const auto result =
      leave_one_model_out(rows, [] { return std::make_unique<SlowLearner>(); }, small());
  ASSERT_TRUE(result);
  for (const LeftOut& m : result->models) {
    EXPECT_EQ(m.tau_early, 0) << "150 answers are too few for it";
    EXPECT_GT(m.tau_final, 0.4);
    EXPECT_GT(m.tau_last, 0.4);
  }
  EXPECT_NEAR(result->share_of_final->estimate, 0, 1e-12);
}

TEST(LeaveOneModelOut, SaysWhenTooFewModelsHaveEnoughRows) {
  const auto rows = essays_and_words(300, 2, 7);
  const auto result =
      leave_one_model_out(rows, [] { return predict::make_online_predictor(); }, small());
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("250 rows"), std::string::npos) << result.error().message;
}

TEST(Poison, MixesTheAttackersShareAmongTheHonestRowsInTheirOrder) {
  const auto rows = essays_and_words(2000, 2, 5);
  for (const Poison& poison : poisons()) {
    const auto stream = poisoned(rows, poison, 0.3, 1);
    const auto honest = honest_rows(rows);
    std::size_t next = 0;
    for (const Row& row : stream) {
      if (!is_honest(row)) continue;
      ASSERT_LT(next, honest.size());
      EXPECT_EQ(row.features.prompt_head, honest[next].features.prompt_head);
      EXPECT_EQ(row.truth.length, honest[next].truth.length);
      ++next;
    }
    EXPECT_EQ(next, rows.size()) << poison.name;
    const double share = 1 - 2000.0 / static_cast<double>(stream.size());
    EXPECT_NEAR(share, 0.3, 0.03) << poison.name;
  }
}

TEST(Poison, EachAttackLooksAsItsNameSays) {
  const auto rows = essays_and_words(300, 2, 5);
  const auto attack = [&](const char* name) {
    auto stream = poisoned(rows, *find_poison(name), 0.5, 1);
    std::erase_if(stream, is_honest);
    return stream;
  };
  for (const Row& r : attack("aborts")) EXPECT_TRUE(r.truth.censored);
  for (const Row& r : attack("constant")) EXPECT_EQ(r.truth.length, Tokens(777));
  for (const Row& r : attack("one-token")) EXPECT_EQ(r.truth.length, Tokens(1));
  for (const Row& r : attack("at-cap")) EXPECT_EQ(r.truth.length, r.features.cap);
  for (const Row& r : attack("empty-prompts")) EXPECT_EQ(r.features.prompt_head, "");
  for (const Row& r : attack("huge-prompts")) {
    EXPECT_GE(r.features.prompt_tokens, Tokens(250'000));
    EXPECT_LE(r.features.prompt_head.size(), predict::kPromptEndBytes);
  }
  bool beyond_ascii = false;
  for (const Row& r : attack("random-bytes")) {
    for (const char c : r.features.prompt_head) beyond_ascii |= static_cast<signed char>(c) < 0;
  }
  EXPECT_TRUE(beyond_ascii);
}

}  // namespace
}  // namespace tailrace::evaluate
