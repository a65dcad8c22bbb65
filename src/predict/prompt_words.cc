#include "predict/prompt_words.h"

#include <algorithm>
#include <array>

#include "predict/hash.h"
#include "tailrace/core/rng.h"

namespace tailrace::predict {
namespace {

constexpr std::size_t kWordBytes = 24;  // of a longer run only these count
constexpr std::size_t kStemBytes = 6;
constexpr std::size_t kNumberDigits = 9;

unsigned char lower(unsigned char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<unsigned char>(c + 32) : c;
}

struct Folded {
  std::array<char, kWordBytes> bytes;
  std::size_t size = 0;
  std::string_view view() const { return {bytes.data(), size}; }
};

Folded fold(std::string_view word) {
  Folded folded;
  folded.size = std::min(word.size(), kWordBytes);
  for (std::size_t i = 0; i < folded.size; ++i) {
    folded.bytes[i] = static_cast<char>(lower(static_cast<unsigned char>(word[i])));
  }
  return folded;
}

/// Numbers that are spelled out where lengths are asked for.
double spelled_number(std::string_view word) {
  struct Spelled {
    std::string_view word;
    double value;
  };
  static constexpr Spelled kSpelled[] = {
      {"one", 1},    {"two", 2},     {"three", 3},  {"four", 4},      {"five", 5},
      {"six", 6},    {"seven", 7},   {"eight", 8},  {"nine", 9},      {"ten", 10},
      {"dozen", 12}, {"twenty", 20}, {"fifty", 50}, {"hundred", 100}, {"thousand", 1000}};
  if (word.size() < 3 || word.size() > 8) return -1;
  for (const Spelled& spelled : kSpelled) {
    if (spelled.word == word) return spelled.value;
  }
  return -1;
}

std::size_t end_of_wide(std::string_view text, std::size_t begin) {
  const std::size_t want = static_cast<unsigned char>(text[begin]) >= 0xF0 ? 4 : 3;
  std::size_t end = begin + 1;
  while (end < text.size() && end < begin + want &&
         (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    ++end;
  }
  return end;
}

/// Digits, with commas between groups of three.
std::size_t end_of_number(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  const auto digit = [&](std::size_t i) {
    return i < text.size() && is_digit(static_cast<unsigned char>(text[i]));
  };
  while (digit(end)) {
    ++end;
    if (end < text.size() && text[end] == ',' && digit(end + 1) && digit(end + 2) &&
        digit(end + 3) && !digit(end + 4)) {
      ++end;
    }
  }
  return end;
}

double value_of(std::string_view digits) {
  double value = 0;
  std::size_t used = 0;
  for (const char c : digits) {
    if (c == ',') continue;
    if (used++ == kNumberDigits) break;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

bool is_digit(unsigned char c) {
  return c >= '0' && c <= '9';
}

bool is_letter(unsigned char c) {
  // Bytes of two-byte UTF-8 letters (Latin with accents, Greek, Cyrillic, Arabic, …) join words;
  // the continuation bytes of longer ones are handled by their lead byte.
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= 0x80 && c < 0xE0);
}

std::span<const Word> scan_words(std::string_view text, std::span<Word> out) {
  std::size_t count = 0;
  std::size_t i = 0;
  while (i < text.size() && count < out.size()) {
    const auto c = static_cast<unsigned char>(text[i]);
    std::size_t end = i + 1;
    if (c >= 0xE0) {
      end = end_of_wide(text, i);
      const std::string_view character = text.substr(i, end - i);
      out[count++] = {stable_hash(character), character, -1};
    } else if (is_digit(c)) {
      end = end_of_number(text, i);
      const std::string_view digits = text.substr(i, end - i);
      const double value = value_of(digits);
      // Numbers matter by size ("in 500 words"), not by digits.
      out[count++] = {combine(1, bucket(value, 1.5)), digits, value};
    } else if (is_letter(c)) {
      while (end < text.size() && is_letter(static_cast<unsigned char>(text[end]))) ++end;
      const std::string_view word = text.substr(i, end - i);
      const Folded folded = fold(word);
      out[count++] = {stable_hash(folded.view()), word, spelled_number(folded.view())};
    }
    i = end;
  }
  return out.first(count);
}

std::string_view last_words(std::string_view text, std::size_t count) {
  std::size_t words = 0;
  std::size_t start = text.size();
  while (start > 0 && words < count) {
    --start;
    if (text[start] == ' ' || text[start] == '\n') ++words;
  }
  return text.substr(start);
}

std::uint64_t folded_hash(std::string_view word) {
  return stable_hash(fold(word).view());
}

std::uint64_t stem_hash(std::string_view word) {
  const Folded folded = fold(word);
  std::string_view stem = folded.view();
  if (stem.size() > 3 && stem.back() == 's') stem.remove_suffix(1);
  return stable_hash(stem.substr(0, kStemBytes));
}

}  // namespace tailrace::predict
