// Does every run end, whatever the policy, its options and the workload?
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/support/engines.h"
#include "tailrace/core/rng.h"
#include "tailrace/engine/batch_engine.h"
#include "tailrace/engine/policy_scheduler.h"

namespace tailrace::engine {
namespace {

constexpr std::int64_t kPrompt = 30;
constexpr std::int64_t kOutput = 120;

class Ends final : public LifeSink {
 public:
  void on_admitted(SequenceId, MonoTime, Tokens) override {}
  void on_first_token(SequenceId, MonoTime) override {}
  void on_finished(SequenceId, MonoTime) override { ++finished; }
  void on_preempted(SequenceId id, MonoTime, Tokens generated) override {
    std::int64_t& last = generated_at[id.count()];
    went_back = went_back || generated.count() < last;
    last = generated.count();
  }
  std::size_t finished = 0;
  bool went_back = false;
  std::map<std::uint64_t, std::int64_t> generated_at;
};

PolicySchedulerOptions random_options(Rng& rng) {
  PolicySchedulerOptions options;
  auto names = schedule::policy_names();
  for (const auto name : schedule::batch_policy_names()) names.push_back(name);
  options.policy = names[rng.below(names.size())];
  const auto maybe = [&rng] { return rng.uniform() < 0.5; };
  auto& preemption = options.preemption;
  if (maybe()) preemption.review_iterations = 1 + rng.below(20);
  if (maybe()) preemption.max_per_job = rng.below(1000);
  if (maybe()) preemption.hysteresis = 0.05 + 0.95 * rng.uniform();
  if (maybe()) preemption.quantum = 1 + rng.below(40);
  auto& policy = options.policy_options;
  if (maybe()) policy.gittins_length_exponent = 2 * rng.uniform();
  if (maybe()) policy.gittins_decay = 0.5 + 0.5 * rng.uniform();
  if (maybe()) policy.gittins_prefill_weight = rng.uniform();
  if (maybe()) policy.gittins_context_weight = 0.01 * rng.uniform();
  if (maybe()) policy.ltr_preemptive = true;
  if (maybe()) policy.starvation_idle = static_cast<std::int64_t>(rng.below(50));
  if (maybe()) policy.starvation_runs = 1 + static_cast<std::int64_t>(rng.below(50));
  if (maybe()) options.waiting_bound = std::chrono::milliseconds(rng.below(500));
  return options;
}

TEST(PolicySchedulerProperty, EveryRunEndsUnderEveryPolicyAndOption) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    PolicySchedulerOptions options = random_options(rng);
    EngineConfig config =
        token_engine(linear_cost(1, 0.001, 0, 0), 1 + rng.below(8),
                     8 + static_cast<std::int64_t>(rng.below(200)),
                     kPrompt + kOutput + static_cast<std::int64_t>(rng.below(300)));
    if (rng.uniform() < 0.5) config.watermark_blocks = static_cast<std::int64_t>(rng.below(20));
    if (rng.uniform() < 0.5) config.reserve_full_sequence = false;
    if (rng.uniform() < 0.3) config.prefix_caching = true;
    options.slots = static_cast<std::size_t>(config.max_num_seqs);
    auto made = PolicyScheduler::make(options);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    PolicyScheduler* const scheduler = made->get();
    BatchEngine engine(config, std::move(*made));
    Ends ends;
    MonoTime now;
    constexpr std::size_t kRequests = 40;
    for (std::uint64_t id = 1; id <= kRequests; ++id) {
      schedule::Job job;
      job.id = JobId(id);
      job.prompt_tokens = Tokens(1 + static_cast<std::int64_t>(rng.below(kPrompt)));
      job.cap = Tokens(kOutput);
      job.priority = static_cast<int>(rng.below(3));
      if (rng.uniform() < 0.8) job.law = length::LengthLaw::log_t(4 * rng.uniform(), 0.5).value();
      scheduler->describe(job);
      const Tokens output(1 + static_cast<std::int64_t>(rng.below(kOutput)));
      ASSERT_TRUE(engine.add({SequenceId(id), job.prompt_tokens, output}, now).has_value());
      const MonoTime until = now + std::chrono::milliseconds(rng.below(60));
      engine.advance(now, until, false, ends);
      now = until;
    }
    // A hundred times the work of one after the other.
    const MonoTime end = now + std::chrono::milliseconds(100 * kRequests * (kPrompt + kOutput));
    engine.advance(now, end, false, ends);
    EXPECT_EQ(ends.finished, kRequests) << "seed " << seed << ", policy " << options.policy;
    EXPECT_FALSE(ends.went_back) << "seed " << seed << ", policy " << options.policy;
    EXPECT_EQ(engine.state().kv_used, Tokens(0)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tailrace::engine
