// TIE: the mean plus beta times the tail, by load, with waiting decay.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schedule/policies.h"

namespace tailrace::schedule {
namespace {

constexpr double kTableLevel = 0.9;  // the level of LengthLaw::capped_moments_fast

class Tie final : public Policy {
 public:
  explicit Tie(const PolicyOptions& options)
      : options_(options),
        ageing_per_second_(ageing_per_second(options.decay, options.decay_period)),
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

std::unique_ptr<Policy> make_tie(const PolicyOptions& options) {
  return std::make_unique<Tie>(options);
}

}  // namespace tailrace::schedule
