#include "predict/text_shape.h"

#include <algorithm>

namespace tailrace::predict {
namespace {

// In the order of TextShape::kNames.
constexpr std::string_view kMarks[] = {"\n", "?", "!", ":", ",", ".", "\"'", "{};()=<>`_"};
constexpr std::size_t kWide = std::size(kMarks), kCapital = kWide + 1, kDigit = kWide + 2,
                      kOther = kWide + 3;
static_assert(kOther == TextShape::kNames.size());

constexpr std::array<std::uint8_t, 256> classify_bytes() {
  std::array<std::uint8_t, 256> kinds{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    kinds[byte] = byte >= 0x80                 ? kWide
                  : byte >= 'A' && byte <= 'Z' ? kCapital
                  : byte >= '0' && byte <= '9' ? kDigit
                                               : kOther;
  }
  for (std::size_t kind = 0; kind < std::size(kMarks); ++kind) {
    for (const char c : kMarks[kind]) {
      kinds[static_cast<unsigned char>(c)] = static_cast<std::uint8_t>(kind);
    }
  }
  return kinds;
}
constexpr auto kByteKind = classify_bytes();

}  // namespace

TextShape shape_of(std::string_view text) {
  std::array<int, kOther + 1> counts{};
  for (const char c : text) ++counts[kByteKind[static_cast<unsigned char>(c)]];
  TextShape shape;
  std::copy_n(counts.begin(), kOther, shape.counts.begin());
  const auto lead = std::find_if(text.begin(), text.end(),
                                 [](char c) { return static_cast<unsigned char>(c) >= 0xC0; });
  if (lead != text.end()) shape.script = static_cast<unsigned char>(*lead);
  return shape;
}

}  // namespace tailrace::predict
