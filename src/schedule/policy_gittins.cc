// Gittins: the rank of what is left, given what a job has generated already.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schedule/policies.h"
#include "tailrace/length/residual_table.h"

namespace tailrace::schedule {
namespace {

class Gittins final : public Policy {
 public:
  explicit Gittins(const PolicyOptions& options)
      : quantum_(options.quantum),
        context_weight_(options.context_weight),
        ageing_per_second_(ageing_per_second(options.rank_decay, options.decay_period)) {}

  std::string_view name() const override { return "gittins"; }

  Appraisal appraise(const Job& job) const override {
    const Tokens cap = cap_tokens(job);
    const Tokens age = age_within(job.attained, cap);
    return {rank(job, age, cap) * cost_of_token(job.prompt_tokens, age), 0};
  }

  double key(const Appraisal& appraisal, MonoTime arrival) const override {
    return std::log(appraisal.size) + to_seconds(arrival) * ageing_per_second_;
  }

  std::unique_ptr<AgeKey> age_key(const Job& job) const override;

  std::string explain(const Job& job) const override {
    const Appraisal appraisal = appraise(job);
    return fmt::format("gittins: rank {:.6g} at {} tokens, quantum {} ({}); key {:.6f}",
                       appraisal.size, job.attained.count(), quantum_.count(), describe_law(job),
                       key(appraisal, job.arrival));
  }

 private:
  class Key;

  double rank(const Job& job, Tokens age, Tokens cap) const {
    const auto left = static_cast<double>((cap - age).count());
    if (!job.law) return left;
    const double rank = job.law->gittins_rank(age, cap, quantum_);
    return usable(rank) ? rank : left;
  }
  /// What the next token occupies, in tokens of compute.
  double cost_of_token(Tokens prompt, Tokens age) const {
    const auto context = static_cast<double>(std::max(Tokens{0}, prompt).count() + age.count());
    return 1 + context_weight_ * context;
  }

  Tokens quantum_;
  double context_weight_;
  double ageing_per_second_;
};

class Gittins::Key final : public AgeKey {
 public:
  Key(const Gittins& policy, const Job& job)
      : policy_(policy), cap_(cap_tokens(job)), prompt_(job.prompt_tokens), arrival_(job.arrival) {
    if (job.law)
      table_ = std::make_shared<const length::ResidualTable>(*job.law, cap_, policy.quantum_);
  }

  double at(Tokens attained) const override {
    const Tokens age = age_within(attained, cap_);
    const double rank =
        table_ ? table_->gittins_rank(age) : static_cast<double>((cap_ - age).count());
    return policy_.key({rank * policy_.cost_of_token(prompt_, age), 0}, arrival_);
  }

 private:
  Gittins policy_;  // a copy: a key may outlive its policy
  Tokens cap_;
  Tokens prompt_;
  MonoTime arrival_;
  std::shared_ptr<const length::ResidualTable> table_;
};

std::unique_ptr<AgeKey> Gittins::age_key(const Job& job) const {
  return std::make_unique<Key>(*this, job);
}

}  // namespace

std::unique_ptr<Policy> make_gittins(const PolicyOptions& options) {
  return std::make_unique<Gittins>(options);
}

}  // namespace tailrace::schedule
