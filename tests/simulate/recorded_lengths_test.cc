// What do policies and predictors know of recorded lengths?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "support/temp_folder.h"
#include "tailrace/core/rng.h"
#include "tailrace/simulate/experiment.h"
#include "tailrace/simulate/experiment_report.h"
#include "tailrace/simulate/experiment_run.h"

namespace tailrace::simulate {
namespace {

using testing::HasSubstr;
using testing::Not;

/// 2,000 requests at 40 a second, whose rows say nothing but times and lengths; or `more`.
class Recording {
 public:
  explicit Recording(const std::string& more = "") {
    std::ofstream file(path_);
    Rng rng(7);
    for (int i = 0; i < 2000; ++i) {
      const auto length = static_cast<int>(std::ceil(std::exp(4.2 + 0.9 * rng.normal())));
      const auto prompt = static_cast<int>(50 + 400 * rng.uniform());
      file << "{\"arrival_s\":" << i * 0.025 << ",\"prompt_tokens\":" << prompt
           << ",\"output_tokens\":" << length << more << "}\n";
    }
  }

  Experiment experiment(const std::string& more) const {
    auto parsed = parse_experiment("workload: {maximum_rate: off, trace: {files: ['" + path_ +
                                       "']}}\nfleet: {engine: {max_num_seqs: 16}}\n" + more,
                                   "x.yaml", {}, ".");
    EXPECT_TRUE(parsed.has_value()) << (parsed ? "" : parsed.error().message);
    return parsed ? *parsed : Experiment{};
  }

 private:
  TempFolder folder_;
  std::string path_ = folder_.file("recorded.jsonl");
};

std::map<std::uint64_t, MonoTime> ends_of(const RunSpec& spec) {
  std::map<std::uint64_t, MonoTime> ends;
  const auto totals =
      run(spec, [&](const RequestRecord& record) { ends[record.id] = *record.finished; });
  EXPECT_TRUE(totals.has_value());
  return ends;
}

TEST(RecordedLengths, ArriveInOrderUnderEveryLengthPolicyThatHasNoPredictor) {
  const Recording recording;
  const auto in_order = ends_of(recording.experiment("").cells[0].spec);
  ASSERT_EQ(in_order.size(), 2000u);
  // gittins reckons with what prompts cost as well.
  for (const char* policy : {"mean", "median", "ratio", "tie", "sjf", "ssjf", "ltr"}) {
    const auto spec = recording.experiment(std::string("policy.name: ") + policy).cells[0].spec;
    EXPECT_TRUE(ends_of(spec) == in_order) << policy << " saw a length that nobody told it";
  }
  const auto told = recording.experiment("policy.name: sjf\npredictor.kind: true-length").cells[0];
  EXPECT_FALSE(ends_of(told.spec) == in_order);
}

Result<ExperimentResult> result_of(const Experiment& experiment) {
  return run_experiment(experiment, {});
}

TEST(RecordedLengths, ArePredictedAsWellAsStatedWithoutALawInAnyRow) {
  const Recording recording;
  for (const auto& [settings, tau] : std::vector<std::pair<std::string, double>>{
           {"predictor: {kind: noisy-law, r2_mu: 0.5}", 0.5},
           {"predictor: {kind: point, r2_mu: 0.5}", 0.5},
           {"predictor: {kind: point, tau: 0.7}", 0.7},
           {"predictor: {kind: rank, tau: 0.3}", 0.3}}) {
    const auto result = result_of(recording.experiment(settings));
    ASSERT_TRUE(result.has_value()) << result.error().message;
    const RunResult& run = result->cells[0].runs[0];
    EXPECT_EQ(run.foretold, 2000u) << settings;
    EXPECT_NEAR(run.tau.value_or(-1), tau, 0.04) << settings;
  }
}

TEST(RecordedLengths, AreNoOraclesUnlessRowsHaveLaws) {
  const std::string oracle = "predictor: {kind: oracle-law}";
  const auto refused = result_of(Recording().experiment(oracle));
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("oracle-law needs the law"));
  const Recording with_laws(R"(,"law":{"mu":4.2,"sigma":0.6,"nu":4})");
  EXPECT_TRUE(result_of(with_laws.experiment(oracle)).has_value());
}

TEST(RecordedLengths, CountAsCutOnlyWhereALimitCutThem) {
  const Recording recording;
  const auto free = result_of(recording.experiment(""));
  ASSERT_TRUE(free.has_value());
  EXPECT_EQ(free->cells[0].facts.at_cap, 0);
  auto cut = recording.experiment("workload.trace.cap: 66");
  const auto capped = result_of(cut);
  ASSERT_TRUE(capped.has_value());
  EXPECT_NEAR(capped->cells[0].facts.at_cap, 0.5, 0.05);
}

TEST(RecordedLengths, APredictorThatSaysNothingIsNotPassedOver) {
  const Recording recording;
  const auto late = recording.experiment("predictor: {kind: noisy-law, delay: 1h}");
  const auto result = result_of(late);
  ASSERT_TRUE(result.has_value());
  EXPECT_THAT(to_text(late, *result), HasSubstr("foretold 0 of 2000 requests"));
  const auto in_time = recording.experiment("predictor: {kind: noisy-law}");
  const auto good = result_of(in_time);
  ASSERT_TRUE(good.has_value());
  EXPECT_THAT(to_text(in_time, *good), Not(HasSubstr("foretold")));
}

}  // namespace
}  // namespace tailrace::simulate
