#include <gtest/gtest.h>

#include <memory>

#include "tailrace/queueing/sizing.h"

namespace tailrace::queueing {
namespace {

/// A replica of its own kind: TTFT is 10 ms alone and grows as in a queue that holds 30 a second.
class QueueOfThirty final : public LatencyOracle {
 public:
  Result<Latency> latency(const ServiceModel&, const Workload& w) const override {
    ++asked;
    Latency out;
    out.max_rate_per_s = 30;
    out.stable = w.rate_per_s < 30;
    out.from_oracle = true;
    if (out.stable) {
      out.ttft_ms = 10 / (1 - w.rate_per_s / 30);
      out.itl_ms = 1;
      out.e2e_ms = *out.ttft_ms + 100;
    }
    return out;
  }
  mutable int asked = 0;
};

class Speechless final : public LatencyOracle {
 public:
  explicit Speechless(ErrorCode code) : code_(code) {}
  Result<Latency> latency(const ServiceModel&, const Workload&) const override {
    return fail(code_, "nothing to say");
  }

 private:
  ErrorCode code_;
};

ServiceModel near_forty() {
  ServiceModel model;
  model.iteration = {.alpha_ms = 6, .beta_ms = 0.02, .gamma_ms = 7.6e-5};
  model.limits.max_num_seqs = 256;
  return model;
}

Workload at(double rate) {
  return Workload::of(rate, 512, 128);
}

double share_of_largest(const ServiceModel& model, double share) {
  return share * latency(model, at(1))->max_rate_per_s;
}

TEST(Oracle, IsNotAskedWhereTheFormulaIsInRange) {
  ServiceModel model = near_forty();
  const auto oracle = std::make_shared<QueueOfThirty>();
  model.oracle = oracle;
  const auto got = latency(model, at(share_of_largest(near_forty(), 0.3)));
  ASSERT_TRUE(got.has_value());
  EXPECT_FALSE(got->from_oracle);
  EXPECT_EQ(oracle->asked, 0);
}

TEST(Oracle, AnswersForTheFormulaAndLeavesTheReasonStanding) {
  ServiceModel model = near_forty();
  model.oracle = std::make_shared<QueueOfThirty>();
  const auto got = latency(model, at(share_of_largest(near_forty(), 0.98)));
  ASSERT_TRUE(got.has_value());
  EXPECT_TRUE(got->from_oracle);
  EXPECT_EQ(got->out_of_range, OutOfRange::kNearSaturation);
  EXPECT_FALSE(got->stable);  // it is more than 30 a second
}

TEST(Oracle, ThatCannotSayLeavesTheFormulaItsAnswerMarkedAsOutOfRange) {
  ServiceModel model = near_forty();
  const Workload w = at(share_of_largest(model, 0.98));
  const auto formula = latency(model, w);
  model.oracle = std::make_shared<Speechless>(ErrorCode::kUnsupported);
  const auto got = latency(model, w);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->ttft_ms, formula->ttft_ms);
  EXPECT_EQ(got->out_of_range, OutOfRange::kNearSaturation);
  model.oracle = std::make_shared<Speechless>(ErrorCode::kInternal);
  EXPECT_FALSE(latency(model, w).has_value());
}

TEST(Oracle, SizesWhereTheFormulaEndsOutOfRange) {
  ServiceModel model = near_forty();
  const Targets targets{.ttft_ms = 1000};
  const auto formula = size(model, at(0), targets);
  ASSERT_TRUE(formula.has_value());
  ASSERT_NE(formula->achieved.out_of_range, OutOfRange::kNone);
  const auto oracle = std::make_shared<QueueOfThirty>();
  model.oracle = oracle;
  const auto got = size(model, at(0), targets);
  ASSERT_TRUE(got.has_value());
  EXPECT_TRUE(got->reachable);
  EXPECT_NEAR(got->rate_per_s, 30 * (1 - 10.0 / 1000), 0.03 * 30);
  EXPECT_LE(*got->achieved.ttft_ms, 1000);
  EXPECT_TRUE(got->achieved.from_oracle);
  EXPECT_LE(oracle->asked, 25);
}

TEST(Oracle, SizesUpToItsOwnLargestRateWhereEveryTargetHolds) {
  ServiceModel model = near_forty();
  model.oracle = std::make_shared<QueueOfThirty>();
  const auto got = size(model, at(0), {.itl_ms = 500});
  ASSERT_TRUE(got.has_value());
  EXPECT_NEAR(got->rate_per_s, 30, 0.5);
  EXPECT_EQ(got->limit, SizingLimit::kStability);
}

TEST(Oracle, ThatCannotSizeLeavesTheFormulaItsRate) {
  ServiceModel model = near_forty();
  const Targets targets{.ttft_ms = 1000};
  const auto formula = size(model, at(0), targets);
  model.oracle = std::make_shared<Speechless>(ErrorCode::kUnsupported);
  const auto got = size(model, at(0), targets);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->rate_per_s, formula->rate_per_s);
}

}  // namespace
}  // namespace tailrace::queueing
