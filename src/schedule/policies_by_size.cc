// Policies whose order among waiting jobs needs one number of each: its arrival, its expected,
// median or relative length, its deadline.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schedule/job_length.h"
#include "schedule/policies.h"

namespace tailrace::schedule {
namespace {

class Fcfs final : public Policy {
 public:
  std::string_view name() const override { return "fcfs"; }
  Appraisal appraise(const Job&) const override { return {}; }
  double key(const Appraisal&, MonoTime arrival) const override { return to_seconds(arrival); }
  std::string explain(const Job& job) const override {
    return fmt::format("fcfs: arrival at {:.3f} s", to_seconds(job.arrival));
  }
};

/// The policies whose key is one length: smaller first, no ageing.
class BySize : public Policy {
 public:
  double key(const Appraisal& appraisal, MonoTime) const override { return appraisal.size; }

  Appraisal appraise(const Job& job) const final {
    const double unknown = size_at_cap(job);
    if (!job.law) return {unknown, 0};
    const double size = size_of(*job.law, job);
    return {usable(size) ? size : unknown, 0};
  }

  std::string explain(const Job& job) const final {
    return fmt::format("{}: {} = {:.6g} ({})", name(), meaning(), appraise(job).size,
                       describe_law(job));
  }

 private:
  virtual double size_of(const length::LengthLaw& law, const Job& job) const = 0;
  virtual double size_at_cap(const Job& job) const { return cap_of(job); }
  virtual std::string_view meaning() const = 0;
};

class Mean : public BySize {
 public:
  std::string_view name() const override { return "mean"; }

 private:
  double size_of(const length::LengthLaw&, const Job& job) const final {
    return expected_length(job);
  }
  std::string_view meaning() const override { return "E[min(L, cap)]"; }
};

class UncappedMean final : public BySize {
 public:
  std::string_view name() const override { return "mean"; }

 private:
  double size_of(const length::LengthLaw& law, const Job& job) const override {
    return uncapped_mean(law).value_or(cap_of(job));
  }
  std::string_view meaning() const override { return "E[L], without a cap"; }
};

class Median final : public BySize {
 public:
  std::string_view name() const override { return "median"; }

 private:
  double size_of(const length::LengthLaw& law, const Job& job) const override {
    return std::min(law.median(), cap_of(job));
  }
  std::string_view meaning() const override { return "min(median, cap)"; }
};

class Ratio final : public BySize {
 public:
  std::string_view name() const override { return "ratio"; }

 private:
  double size_of(const length::LengthLaw& law, const Job& job) const override {
    return law.ratio_index_fast(cap_tokens(job));
  }
  // A length that is certainly the cap has E[L]/E[1/L] = cap².
  double size_at_cap(const Job& job) const override { return cap_of(job) * cap_of(job); }
  std::string_view meaning() const override { return "E[L]/E[1/L]"; }
};

/// Weighted shortest processing time (Smith's rule).
class Wspt final : public BySize {
 public:
  std::string_view name() const override { return "wspt"; }

 private:
  double size_of(const length::LengthLaw&, const Job& job) const override {
    return expected_length(job) / weight_of(job);
  }
  double size_at_cap(const Job& job) const override { return cap_of(job) / weight_of(job); }
  static double weight_of(const Job& job) { return usable(job.weight) ? job.weight : 1; }
  std::string_view meaning() const override { return "E[min(L, cap)]/weight"; }
};

/// The oracle: its law is the true length, which only a simulation knows.
class Sjf final : public Mean {
 public:
  std::string_view name() const override { return "sjf"; }

 private:
  std::string_view meaning() const override { return "true length"; }
};

/// Shortest predicted job first; the longest-waiting one first while it starves
/// (facts/scheduling.md 4, SSJF).
class Ssjf final : public Mean {
 public:
  explicit Ssjf(const PolicyOptions& options)
      : wait_(options.ssjf_starving_wait),
        runs_(options.ssjf_starving_times),
        token_seconds_(to_seconds(options.ssjf_token_time)) {}

  std::string_view name() const override { return "ssjf"; }

  bool starves(const Appraisal& appraisal, MonoTime arrival, MonoTime now) const override {
    const Duration waited = now - arrival;
    return waited > wait_ || to_seconds(waited) > runs_ * appraisal.size * token_seconds_;
  }

 private:
  std::string_view meaning() const override { return "predicted length"; }

  Duration wait_;
  double runs_;
  double token_seconds_;
};

/// Learning to rank: the order of predicted lengths, of which nothing but the order is used.
class Ltr final : public Mean {
 public:
  explicit Ltr(const PolicyOptions& options)
      : preemptive_(options.ltr_preemptive),
        starvation_(
            schedule::starvation_rule(options, {.idle_iterations = 0, .run_iterations = 10})) {}

  std::string_view name() const override { return "ltr"; }
  double key(const Appraisal& appraisal, MonoTime) const override {
    return std::log(appraisal.size);
  }

  std::unique_ptr<AgeKey> age_key(const Job& job) const override {
    if (!preemptive_) return nullptr;
    return std::make_unique<Score>(key_of(job));
  }
  std::optional<StarvationRule> starvation_rule() const override { return starvation_; }

 private:
  /// The score of the prompt, which age does not change.
  class Score final : public AgeKey {
   public:
    explicit Score(double key) : key_(key) {}
    double at(Tokens) const override { return key_; }

   private:
    double key_;
  };

  std::string_view meaning() const override { return "score"; }

  bool preemptive_;
  std::optional<StarvationRule> starvation_;
};

/// Earliest deadline first; those without one last. Deadlines count in whole milliseconds, and
/// among equal ones the expected length decides: a nanosecond a token, which stays below one.
class Edf final : public Policy {
 public:
  std::string_view name() const override { return "edf"; }

  Appraisal appraise(const Job& job) const override {
    const double size = std::min(expected_length(job), kLongest);
    if (!job.deadline) return {kNoDeadline + size, 0};
    const auto whole = std::chrono::floor<std::chrono::milliseconds>(*job.deadline);
    return {static_cast<double>(whole.time_since_epoch().count()) * 1e-3 + size * 1e-9, 0};
  }
  double key(const Appraisal& appraisal, MonoTime) const override { return appraisal.size; }

  std::string explain(const Job& job) const override {
    const std::string deadline =
        job.deadline ? fmt::format("deadline at {:.3f} s", to_seconds(*job.deadline))
                     : std::string("no deadline");
    return fmt::format("edf: {}, then E[min(L, cap)] = {:.6g} ({})", deadline, expected_length(job),
                       describe_law(job));
  }

 private:
  static constexpr double kLongest = 999'999;  // tokens: below a millisecond of nanoseconds
  static constexpr double kNoDeadline = 1e10;  // seconds; time lines end at 9.3e9
};

}  // namespace

std::unique_ptr<Policy> make_fcfs() {
  return std::make_unique<Fcfs>();
}
std::unique_ptr<Policy> make_mean(const PolicyOptions& options) {
  if (options.uncapped_mean) return std::make_unique<UncappedMean>();
  return std::make_unique<Mean>();
}
std::unique_ptr<Policy> make_median() {
  return std::make_unique<Median>();
}
std::unique_ptr<Policy> make_ratio() {
  return std::make_unique<Ratio>();
}
std::unique_ptr<Policy> make_wspt() {
  return std::make_unique<Wspt>();
}
std::unique_ptr<Policy> make_edf() {
  return std::make_unique<Edf>();
}
std::unique_ptr<Policy> make_sjf() {
  return std::make_unique<Sjf>();
}
std::unique_ptr<Policy> make_ssjf(const PolicyOptions& options) {
  return std::make_unique<Ssjf>(options);
}
std::unique_ptr<Policy> make_ltr(const PolicyOptions& options) {
  return std::make_unique<Ltr>(options);
}

}  // namespace tailrace::schedule
