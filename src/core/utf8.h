// Which bytes are one character?
#pragma once

#include <cstddef>
#include <string_view>

namespace tailrace::core {

/// Length of the UTF-8 character that begins at `at`; 0 if it is none.
std::size_t character_bytes(std::string_view text, std::size_t at);

}  // namespace tailrace::core
