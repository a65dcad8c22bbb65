// Policies that rank a job by what is left of it, given what it has generated: gittins, trail,
// elis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <vector>

#include "schedule/job_length.h"
#include "schedule/policies.h"
#include "schedule/start_ranks.h"
#include "schedule/weighted_rank.h"
#include "tailrace/length/residual_table.h"

namespace tailrace::schedule {
namespace {

/// What is left of a job's length at an age, 0 ≤ age < cap.
class Rest {
 public:
  virtual ~Rest() = default;
  virtual double mean(Tokens age) const = 0;
  virtual double rank(Tokens age) const = 0;
};

class UnknownRest final : public Rest {
 public:
  explicit UnknownRest(Tokens cap) : cap_(cap) {}
  double mean(Tokens age) const override { return left_at_most(age, cap_); }
  double rank(Tokens age) const override { return left_at_most(age, cap_); }

 private:
  Tokens cap_;
};

class TabulatedRest final : public Rest {
 public:
  TabulatedRest(const length::LengthLaw& law, Tokens cap, Tokens quantum)
      : table_(law, cap, quantum) {}
  double mean(Tokens age) const override { return table_.mean_residual(age); }
  double rank(Tokens age) const override { return table_.gittins_rank(age); }

 private:
  length::ResidualTable table_;
};

/// Ranks by WeightedRank. One thread, as its policy.
class WeightedRest final : public Rest {
 public:
  WeightedRest(const length::LengthLaw& law, Tokens cap, Tokens quantum, double exponent)
      : cap_(cap), ranks_(law, cap, quantum, exponent) {}
  double mean(Tokens age) const override { return left_at_most(age, cap_); }
  double rank(Tokens age) const override { return ranks_.at(age); }

 private:
  Tokens cap_;
  mutable WeightedRank ranks_;  // it keeps what it computes
};

/// The rank of a length that is certainly the cap.
class WeightedCap final : public Rest {
 public:
  WeightedCap(Tokens cap, double exponent) : cap_(cap), exponent_(exponent) {}
  double mean(Tokens age) const override { return left_at_most(age, cap_); }
  double rank(Tokens age) const override {
    if (exponent_ == 0) return mean(age);
    const double whole = left_at_most(Tokens{0}, cap_);
    return std::pow(mean(age) * std::pow(whole, exponent_), 1 / (1 + exponent_));
  }

 private:
  Tokens cap_;
  double exponent_;
};

/// Tables of laws in use, one for all jobs whose law and cap are equal.
class SharedTables {
 public:
  using Table = std::shared_ptr<const Rest>;

  /// Where no equal law is in use, `make()` makes the table.
  template <class Make>
  Table of(const length::LengthLaw& law, Tokens cap, const Make& make) {
    const std::vector<length::Parameter> parameters = law.parameters();
    const bool told_by_parameters = law.as_binned() == nullptr && law.as_mixture() == nullptr;
    if (!told_by_parameters) return make();
    Key key{law.family(), cap, {}};
    for (const length::Parameter& each : parameters) key.parameters.push_back(each.value);
    std::weak_ptr<const Rest>& kept = tables_[std::move(key)];
    if (Table table = kept.lock()) return table;
    Table table = make();
    kept = table;
    if (tables_.size() >= sweep_at_) {
      std::erase_if(tables_, [](const auto& entry) { return entry.second.expired(); });
      sweep_at_ = std::max(kFewTables, 2 * tables_.size());
    }
    return table;
  }

 private:
  struct Key {
    length::Family family;
    Tokens cap;
    std::vector<double> parameters;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  static constexpr std::size_t kFewTables = 64;

  std::map<Key, std::weak_ptr<const Rest>> tables_;
  std::size_t sweep_at_ = kFewTables;
};

class ByRest : public Policy {
 public:
  explicit ByRest(Tokens quantum = Tokens{1}) : quantum_(quantum) {}

  Appraisal appraise(const Job& job) const override {
    const Tokens cap = cap_tokens(job);
    const auto rest = rest_of(job, cap);
    return with_admission(appraise_at(*rest, age_within(job.attained, cap), job.prompt_tokens),
                          job);
  }
  double key(const Appraisal& appraisal, MonoTime) const override {
    return std::log(appraisal.size);
  }
  std::unique_ptr<AgeKey> age_key(const Job& job) const final;

 protected:
  /// Above 0 and finite, whatever the rest.
  virtual Appraisal appraise_at(const Rest& rest, Tokens age, Tokens prompt) const = 0;
  /// Adds what it costs to admit a job that waits.
  virtual Appraisal with_admission(const Appraisal& appraisal, const Job& job) const {
    (void)job;
    return appraisal;
  }
  virtual bool protects(const Rest& rest, Tokens age) const {
    (void)rest;
    (void)age;
    return false;
  }
  virtual SharedTables::Table make_rest(const length::LengthLaw& law, Tokens cap) const {
    return std::make_shared<TabulatedRest>(law, cap, quantum_);
  }
  virtual SharedTables::Table make_rest_without_law(Tokens cap) const {
    return std::make_shared<UnknownRest>(cap);
  }
  Tokens quantum() const { return quantum_; }

 private:
  class Key;

  SharedTables::Table rest_of(const Job& job, Tokens cap) const {
    if (!job.law) return make_rest_without_law(cap);
    return tables_.of(*job.law, cap, [&] { return make_rest(*job.law, cap); });
  }

  Tokens quantum_;
  mutable SharedTables tables_;  // a cache
};

class ByRest::Key final : public AgeKey {
 public:
  Key(const ByRest& policy, const Job& job)
      : policy_(policy),
        cap_(cap_tokens(job)),
        prompt_(job.prompt_tokens),
        arrival_(job.arrival),
        rest_(policy.rest_of(job, cap_)) {}

  double at(Tokens attained) const override {
    return policy_.key(policy_.appraise_at(*rest_, age_within(attained, cap_), prompt_), arrival_);
  }
  bool protected_at(Tokens attained) const override {
    return policy_.protects(*rest_, age_within(attained, cap_));
  }

 private:
  const ByRest& policy_;
  Tokens cap_;
  Tokens prompt_;
  MonoTime arrival_;
  SharedTables::Table rest_;
};

std::unique_ptr<AgeKey> ByRest::age_key(const Job& job) const {
  return std::make_unique<Key>(*this, job);
}

class Gittins final : public ByRest {
 public:
  Gittins(const PolicyOptions& options, const GittinsDefaults& unset)
      : ByRest(options.gittins_quantum),
        context_weight_(options.gittins_context_weight),
        exponent_(options.gittins_length_exponent.value_or(unset.length_exponent)),
        prefill_weight_(options.gittins_prefill_weight.value_or(unset.prefill_weight)),
        ageing_per_second_(
            ageing_per_second(options.gittins_decay.value_or(unset.decay), options.decay_period)),
        start_ranks_(options.gittins_quantum) {}

  std::string_view name() const override { return "gittins"; }

  Appraisal appraise(const Job& job) const override {
    if (exponent_ == 0 && job.attained <= Tokens{0} && job.law) {
      if (const auto rank = start_ranks_.find(*job.law, cap_tokens(job))) {
        return with_admission({*rank * cost_of_token(job.prompt_tokens, Tokens{0}), 0}, job);
      }
    }
    return ByRest::appraise(job);
  }

  double key(const Appraisal& appraisal, MonoTime arrival) const override {
    return std::log(appraisal.size) + to_seconds(arrival) * ageing_per_second_;
  }

  std::string explain(const Job& job) const override {
    const Appraisal appraisal = appraise(job);
    return fmt::format(
        "gittins: rank {:.6g} at {} tokens, quantum {}, weights length^-{:.3g} ({}); key {:.6f}",
        appraisal.size, job.attained.count(), quantum().count(), exponent_, describe_law(job),
        key(appraisal, job.arrival));
  }

 private:
  Appraisal appraise_at(const Rest& rest, Tokens age, Tokens prompt) const override {
    return {rest.rank(age) * std::pow(cost_of_token(prompt, age), 1 / (1 + exponent_)), 0};
  }
  /// The context to compute is service too, before the first token.
  Appraisal with_admission(const Appraisal& appraisal, const Job& job) const override {
    const Tokens attained = std::max(Tokens{0}, job.attained);
    // What a preemption threw away is computed again: the cache is not counted upon then.
    const Tokens cached = attained > Tokens{0} ? Tokens{0} : job.cached_tokens;
    const Tokens context = std::max(Tokens{0}, job.prompt_tokens - cached) + attained;
    const double cost = prefill_weight_ * static_cast<double>(context.count());
    return {appraisal.size * std::pow(1 + cost / appraisal.size, 1 / (1 + exponent_)), 0};
  }
  SharedTables::Table make_rest(const length::LengthLaw& law, Tokens cap) const override {
    if (exponent_ == 0) return ByRest::make_rest(law, cap);
    return std::make_shared<WeightedRest>(law, cap, quantum(), exponent_);
  }
  SharedTables::Table make_rest_without_law(Tokens cap) const override {
    return std::make_shared<WeightedCap>(cap, exponent_);
  }
  /// Of the next one: what it computes, and what the context before it occupies meanwhile.
  double cost_of_token(Tokens prompt, Tokens age) const {
    const auto context = static_cast<double>(std::max(Tokens{0}, prompt).count() + age.count());
    return 1 + context_weight_ * context;
  }

  double context_weight_;
  double exponent_;
  double prefill_weight_;
  double ageing_per_second_;
  mutable StartRanks start_ranks_;  // a cache: what it answers does not depend on its state
};

/// The shortest mean residual goes first, but a job past a share of its first prediction runs on
/// (facts/scheduling.md 4, TRAIL). Its predictor watches the model's hidden states; here the law,
/// conditioned on the tokens attained, answers in its place.
class Trail final : public ByRest {
 public:
  explicit Trail(const PolicyOptions& options) : preemptible_(options.trail_preemptible) {}

  std::string_view name() const override { return "trail"; }

  double key(const Appraisal& appraisal, MonoTime) const override {
    return std::log(appraisal.size) - (appraisal.tail > 0 ? kBeforeAllOthers : 0);
  }

  std::string explain(const Job& job) const override {
    const Appraisal appraisal = appraise(job);
    return fmt::format(
        "trail: {:.6g} tokens left at {}{} ({})", appraisal.size, job.attained.count(),
        appraisal.tail > 0 ? ", past its share of the first prediction" : "", describe_law(job));
  }

 private:
  // Logarithms of lengths stay below 37.
  static constexpr double kBeforeAllOthers = 1000;

  Appraisal appraise_at(const Rest& rest, Tokens age, Tokens) const override {
    return {rest.mean(age), protects(rest, age) ? 1.0 : 0.0};
  }
  bool protects(const Rest& rest, Tokens age) const override {
    return static_cast<double>(age.count()) > preemptible_ * rest.mean(Tokens{0});
  }

  double preemptible_;
};

/// The shortest mean residual goes first, predicted at every so many tokens and counted down in
/// between (facts/scheduling.md 4, ELIS).
class Elis final : public ByRest {
 public:
  explicit Elis(const PolicyOptions& options) : interval_(options.elis_interval.count()) {}

  std::string_view name() const override { return "elis"; }

  std::string explain(const Job& job) const override {
    return fmt::format("elis: {:.6g} tokens left at {}, predicted every {} ({})",
                       appraise(job).size, job.attained.count(), interval_, describe_law(job));
  }

 private:
  Appraisal appraise_at(const Rest& rest, Tokens age, Tokens) const override {
    const std::int64_t since = age.count() % interval_;
    return {std::max(1.0, rest.mean(age - Tokens{since}) - static_cast<double>(since)), 0};
  }

  std::int64_t interval_;
};

}  // namespace

std::unique_ptr<Policy> make_gittins(const PolicyOptions& options, const GittinsDefaults& unset) {
  return std::make_unique<Gittins>(options, unset);
}
std::unique_ptr<Policy> make_trail(const PolicyOptions& options) {
  return std::make_unique<Trail>(options);
}
std::unique_ptr<Policy> make_elis(const PolicyOptions& options) {
  return std::make_unique<Elis>(options);
}

}  // namespace tailrace::schedule
