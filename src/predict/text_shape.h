// What does a text look like, words aside?
//
// How many bytes of each telling kind it has (line breaks, question marks, digits, code's
// brackets, …) and in which script its first character beyond ASCII is. Pure; one pass.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tailrace::predict {

struct TextShape {
  static constexpr std::array<std::string_view, 11> kNames = {
      "line breaks", "question marks", "exclamation marks",
      "colons",      "commas",         "full stops",
      "quotes",      "code marks",     "characters beyond ASCII",
      "capitals",    "digits"};

  std::array<int, kNames.size()> counts{};
  std::uint64_t script = 0;  ///< lead byte of the first character beyond ASCII; 0: none
};

TextShape shape_of(std::string_view text);

}  // namespace tailrace::predict
