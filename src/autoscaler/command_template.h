// Which arguments does a replica start with?
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"

namespace tailrace::autoscaler {

/// Fills {port} and the like in, each from `values`. A brace that begins no known name is itself:
/// arguments may be JSON. Errors: kInvalidArgument for "{word}" that `values` does not have.
Result<std::vector<std::string>> fill_command(
    const std::vector<std::string>& command,
    const std::map<std::string, std::string, std::less<>>& values);

}  // namespace tailrace::autoscaler
