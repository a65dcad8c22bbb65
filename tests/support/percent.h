// What does a part of a URL say to the server that a test plays?
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tailrace {

/// "a%2Fb" → "a/b". For what our own clients sent: no check of the digits.
inline std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace tailrace
