#include "predict/feature_names.h"

#include <fmt/format.h>

#include "tailrace/core/text.h"

namespace tailrace::predict {
namespace {

unsigned char byte_at(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

/// Bytes of a character that is in no script but steers a terminal or turns the reading direction;
/// 0 for any other.
std::size_t steering(std::string_view text, std::size_t i) {
  const unsigned char a = byte_at(text, i);
  const unsigned char b = byte_at(text, i + 1);
  const unsigned char c = byte_at(text, i + 2);
  if (a < 0x20 || a == 0x7F) return 1;
  if (a == 0xC2 && b >= 0x80 && b <= 0x9F) return 2;  // C1 controls
  if (a == 0xE2 && b == 0x80 && ((c >= 0x8B && c <= 0x8F) || (c >= 0xA8 && c <= 0xAE))) return 3;
  if (a == 0xE2 && b == 0x81 && c >= 0xA0 && c <= 0xAF) return 3;
  if (a == 0xEF && b == 0xBB && c == 0xBF) return 3;  // byte order mark
  return 0;
}

std::string printable(std::string_view text) {
  // A byte too many at the end may have cut a character: what is left of it becomes '?'.
  const std::string valid = core::valid_utf8(core::utf8_prefix(text, kNameBytes));
  std::string out;
  for (std::size_t i = 0; i < valid.size();) {
    const std::size_t bytes = steering(valid, i);
    out += bytes > 0 ? '?' : valid[i];
    i += bytes > 0 ? bytes : 1;
  }
  if (text.size() > kNameBytes) out += "…";
  return out;
}

}  // namespace

std::string quoted_name(std::string_view what, std::string_view text) {
  return fmt::format("{} '{}'", what, printable(text));
}

std::string tenant_name(const RequestFeatures& request) {
  return request.tenant.empty() ? std::string(kKindOfCall) : quoted_name("tenant", request.tenant);
}

std::string words_name(std::string_view what, std::span<const Word> words) {
  std::string text;
  for (const Word& word : words) {
    const bool spaced = static_cast<unsigned char>(word.text.front()) < 0xE0;
    if (!text.empty() && spaced) text += ' ';
    text += word.text.substr(0, kNameBytes);
  }
  return quoted_name(what, text);
}

std::string amount_name(std::span<const Word> words) {
  return fmt::format("asks for {} '{}'", printable(words[0].text), printable(words[1].text));
}

}  // namespace tailrace::predict
