#include "tailrace/engine/policy_scheduler.h"

#include <unordered_map>
#include <utility>

#include "tailrace/core/check.h"
#include "tailrace/schedule/starvation.h"
#include "tailrace/schedule/waiting_queue.h"

namespace tailrace::engine {
namespace {

using schedule::RunningJob;
using schedule::WaitingJob;

constexpr int kPromotion = 1'000'000;  // above every priority that a client can ask for

/// What is kept of a sequence from describe() or push() to its end.
struct Entry {
  schedule::Job job;                          // `attained` is that of its last push
  std::unique_ptr<schedule::AgeKey> age_key;  // once it has been reviewed while running
  std::optional<double> waiting_key;          // once it has been looked at in the line
  bool running = false;
};

JobId job_of(SequenceId id) {
  return JobId(id.count());
}

class QueueScheduler final : public PolicyScheduler {
 public:
  QueueScheduler(std::unique_ptr<schedule::Policy> policy, const PolicySchedulerOptions& options,
                 const schedule::PreemptionLimits& limits)
      : limits_(limits), slots_(options.slots), queue_(std::move(policy), options.waiting_bound) {
    reviews_ = queue_.policy().age_key(schedule::Job{}) != nullptr && limits.review_iterations > 0;
    if (const auto rule = queue_.policy().starvation_rule()) idle_.emplace(*rule);
  }

  void describe(schedule::Job job) override {
    const JobId id = job.id;
    entries_.insert_or_assign(id, Entry{std::move(job), nullptr, std::nullopt, false});
  }

  void set_law(SequenceId id, const length::LengthLaw& law, MonoTime) override {
    const auto found = entries_.find(job_of(id));
    if (found == entries_.end()) return;
    Entry& entry = found->second;
    entry.job.law = law;
    entry.age_key.reset();
    entry.waiting_key.reset();
    (void)queue_.set_law(job_of(id), law);  // it may run already
  }

  void push(const SequenceView& sequence, MonoTime) override {
    Entry& entry = entries_[job_of(sequence.id)];
    entry.job.id = job_of(sequence.id);
    entry.job.arrival = sequence.arrival;
    entry.job.prompt_tokens = sequence.prompt_tokens;
    entry.job.attained = sequence.generated;
    entry.running = false;
    entry.waiting_key.reset();
    TAILRACE_CHECK(queue_.push(entry.job).has_value());
    queue_.set_load(queue_.size(), slots_);
    if (idle_) idle_->waits(entry.job.id, iteration_);
  }

  std::optional<SequenceId> head(MonoTime now) override {
    const schedule::Job* job = queue_.peek(now);
    if (job == nullptr) return std::nullopt;
    head_ = job->id;
    return SequenceId(job->id.count());
  }

  void pop_head() override {
    TAILRACE_CHECK(queue_.remove(head_).has_value());
    queue_.set_load(queue_.size(), slots_);
    entries_.at(head_).running = true;
    if (idle_) idle_->runs(head_, iteration_);
  }

  bool remove(SequenceId id) override {
    if (!queue_.remove(job_of(id))) return false;
    queue_.set_load(queue_.size(), slots_);
    forget(job_of(id));
    return true;
  }

  std::size_t size() const override { return queue_.size(); }
  void ended(SequenceId id) override { forget(job_of(id)); }

  std::size_t victim(std::span<const SequenceView> running, MonoTime now) override {
    if (!reviews_) return BatchScheduler::victim(running, now);
    return schedule::choose_victim(judged(running));
  }

  std::int64_t review_interval() const override {
    if (idle_) return 1;  // it counts iterations
    return reviews_ ? limits_.review_iterations : 0;
  }

  void review(std::span<const SequenceView> running, const Room& room, MonoTime now,
              std::vector<SequenceId>& preempt) override {
    ++iteration_;
    if (idle_) move_starving();
    if (!reviews_ || iteration_ % (idle_ ? limits_.review_iterations : 1) != 0) return;
    const std::vector<RunningJob> judged_running = judged(running);
    const std::vector<WaitingJob> line = judged_line(judged_running, room, now);
    const auto leaving = schedule::choose_preemptions(
        judged_running, line, {static_cast<std::int64_t>(room.free_slots), room.free_blocks},
        limits_);
    for (const std::size_t index : leaving) preempt.push_back(running[index].id);
  }

 private:
  std::vector<RunningJob> judged(std::span<const SequenceView> running) {
    std::vector<RunningJob> all;
    all.reserve(running.size());
    for (const SequenceView& s : running) all.push_back(judge(s));
    return all;
  }

  RunningJob judge(const SequenceView& s) {
    Entry& entry = entries_.at(job_of(s.id));
    if (!entry.age_key) entry.age_key = queue_.policy().age_key(entry.job);
    // Its last token is sampled from the context before it, so that one is computed later.
    const bool in_prefill = s.computed + Tokens(1) < s.prompt_tokens + s.generated;
    const bool promoted = idle_ && idle_->promoted(job_of(s.id));
    return {entry.age_key->at(s.generated),
            entry.job.priority,
            (s.generated - entry.job.attained).count(),
            s.preemptions,
            s.blocks,
            in_prefill || promoted || entry.age_key->protected_at(s.generated)};
  }

  /// Of those that wait, the ones that might find a place: none after the first that neither fits
  /// into the free slots nor displaces the worst running job.
  std::vector<WaitingJob> judged_line(std::span<const RunningJob> running, const Room& room,
                                      MonoTime now) {
    std::vector<WaitingJob> line;
    const RunningJob& worst = running[schedule::choose_victim(running)];
    queue_.walk(now, running.size() + room.free_slots, [&](const schedule::Job& job, bool) {
      Entry& entry = entries_.at(job.id);
      if (!entry.waiting_key) entry.waiting_key = queue_.policy().key_of(job);
      // Its whole context and the token that comes next.
      const std::int64_t context = (job.prompt_tokens + job.attained).count() + 1;
      const std::int64_t blocks = (context + room.block_tokens - 1) / room.block_tokens;
      line.push_back({*entry.waiting_key, job.priority, blocks});
      return line.size() > room.free_slots && !schedule::displaces(line.back(), worst, limits_);
    });
    return line;
  }

  void move_starving() {
    const schedule::IdleCounter::Changes changes = idle_->advance(iteration_);
    for (const JobId id : changes.promoted) set_priority(id, kPromotion);
    for (const JobId id : changes.demoted) set_priority(id, -kPromotion);
  }
  void set_priority(JobId id, int change) {
    Entry& entry = entries_.at(id);
    entry.job.priority += change;
    if (!entry.running) (void)queue_.set_priority(id, entry.job.priority);
  }

  void forget(JobId id) {
    entries_.erase(id);
    if (idle_) idle_->ended(id);
  }

  schedule::PreemptionLimits limits_;
  std::size_t slots_;
  schedule::WaitingQueue queue_;
  std::unordered_map<JobId, Entry> entries_;  // looked up, never iterated
  std::optional<schedule::IdleCounter> idle_;
  std::int64_t iteration_ = 0;  // reviews so far, which are iterations where idle ones are counted
  bool reviews_ = false;        // the policy ranks running jobs, and preemption is on
  JobId head_;
};

}  // namespace

Result<std::unique_ptr<PolicyScheduler>> PolicyScheduler::make(
    const PolicySchedulerOptions& options) {
  auto policy = schedule::make_policy(options.policy, options.policy_options);
  if (!policy) return fail(policy.error());
  auto limits = schedule::preemption_limits(options.policy, options.preemption);
  if (!limits) return fail(limits.error());
  return std::make_unique<QueueScheduler>(std::move(*policy), options, *limits);
}

}  // namespace tailrace::engine
