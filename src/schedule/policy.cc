#include "tailrace/schedule/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schedule/policies.h"

namespace tailrace::schedule {
namespace {

Error rejected(std::string_view option, double value, std::string_view allowed) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("{}: {} is not allowed; give {}", option, value, allowed)};
}

/// The options of policies that look at what a job has attained or at how long it has starved.
Result<void> check_batch(const PolicyOptions& o) {
  const auto at_least_one = [](std::string_view option, Tokens value) {
    return fail(rejected(option, static_cast<double>(value.count()), "1 token or more"));
  };
  if (o.gittins_quantum < Tokens{1}) return at_least_one("gittins_quantum", o.gittins_quantum);
  if (!(o.gittins_context_weight >= 0 && std::isfinite(o.gittins_context_weight))) {
    return fail(rejected("gittins_context_weight", o.gittins_context_weight, "0 or more"));
  }
  const double exponent = o.gittins_length_exponent.value_or(0);
  if (!(exponent >= 0 && exponent <= 4)) {
    return fail(rejected("gittins_length_exponent", exponent, "a number from 0 to 4"));
  }
  const double prefill = o.gittins_prefill_weight.value_or(0);
  if (!(prefill >= 0 && std::isfinite(prefill))) {
    return fail(rejected("gittins_prefill_weight", prefill, "0 or more"));
  }
  const double decay = o.gittins_decay.value_or(1);
  if (!(decay > 0 && decay <= 1)) {
    return fail(rejected("gittins_decay", decay, "a number above 0, at most 1 (1: no ageing)"));
  }
  if (o.ssjf_starving_wait < Duration::zero()) {
    return fail(
        rejected("ssjf_starving_wait", to_seconds(o.ssjf_starving_wait), "0 seconds or more"));
  }
  if (!(o.ssjf_starving_times >= 0)) {
    return fail(rejected("ssjf_starving_times", o.ssjf_starving_times, "0 or more"));
  }
  if (o.ssjf_token_time <= Duration::zero()) {
    return fail(rejected("ssjf_token_time", to_seconds(o.ssjf_token_time), "more than 0 seconds"));
  }
  if (o.starvation_idle && *o.starvation_idle < 0) {
    return fail(rejected("starvation_idle", static_cast<double>(*o.starvation_idle),
                         "iterations, or 0 for no rule"));
  }
  if (o.starvation_runs && *o.starvation_runs < 1) {
    return fail(rejected("starvation_runs", static_cast<double>(*o.starvation_runs),
                         "1 iteration or more"));
  }
  if (o.mlfq_quantum < Tokens{1}) return at_least_one("mlfq_quantum", o.mlfq_quantum);
  if (!(o.mlfq_growth >= 1.1 && o.mlfq_growth <= 1000)) {
    return fail(rejected("mlfq_growth", o.mlfq_growth, "a factor from 1.1 to 1000"));
  }
  if (!(o.trail_preemptible >= 0)) {
    return fail(rejected("trail_preemptible", o.trail_preemptible, "0 or more"));
  }
  if (o.elis_interval < Tokens{1}) return at_least_one("elis_interval", o.elis_interval);
  return {};
}

Result<void> check(const PolicyOptions& o) {
  const auto reject = [](std::string_view option, double value, std::string_view allowed) {
    return fail(rejected(option, value, allowed));
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
  return check_batch(o);
}

bool contains(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string shown(std::string_view name) {
  return std::string(name.substr(0, 64));
}

}  // namespace

std::vector<std::string_view> policy_names() {
  return {"fcfs", "mean", "median", "ratio", "tie", "gittins", "wspt", "edf"};
}

std::vector<std::string_view> batch_policy_names() {
  return {"sjf", "ssjf", "ltr", "las", "mlfq", "trail", "elis"};
}

namespace {

Result<std::unique_ptr<Policy>> make(std::string_view name, const PolicyOptions& options,
                                     const GittinsDefaults& unset) {
  if (auto checked = check(options); !checked) return fail(checked.error());
  if (name == "fcfs") return make_fcfs();
  if (name == "mean") return make_mean(options);
  if (name == "median") return make_median();
  if (name == "ratio") return make_ratio();
  if (name == "tie") return make_tie(options);
  if (name == "gittins") return make_gittins(options, unset);
  if (name == "wspt") return make_wspt();
  if (name == "edf") return make_edf();
  if (name == "sjf") return make_sjf();
  if (name == "ssjf") return make_ssjf(options);
  if (name == "ltr") return make_ltr(options);
  if (name == "las") return make_las();
  if (name == "mlfq") return make_mlfq(options);
  if (name == "trail") return make_trail(options);
  if (name == "elis") return make_elis(options);
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("policy: \"{}\" is not known; use one of {}, or in an engine {}", shown(name),
                  fmt::join(policy_names(), ", "), fmt::join(batch_policy_names(), ", ")));
}

}  // namespace

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options) {
  return make(name, options, kGittinsInEngines);
}

Result<std::unique_ptr<Policy>> make_waiting_policy(std::string_view name,
                                                    const PolicyOptions& options) {
  if (contains(policy_names(), name)) return make(name, options, kGittinsInFront);
  const std::string_view why =
      contains(batch_policy_names(), name)
          ? "is for engines and simulation, where running requests or true lengths are seen"
          : "is not known";
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("policy: \"{}\" {}; use one of {}", shown(name), why,
                          fmt::join(policy_names(), ", ")));
}

}  // namespace tailrace::schedule
