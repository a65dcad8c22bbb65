// The policies behind make_policy(), one factory each.
#pragma once

#include <cmath>
#include <memory>
#include <optional>

#include "tailrace/schedule/policy.h"

namespace tailrace::schedule {

// policies_by_size.cc
std::unique_ptr<Policy> make_fcfs();
std::unique_ptr<Policy> make_mean(const PolicyOptions& options);
std::unique_ptr<Policy> make_median();
std::unique_ptr<Policy> make_ratio();
std::unique_ptr<Policy> make_wspt();
std::unique_ptr<Policy> make_edf();
std::unique_ptr<Policy> make_sjf();
std::unique_ptr<Policy> make_ssjf(const PolicyOptions& options);
std::unique_ptr<Policy> make_ltr(const PolicyOptions& options);

// policy_tie.cc
std::unique_ptr<Policy> make_tie(const PolicyOptions& options);

// policies_by_rest.cc
std::unique_ptr<Policy> make_gittins(const PolicyOptions& options, const GittinsDefaults& unset);
std::unique_ptr<Policy> make_trail(const PolicyOptions& options);
std::unique_ptr<Policy> make_elis(const PolicyOptions& options);

// policies_by_age.cc
std::unique_ptr<Policy> make_las();
std::unique_ptr<Policy> make_mlfq(const PolicyOptions& options);

/// Per second of arrival, what keeps the order of scores that all shrink at one rate.
inline double ageing_per_second(double decay, Duration period) {
  return -std::log(decay) / to_seconds(period);
}
/// The options' rule, or nothing where no job can starve.
std::optional<StarvationRule> starvation_rule(const PolicyOptions& options,
                                              const StarvationRule& unset);

}  // namespace tailrace::schedule
