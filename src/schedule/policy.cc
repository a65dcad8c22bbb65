#include "tailrace/schedule/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tailrace::schedule {
namespace {

constexpr double kTableLevel = 0.9;  // the level of LengthLaw::capped_moments_fast

double cap_of(const Job& job) {
  return static_cast<double>(std::max<std::int64_t>(1, job.cap.count()));
}

bool usable(double length) {
  return std::isfinite(length) && length > 0;
}

std::string describe_law(const Job& job) {
  if (!job.law)
    return fmt::format("no prediction yet, so its cap of {} tokens counts", cap_of(job));
  return fmt::format("{}, cap {}", job.law->describe(), cap_of(job));
}

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
  double key(const Appraisal& appraisal, MonoTime) const final { return appraisal.size; }

  Appraisal appraise(const Job& job) const final {
    const double unknown = size_at_cap(cap_of(job));
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
  virtual double size_at_cap(double cap) const { return cap; }
  virtual std::string_view meaning() const = 0;
};

class Mean final : public BySize {
 public:
  std::string_view name() const override { return "mean"; }

 private:
  double size_of(const length::LengthLaw& law, const Job& job) const override {
    return law.capped_moments_fast(cap_of(job)).mean;
  }
  std::string_view meaning() const override { return "E[min(L, cap)]"; }
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
    const Tokens cap{std::max<std::int64_t>(1, job.cap.count())};
    return law.ratio_index_fast(cap);
  }
  // A length that is certainly the cap has E[L]/E[1/L] = cap².
  double size_at_cap(double cap) const override { return cap * cap; }
  std::string_view meaning() const override { return "E[L]/E[1/L]"; }
};

class Tie final : public Policy {
 public:
  explicit Tie(const PolicyOptions& options)
      : options_(options),
        ageing_per_second_(-std::log(options.decay) / to_seconds(options.decay_period)),
        beta_(options.fixed_beta.value_or(options.beta_min)) {}

  std::string_view name() const override { return "tie"; }

  Appraisal appraise(const Job& job) const override {
    const double cap = cap_of(job);
    if (!job.law) return {cap, cap};
    const length::CappedMoments moments = moments_of(*job.law, cap);
    if (!usable(moments.mean) || !usable(moments.cvar)) return {cap, cap};
    return {moments.mean, moments.cvar};
  }

  double key(const Appraisal& appraisal, MonoTime arrival) const override {
    return std::log(appraisal.size + beta_ * appraisal.tail) +
           to_seconds(arrival) * ageing_per_second_;
  }

  bool set_load(std::size_t waiting, std::size_t slots) override {
    if (options_.fixed_beta || slots == 0) return false;
    const double next = step_beta(beta_, adaptive_beta(waiting, slots, options_), options_);
    if (next == beta_) return false;
    beta_ = next;
    return true;
  }

  std::string explain(const Job& job) const override {
    const Appraisal appraisal = appraise(job);
    return fmt::format(
        "tie: score {:.6g} = E {:.6g} + beta {:.2f} × CVaR {:.6g} ({}); key {:.6f} with arrival at "
        "{:.3f} s",
        appraisal.size + beta_ * appraisal.tail, appraisal.size, beta_, appraisal.tail,
        describe_law(job), key(appraisal, job.arrival), to_seconds(job.arrival));
  }

 private:
  length::CappedMoments moments_of(const length::LengthLaw& law, double cap) const {
    if (options_.cvar_level == kTableLevel) return law.capped_moments_fast(cap);
    return {law.capped_mean(cap), law.capped_cvar(options_.cvar_level, cap)};
  }

  PolicyOptions options_;
  double ageing_per_second_;
  double beta_;
};

Result<void> check(const PolicyOptions& o) {
  const auto reject = [](std::string_view option, double value, std::string_view allowed) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} is not allowed; give {}", option, value, allowed));
  };
  if (!(o.cvar_level > 0 && o.cvar_level < 1)) {
    return reject("cvar_level", o.cvar_level, "a number between 0 and 1");
  }
  if (!(o.beta_min >= 0 && std::isfinite(o.beta_min))) {
    return reject("beta_min", o.beta_min, "0 or more");
  }
  if (!(o.beta_max >= o.beta_min && std::isfinite(o.beta_max))) {
    return reject("beta_max", o.beta_max, "beta_min or more");
  }
  if (!(o.beta_slope >= 0 && std::isfinite(o.beta_slope))) {
    return reject("beta_slope", o.beta_slope, "0 or more");
  }
  // A finer bucket would re-key all jobs at almost every change of the queue.
  if (!(o.beta_bucket >= 0.001 && std::isfinite(o.beta_bucket))) {
    return reject("beta_bucket", o.beta_bucket, "0.001 or more");
  }
  if (o.fixed_beta && !(*o.fixed_beta >= 0 && std::isfinite(*o.fixed_beta))) {
    return reject("fixed_beta", *o.fixed_beta, "0 or more");
  }
  if (!(o.decay > 0 && o.decay <= 1)) {
    return reject("decay", o.decay, "a number above 0, at most 1 (1: no ageing)");
  }
  if (o.decay_period <= Duration::zero()) {
    return reject("decay_period", to_seconds(o.decay_period), "more than 0 seconds");
  }
  return {};
}

}  // namespace

double adaptive_beta(std::size_t waiting, std::size_t slots, const PolicyOptions& options) {
  if (slots == 0) return waiting == 0 ? options.beta_min : options.beta_max;
  const double load = static_cast<double>(waiting) / static_cast<double>(slots);
  return std::min(options.beta_max, std::max(options.beta_min, options.beta_slope * load));
}

double step_beta(double current, double wanted, const PolicyOptions& options) {
  const double steps = std::round((wanted - options.beta_min) / options.beta_bucket);
  double nearest = options.beta_min + steps * options.beta_bucket;
  if (wanted >= options.beta_max || nearest > options.beta_max) nearest = options.beta_max;
  if (wanted <= options.beta_min) nearest = options.beta_min;
  // Half a step would do to be nearer to the next bucket; asking for three quarters keeps a queue
  // whose length wavers around a border from re-keying at each wave.
  constexpr double kMargin = 0.75;
  const double step = std::min(options.beta_bucket, std::abs(nearest - current));
  return std::abs(wanted - current) >= kMargin * step ? nearest : current;
}

std::vector<std::string_view> policy_names() {
  return {"fcfs", "mean", "median", "ratio", "tie"};
}

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options) {
  if (auto checked = check(options); !checked) return fail(checked.error());
  if (name == "fcfs") return std::make_unique<Fcfs>();
  if (name == "mean") return std::make_unique<Mean>();
  if (name == "median") return std::make_unique<Median>();
  if (name == "ratio") return std::make_unique<Ratio>();
  if (name == "tie") return std::make_unique<Tie>(options);
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("policy: \"{}\" is not known; use one of {}",
                          std::string(name.substr(0, 64)), fmt::join(policy_names(), ", ")));
}

}  // namespace tailrace::schedule
