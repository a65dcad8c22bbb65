#include "tailrace/evaluate/fit_run.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "tailrace/core/text.h"

namespace tailrace::evaluate {
namespace {

/// Enough that no worker waits while the others' samples are longer.
constexpr std::size_t kSlotsPerThread = 8;

Result<PromptFit> fit_prompt(dataset::Sample sample, const FitRunOptions& options, const Rng& rng) {
  PromptFit prompt;
  prompt.sample = {std::move(sample.id), std::move(sample.lengths), sample.cap};
  auto fit =
      length::fit_sample(prompt.sample, options.families, options.fit, options.bootstrap, rng);
  if (!fit) return fail(fit.error().with_context(core::quoted(prompt.sample.id)));
  prompt.fit = std::move(*fit);
  prompt.excluded = exclusion(prompt.fit.shape, options.rules);
  if (options.holdout && prompt.excluded == Exclusion::kNone &&
      prompt.fit.shape.n >= std::max<std::size_t>(options.holdout_min, 4)) {
    auto judged = length::judge_held_out(prompt.sample, options.fit,
                                         rng.fork("holdout").fork(prompt.sample.id));
    if (!judged) return fail(judged.error().with_context(core::quoted(prompt.sample.id)));
    prompt.holdout = std::move(*judged);
  }
  return prompt;
}

/// Prompts under way. The owner pushes at the back and takes from the front, workers fill any.
class Pipeline {
 public:
  explicit Pipeline(const FitRunOptions& options) : options_(options), rng_(options.seed) {
    const int threads = std::max(options.threads, 1);
    capacity_ = kSlotsPerThread * static_cast<std::size_t>(threads);
    for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_there_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  // Only the owner changes `slots_`' size and `lengths_`, so it may look without the lock.
  bool full() const {
    return slots_.size() >= capacity_ || (!empty() && lengths_ >= options_.lengths_under_way);
  }
  bool empty() const { return slots_.empty(); }

  void push(dataset::Sample sample) {
    lengths_ += sample.lengths.size();
    {
      const std::lock_guard lock(mutex_);
      slots_.push_back(std::make_unique<Slot>(std::move(sample)));
    }
    work_there_.notify_one();
  }

  /// Waits for the front.
  Result<PromptFit> take() {
    std::unique_lock lock(mutex_);
    front_done_.wait(lock, [this] { return slots_.front()->result.has_value(); });
    const std::unique_ptr<Slot> slot = std::move(slots_.front());
    slots_.pop_front();
    --next_;
    lengths_ -= slot->lengths;
    return std::move(*slot->result);
  }

 private:
  struct Slot {
    explicit Slot(dataset::Sample given)
        : sample(std::move(given)), lengths(sample.lengths.size()) {}
    dataset::Sample sample;
    std::size_t lengths;
    std::optional<Result<PromptFit>> result;
  };

  void work() {
    for (;;) {
      Slot* slot = nullptr;
      {
        std::unique_lock lock(mutex_);
        work_there_.wait(lock, [this] { return stopping_ || next_ < slots_.size(); });
        if (stopping_) return;
        slot = slots_[next_++].get();
      }
      auto result = fit_prompt(std::move(slot->sample), options_, rng_);
      {
        const std::lock_guard lock(mutex_);
        slot->result.emplace(std::move(result));
      }
      front_done_.notify_one();
    }
  }

  const FitRunOptions& options_;
  const Rng rng_;
  std::size_t capacity_ = 0;
  std::mutex mutex_;
  std::condition_variable work_there_;
  std::condition_variable front_done_;
  std::deque<std::unique_ptr<Slot>> slots_;
  std::size_t lengths_ = 0;  ///< of all `slots_`
  std::size_t next_ = 0;     ///< of `slots_`, the first that no worker has taken
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace

std::span<const length::Family> standard_families() {
  using enum length::Family;
  static constexpr std::array kFamilies{kLogT, kLogNormal, kGamma, kWeibull, kExponential, kLomax};
  return kFamilies;
}

Exclusion exclusion(const length::SampleShape& shape, const JudgingRules& rules) {
  if (shape.n < rules.min_lengths) return Exclusion::kFewLengths;
  if (shape.distinct < rules.min_distinct) return Exclusion::kFewDistinct;
  if (shape.n_capped > 0 && static_cast<double>(shape.n_capped) >=
                                rules.max_capped_share * static_cast<double>(shape.n)) {
    return Exclusion::kCapped;
  }
  return Exclusion::kNone;
}

std::optional<PileAtTop> pile_at_top(const length::LengthSample& sample) {
  constexpr std::size_t kLeastLengths = 10, kLeastDistinct = 5, kLeastCount = 3;
  constexpr double kLeastShare = 0.1;
  const std::size_t n = sample.lengths.size();
  if (sample.cap || n < kLeastLengths) return std::nullopt;
  std::vector<double> sorted = sample.lengths;
  std::sort(sorted.begin(), sorted.end());
  std::size_t distinct = 0, most_below = 0, run = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const bool begins = i == 0 || sorted[i] != sorted[i - 1];
    if (begins) {
      most_below = std::max(most_below, run);
      run = 0;
      ++distinct;
    }
    ++run;
  }
  if (distinct < kLeastDistinct || run < kLeastCount || run <= most_below ||
      static_cast<double>(run) < kLeastShare * static_cast<double>(n)) {
    return std::nullopt;
  }
  return PileAtTop{sorted.back(), run};
}

Result<void> fit_run(dataset::SampleReader& samples, const FitRunOptions& options,
                     const std::function<Result<void>(PromptFit)>& on_prompt) {
  Pipeline pipeline(options);
  // What was read before an error is handed over before it, so that the first in order is named.
  std::optional<Error> failed;
  bool at_end = false;
  for (;;) {
    while (!at_end && !pipeline.full()) {
      auto sample = samples.next();
      if (!sample) failed = sample.error();
      at_end = !sample || !*sample;
      if (!at_end) pipeline.push(std::move(**sample));
    }
    if (pipeline.empty()) break;
    auto prompt = pipeline.take();
    if (!prompt) return fail(prompt.error());
    if (auto taken = on_prompt(std::move(*prompt)); !taken) return taken;
  }
  if (failed) return fail(*failed);
  return {};
}

}  // namespace tailrace::evaluate
