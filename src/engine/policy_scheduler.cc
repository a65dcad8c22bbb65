#include "tailrace/engine/policy_scheduler.h"

#include <unordered_map>

#include "tailrace/schedule/waiting_queue.h"

namespace tailrace::engine {
namespace {

class QueueScheduler final : public PolicyScheduler {
 public:
  QueueScheduler(std::unique_ptr<schedule::Policy> policy, const PolicySchedulerOptions& options)
      : queue_(std::move(policy), options.waiting_bound), slots_(options.slots) {}

  void describe(schedule::Job job) override { described_.insert_or_assign(job.id, std::move(job)); }
  void set_law(SequenceId id, const length::LengthLaw& law, MonoTime) override {
    const JobId job(id.count());
    const auto found = described_.find(job);
    if (found == described_.end()) return;
    found->second.law = law;
    (void)queue_.set_law(job, law);
  }

  void push(const SequenceView& sequence, MonoTime) override {
    const JobId id(sequence.id.count());
    schedule::Job& job = described_[id];
    job.id = id;
    job.arrival = sequence.arrival;
    job.prompt_tokens = sequence.prompt_tokens;
    job.attained = sequence.generated;
    (void)queue_.push(job);
    queue_.set_load(queue_.size(), slots_);
  }
  std::optional<SequenceId> head(MonoTime now) override {
    const schedule::Job* job = queue_.peek(now);
    if (job == nullptr) return std::nullopt;
    head_ = job->id;
    return SequenceId(job->id.count());
  }
  void pop_head() override {
    (void)queue_.remove(head_);
    queue_.set_load(queue_.size(), slots_);
  }
  bool remove(SequenceId id) override {
    described_.erase(JobId(id.count()));
    return queue_.remove(JobId(id.count())).has_value();
  }
  std::size_t size() const override { return queue_.size(); }
  void ended(SequenceId id) override { described_.erase(JobId(id.count())); }

 private:
  schedule::WaitingQueue queue_;
  std::size_t slots_;
  std::unordered_map<JobId, schedule::Job> described_;
  JobId head_;
};

}  // namespace

Result<std::unique_ptr<PolicyScheduler>> PolicyScheduler::make(
    const PolicySchedulerOptions& options) {
  auto policy = schedule::make_policy(options.policy, options.policy_options);
  if (!policy) return fail(policy.error());
  return std::make_unique<QueueScheduler>(std::move(*policy), options);
}

}  // namespace tailrace::engine
