// Can the file that a command is to write be written at all? Asked before long work, not after it.
#pragma once

#include <string>

#include "tailrace/core/result.h"

namespace tailrace::cli {

/// Would core::write_file_atomically reach `path`, as things are now? Writes nothing. Errors:
/// kInvalidArgument naming the path and what is in the way.
Result<void> may_write_file(const std::string& path);

}  // namespace tailrace::cli
