// Fitting on several threads: also run under ThreadSanitizer.
#include <gtest/gtest.h>

#include <string>

#include "tailrace/core/rng.h"
#include "tailrace/evaluate/fit_document.h"
#include "tailrace/evaluate/fit_run.h"

namespace tailrace::evaluate {
namespace {

std::string recording(int prompts) {
  Rng rng(11);
  std::string text;
  for (int p = 0; p < prompts; ++p) {
    text += "{\"id\":\"p" + std::to_string(p) + "\",\"lengths\":[";
    for (int a = 0; a < 30; ++a) text += (a == 0 ? "" : ",") + std::to_string(1 + rng.below(900));
    text += "]}\n";
  }
  return text;
}

/// What is told of so many prompts before the receiver has had enough.
std::string told(int threads, std::size_t enough) {
  auto reader = dataset::SampleReader::from_bytes(recording(120), "test");
  EXPECT_TRUE(reader.has_value());
  FitRunOptions options;
  options.threads = threads;
  options.bootstrap = 3;
  std::string out;
  std::size_t prompts = 0;
  const auto done = fit_run(*reader, options, [&](const PromptFit& prompt) -> Result<void> {
    if (++prompts > enough) return fail(ErrorCode::kCancelled, "enough");
    out += prompt_json(prompt) + "\n";
    return {};
  });
  EXPECT_EQ(done.has_value(), enough >= 120);
  return out;
}

TEST(FitRunThreads, TellTheSameInTheSameOrder) {
  const std::string one = told(1, 1000);
  EXPECT_EQ(told(2, 1000), one);
  EXPECT_EQ(told(4, 1000), one);
}

TEST(FitRunThreads, EndWhenTheReceiverHasHadEnough) {
  EXPECT_EQ(told(4, 5), told(1, 5));
}

}  // namespace
}  // namespace tailrace::evaluate
