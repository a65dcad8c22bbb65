// Policies that ask only what a job has attained: least attained service and its levels.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schedule/policies.h"

namespace tailrace::schedule {
namespace {

/// The key is a function of the tokens attained, for waiting and running jobs alike.
class ByAttained : public Policy {
 public:
  Appraisal appraise(const Job& job) const final {
    return {attained_size(std::max<std::int64_t>(0, job.attained.count())), 0};
  }
  double key(const Appraisal& appraisal, MonoTime) const final { return std::log(appraisal.size); }

 private:
  /// Above 0.
  virtual double attained_size(std::int64_t attained) const = 0;
};

/// The key of any job that has attained so much: nothing else of it counts.
template <class PolicyType>
class AttainedKey final : public AgeKey {
 public:
  explicit AttainedKey(const PolicyType& policy) : policy_(policy) {}
  double at(Tokens attained) const override {
    Job job;
    job.attained = attained;
    return policy_.key_of(job);
  }

 private:
  PolicyType policy_;
};

class Las final : public ByAttained {
 public:
  std::string_view name() const override { return "las"; }
  std::unique_ptr<AgeKey> age_key(const Job&) const override {
    return std::make_unique<AttainedKey<Las>>(*this);
  }
  std::string explain(const Job& job) const override {
    return fmt::format("las: {} tokens attained", job.attained.count());
  }

 private:
  double attained_size(std::int64_t attained) const override {
    return 1 + static_cast<double>(attained);
  }
};

/// Level i serves a job for quantum · growth^i tokens, then demotes it; in a level the earlier
/// arrival goes first. The key is the logarithm of the level's quantum.
class Mlfq final : public ByAttained {
 public:
  explicit Mlfq(const PolicyOptions& options)
      : quantum_(static_cast<double>(options.mlfq_quantum.count())),
        growth_(options.mlfq_growth),
        starvation_(
            schedule::starvation_rule(options, {.idle_iterations = 120, .run_iterations = 100})) {}

  std::string_view name() const override { return "mlfq"; }
  std::unique_ptr<AgeKey> age_key(const Job&) const override {
    return std::make_unique<AttainedKey<Mlfq>>(*this);
  }
  std::optional<StarvationRule> starvation_rule() const override { return starvation_; }
  std::string explain(const Job& job) const override {
    return fmt::format("mlfq: {} tokens attained, in the level that serves {:.6g}",
                       job.attained.count(), appraise(job).size);
  }

 private:
  double attained_size(std::int64_t attained) const override {
    const auto served = static_cast<double>(attained);
    double level = quantum_;
    for (double ends = quantum_; ends <= served; ends += level) level *= growth_;
    return level;
  }

  double quantum_;
  double growth_;
  std::optional<StarvationRule> starvation_;
};

}  // namespace

std::optional<StarvationRule> starvation_rule(const PolicyOptions& options,
                                              const StarvationRule& unset) {
  const std::int64_t idle = options.starvation_idle.value_or(unset.idle_iterations);
  if (idle == 0) return std::nullopt;
  return StarvationRule{idle, options.starvation_runs.value_or(unset.run_iterations)};
}

std::unique_ptr<Policy> make_las() {
  return std::make_unique<Las>();
}
std::unique_ptr<Policy> make_mlfq(const PolicyOptions& options) {
  return std::make_unique<Mlfq>(options);
}

}  // namespace tailrace::schedule
