// TIE: the mean plus beta times the tail, by load, with waiting decay.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schedule/job_length.h"
#include "schedule/policies.h"
#include "tailrace/core/rng.h"
#include "tailrace/length/tie_score.h"

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
    length::CappedMoments moments = moments_of(*job.law, cap);
    if (options_.uncapped_mean) moments.mean = uncapped_mean(*job.law).value_or(0);
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

/// TieVariant::kReleasedCode. A score never changes once its prediction has come, whatever the load
/// does; what is random in it is drawn from the seed, the job and its age alone.
class ReleasedTie final : public Policy {
 public:
  explicit ReleasedTie(const PolicyOptions& options)
      : options_(options),
        ageing_per_second_(ageing_per_second(options.decay, options.decay_period)) {
    set_load(0, 1);
  }

  std::string_view name() const override { return "tie"; }

  Appraisal appraise(const Job& job) const override {
    if (!job.law) return {kUnpredicted, 0};
    Rng rng =
        Rng(options_.tie_seed).fork(fmt::format("{}/{}", job.id.count(), job.attained.count()));
    const length::CappedMoments moments =
        length::monte_carlo_moments(*job.law, kUnpredicted, options_.cvar_level, rng, kReleased);
    return {length::monte_carlo_score(moments, beta_, kReleased), 0};
  }

  double key(const Appraisal& appraisal, MonoTime arrival) const override {
    return std::log(appraisal.size) + to_seconds(arrival) * ageing_per_second_;
  }

  bool set_load(std::size_t waiting, std::size_t slots) override {
    beta_ = options_.fixed_beta.value_or(adaptive_beta(waiting, slots, options_));
    return false;  // scores given already stay
  }

  std::string explain(const Job& job) const override {
    return fmt::format("tie as released: score {} if it were predicted now, with beta {:.2f} ({})",
                       appraise(job).size, beta_, describe_law(job));
  }

 private:
  static constexpr double kUnpredicted = 2048;
  static constexpr length::MonteCarloOptions kReleased{.released_code = true};

  PolicyOptions options_;
  double ageing_per_second_;
  double beta_ = 0;
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
  if (options.tie_variant == TieVariant::kReleasedCode) {
    return std::make_unique<ReleasedTie>(options);
  }
  return std::make_unique<Tie>(options);
}

}  // namespace tailrace::schedule
