// May this process hold so many connections at once?
#pragma once

#include <cstddef>

namespace tailrace::core {

/// Raises the soft limit on open files towards `connections` and some to spare, as far as the hard
/// limit lets it; logs a warning when that is not far enough.
void allow_open_files(std::size_t connections);

}  // namespace tailrace::core
