#include "tailrace/core/printable.h"

#include <fmt/format.h>

#include "core/utf8.h"

namespace tailrace::core {
namespace {

/// Of the bytes of one valid character.
char32_t code_point(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  switch (character.size()) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1FU) << 6 | (byte(1) & 0x3FU);
    case 3:
      return (byte(0) & 0x0FU) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU);
    default:
      return (byte(0) & 0x07U) << 18 | (byte(1) & 0x3FU) << 12 | (byte(2) & 0x3FU) << 6 |
             (byte(3) & 0x3FU);
  }
}

bool steers_a_terminal(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0x9f) ||  // C0, DEL, C1
         (c >= 0x2028 && c <= 0x202e) ||          // line ends, embeddings and overrides
         (c >= 0x2066 && c <= 0x2069);            // isolates
}

}  // namespace

std::size_t character_bytes(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return 1;
  const std::size_t bytes = lead >= 0xF0 && lead <= 0xF4  ? 4
                            : lead >= 0xE0 && lead < 0xF0 ? 3
                            : lead >= 0xC2 && lead < 0xE0 ? 2
                                                          : 0;
  if (bytes == 0 || at + bytes > text.size()) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  const unsigned char second = byte(at + 1);
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0) ||
      (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90)) {
    return 0;
  }
  return bytes;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_bytes(text, at);
    if (bytes == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
      ++at;
      continue;
    }
    const std::string_view character = text.substr(at, bytes);
    const char32_t c = code_point(character);
    if (!steers_a_terminal(c)) {
      out += character;
    } else if (c < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    }
    at += bytes;
  }
  return out;
}

}  // namespace tailrace::core
