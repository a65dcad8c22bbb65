// What are the words of a prompt, and what amounts does it name?
//
// Words are runs of letters, numbers are runs of digits, and each character of a script without
// spaces is a word of its own. Pure; every scan is bounded by the length of the text that it is
// given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tailrace::predict {

struct Word {
  std::uint64_t hash = 0;  ///< of its letters in lower case; of its size for a number
  std::string_view text;
  double number = -1;  ///< its value if it is a number ("500", "1,500", "three"), else −1
};

/// Fills `out` from the front of `text`; returns what was filled.
std::span<const Word> scan_words(std::string_view text, std::span<Word> out);

/// The end of `text` that holds about its last `count` words.
std::string_view last_words(std::string_view text, std::size_t count);

/// One hash for the forms of a word that name the same unit ("word", "words", "Words").
std::uint64_t stem_hash(std::string_view word);

/// Of a word in lower case.
std::uint64_t folded_hash(std::string_view word);

bool is_digit(unsigned char c);
bool is_letter(unsigned char c);

}  // namespace tailrace::predict
