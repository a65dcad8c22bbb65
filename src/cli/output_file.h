// Can the files that a command is to write be written at all, and without losing others? Asked
// before long work, not after it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"

namespace tailrace::cli {

/// Would core::write_file_atomically reach `path`, as things are now? Writes nothing. Errors:
/// kInvalidArgument naming the path and what is in the way.
Result<void> may_write_file(const std::string& path);

struct Output {
  std::string_view flag;
  std::string path;
};

/// May all of these be written, none in the place of another or of what is read? An empty path is
/// an output that nobody asked for. Errors: kInvalidArgument naming the flag.
Result<void> may_write_all(std::span<const Output> outputs, std::span<const std::string> inputs);

}  // namespace tailrace::cli
