// The table is built on first use, and any thread may be the first.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tailrace/length/length_law.h"

namespace tailrace::length {
namespace {

TEST(MomentTableThreaded, ThreadsThatMeetOnFirstUseSeeOneTable) {
  constexpr int kThreads = 8;
  std::vector<double> answers(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&answers, i] {
        if (i % 2 == 0) LengthLaw::warm_up();
        const auto law = LengthLaw::log_t(4.6, 0.75).value();
        answers[static_cast<std::size_t>(i)] = law.capped_moments_fast(2048).cvar +
                                               law.capped_mean(2048) +
                                               law.mean_inverse(Tokens{2048});
      });
    }
  }
  for (const double answer : answers) EXPECT_EQ(answer, answers.front());
  EXPECT_GT(answers.front(), 0);
}

}  // namespace
}  // namespace tailrace::length
