// How does a text from outside look on a terminal that must not obey it?
//
// A file's name, a prompt's id or an engine's message may hold characters that move the cursor,
// start an escape sequence or turn the reading direction of what follows.
#pragma once

#include <string>
#include <string_view>

namespace tailrace::core {

/// The same text with each such character written out: "\x1b" below U+0020 (line ends too) and for
/// a byte that belongs to no UTF-8 character, "\u009b" for DEL, the C1 controls, line and paragraph
/// separators and whatever overrides or isolates the reading direction. So what it makes of a
/// serialized JSON text is the same JSON.
std::string printable(std::string_view text);

}  // namespace tailrace::core
