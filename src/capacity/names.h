// How do roles, targets and limits read in a sentence?
#pragma once

#include <string>
#include <string_view>

#include "tailrace/capacity/variant.h"
#include "tailrace/queueing/sizing.h"

namespace tailrace::capacity {

std::string_view role_text(Role role);  ///< "both", "prefill", "decode"
/// Errors: kInvalidArgument naming the roles, to stand after the text.
Result<Role> parse_role(std::string_view text);
/// "TTFT 500 ms and ITL 50 ms, mean"; empty without a target.
std::string targets_text(const queueing::Targets& targets);
/// "ITL", "stability (sequences)".
std::string limit_text(const queueing::Sizing& sizing);

}  // namespace tailrace::capacity
