// Where does a damaged file go, so that nothing overwrites it and somebody can look at it?
#pragma once

#include <string>

#include "tailrace/core/result.h"

namespace tailrace::core {

/// Renames `path` to PATH.damaged, or to PATH.damaged-2 and so on where that exists, and says what
/// it is called now. Errors: kInternal.
Result<std::string> move_aside(const std::string& path);

}  // namespace tailrace::core
