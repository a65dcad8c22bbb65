// Pages and answers that real servers have sent: ours in tests/observe/data, and more in the shared
// data set where it is at hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tailrace/core/text.h"
#include "tailrace/observe/exposition.h"
#include "tailrace/observe/prometheus_answer.h"

namespace tailrace::observe {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

std::filesystem::path shared_fixtures() {
  const char* const root = std::getenv("TAILRACE_SHARED");
  return std::filesystem::path(root != nullptr ? root : TAILRACE_SOURCE_DIR "/../shared") /
         "data/wire_fixtures";
}
std::filesystem::path own_data() {
  return std::filesystem::path(TAILRACE_SOURCE_DIR) / "tests/observe/data";
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}
std::string text_of(const std::filesystem::path& path) {
  const auto text = core::read_file(path.string(), 64 << 20);
  EXPECT_TRUE(text) << text.error().message;
  return text.value_or("");
}
Exposition page_of(const std::filesystem::path& path) {
  ExpositionOptions options;
  options.time_s = 1'700'000'000;
  options.problems_max = 1000;
  return parse_exposition(text_of(path), options);
}

/// Every value of a name, in the page's order.
std::vector<double> values(const Exposition& page, std::string_view name) {
  std::vector<double> out;
  for (const Series& series : page.series) {
    if (series.key.name == name) out.push_back(series.points.at(0).value);
  }
  return out;
}

TEST(RecordedPages, OfOurOwnProgramsAreReadWithoutAProblem) {
  const Exposition engine = page_of(own_data() / "engine_under_load.prom");
  EXPECT_THAT(engine.problems, IsEmpty());
  EXPECT_THAT(values(engine, "vllm:num_requests_running"), SizeIs(1));
  EXPECT_EQ(engine.types.at("vllm:time_to_first_token_seconds"), MetricType::kHistogram);
  EXPECT_GT(values(engine, "vllm:request_generation_tokens_count").at(0), 0);
  const Exposition gateway = page_of(own_data() / "gateway_under_load.prom");
  EXPECT_THAT(gateway.problems, IsEmpty());
  EXPECT_GT(gateway.series.size(), 20U);
}

TEST(RecordedPages, OfRealPrometheusServersAreReadWithoutAProblem) {
  const auto matrix = parse_prometheus_answer(text_of(own_data() / "prometheus_matrix.json"));
  ASSERT_TRUE(matrix) << matrix.error().message;
  EXPECT_THAT(matrix->problems, IsEmpty());
  ASSERT_FALSE(matrix->series.empty());
  EXPECT_GT(matrix->series[0].points.size(), 1U);
  const auto refused = parse_prometheus_answer(text_of(own_data() / "prometheus_error.json"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
}

TEST(RecordedPages, OfEnginesInTheSharedDataAreRead) {
  const auto files = files_in(shared_fixtures() / "metrics");
  if (files.empty()) GTEST_SKIP() << "no " << shared_fixtures() << ": set TAILRACE_SHARED";
  for (const auto& file : files) {
    const Exposition page = page_of(file);
    EXPECT_GT(page.samples, 10U) << file;
    EXPECT_FALSE(page.series.empty()) << file;
    const bool several_pages = file.filename() == "vllm_0.21_h100_qwen_samples_every_15s.txt";
    if (several_pages) {
      // Scrapes in one file under "== t=15s ==" lines: those lines and the repetitions are told.
      for (const LineProblem& problem : page.problems) {
        EXPECT_TRUE(problem.message.find("==") != std::string::npos ||
                    problem.message.find("comes twice") != std::string::npos)
            << problem.message;
      }
    } else {
      EXPECT_THAT(page.problems, IsEmpty()) << file << ": " << page.problems.at(0).message;
    }
  }
}

TEST(RecordedPages, OfPrometheusInTheSharedDataAreRead) {
  const auto files = files_in(shared_fixtures() / "prometheus_api");
  if (files.empty()) GTEST_SKIP() << "no " << shared_fixtures() << ": set TAILRACE_SHARED";
  for (const auto& file : files) {
    const auto answer = parse_prometheus_answer(text_of(file));
    if (file.filename().string().find("error") != std::string::npos) {
      ASSERT_FALSE(answer) << file;
      EXPECT_EQ(answer.error().code, ErrorCode::kInvalidArgument) << file;
      continue;
    }
    ASSERT_TRUE(answer) << file << ": " << answer.error().message;
    EXPECT_THAT(answer->problems, IsEmpty()) << file;
    EXPECT_FALSE(answer->series.empty()) << file;
  }
}

}  // namespace
}  // namespace tailrace::observe
