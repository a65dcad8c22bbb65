#include "tailrace/schedule/policy.h"

#include <fmt/format.h>

#include <cmath>

#include "schedule/policies.h"

namespace tailrace::schedule {
namespace {

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
  if (o.quantum < Tokens{1}) {
    return reject("quantum", static_cast<double>(o.quantum.count()), "1 token or more");
  }
  if (!(o.context_weight >= 0 && std::isfinite(o.context_weight))) {
    return reject("context_weight", o.context_weight, "0 or more");
  }
  if (!(o.rank_decay > 0 && o.rank_decay <= 1)) {
    return reject("rank_decay", o.rank_decay, "a number above 0, at most 1 (1: no ageing)");
  }
  return {};
}

}  // namespace

std::string describe_law(const Job& job) {
  if (!job.law)
    return fmt::format("no prediction yet, so its cap of {} tokens counts", cap_of(job));
  return fmt::format("{}, cap {}", job.law->describe(), cap_of(job));
}

std::vector<std::string_view> policy_names() {
  return {"fcfs", "mean", "median", "ratio", "tie", "gittins"};
}

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options) {
  if (auto checked = check(options); !checked) return fail(checked.error());
  if (name == "fcfs") return make_fcfs();
  if (name == "mean") return make_mean();
  if (name == "median") return make_median();
  if (name == "ratio") return make_ratio();
  if (name == "tie") return make_tie(options);
  if (name == "gittins") return make_gittins(options);
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("policy: \"{}\" is not known; use one of {}",
                          std::string(name.substr(0, 64)), fmt::join(policy_names(), ", ")));
}

}  // namespace tailrace::schedule
