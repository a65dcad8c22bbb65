// How is one value of a settings file written, read and shown?
//
// Every value is a text first: YAML scalars and environment variables are read the same way. A
// Field ties a key to the place it fills, with all that a reader of the file, of an error or of the
// reference page needs to know.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/core/strong.h"
#include "tailrace/core/time.h"

namespace tailrace::core {

struct Field {
  std::string name;
  std::string type;  ///< for people: "whole number from 1 to 64", "duration", "on | off"
  std::string help;
  std::string default_text;  ///< the value before anything was read; "" where there is none
  bool required = false;
  bool is_list = false;   ///< `assign` is called once per item, after `clear`
  bool withheld = false;  ///< it may hold a key: messages do not show it
  std::function<void()> clear;
  /// Errors: what is wrong with the text and what would be right, to stand after path and value.
  std::function<Result<void>(std::string_view text)> assign;
};

/// The same field without a default: a file must have it.
Field required(Field field);
/// The same field, of what may hold a key.
Field withheld(Field field);
/// A value as a message may show it: quoted, without the user and password of a URL; "its value"
/// where it may hold a key.
std::string shown(const Field& field, std::string_view value);

Field text_field(std::string name, std::string& into, std::string help);
Field text_list_field(std::string name, std::vector<std::string>& into, std::string help);
Field flag_field(std::string name, bool& into, std::string help);
Field int_field(std::string name, int& into, std::int64_t low, std::int64_t high, std::string help);
Field count_field(std::string name, std::size_t& into, std::int64_t low, std::int64_t high,
                  std::string help);
Field whole_field(std::string name, std::int64_t& into, std::int64_t low, std::int64_t high,
                  std::string help);
/// "auto" for no value.
Field optional_count_field(std::string name, std::optional<std::uint64_t>& into, std::int64_t low,
                           std::int64_t high, std::string help);
Field tokens_field(std::string name, Tokens& into, std::int64_t low, std::int64_t high,
                   std::string help);
/// Starts unset.
Field optional_tokens_field(std::string name, std::optional<Tokens>& into, std::string help);
Field real_field(std::string name, double& into, double low, double high, std::string help);
/// "auto" for no value.
Field optional_real_field(std::string name, std::optional<double>& into, double low, double high,
                          std::string help);
/// "250ms", "5s", "2m", "1h"; 0 needs no unit.
Field duration_field(std::string name, Duration& into, Duration low, Duration high,
                     std::string help);
/// "off" for no value.
Field optional_duration_field(std::string name, std::optional<Duration>& into, Duration low,
                              Duration high, std::string help);
/// "512KiB", "32MiB", "1GB", or a plain number of bytes.
Field bytes_field(std::string name, std::size_t& into, std::size_t low, std::size_t high,
                  std::string help);

/// One of a few words; each stands for a value.
template <class T>
Field choice_field(std::string name, T& into, std::vector<std::pair<std::string, T>> choices,
                   std::string help);

Result<Duration> parse_duration(std::string_view text);
Result<std::size_t> parse_bytes(std::string_view text);
std::string print_duration(Duration value);
std::string print_bytes(std::size_t value);
/// 1 to `bytes_max` letters, digits, dots, dashes and underscores: safe in paths, URLs and logs.
bool is_plain_name(std::string_view text, std::size_t bytes_max);
std::string join_words(const std::vector<std::string>& words, std::string_view separator);

template <class T>
Field choice_field(std::string name, T& into, std::vector<std::pair<std::string, T>> choices,
                   std::string help) {
  std::vector<std::string> words;
  std::string now;
  for (const auto& [word, value] : choices) {
    words.push_back(word);
    if (value == into) now = word;
  }
  Field field;
  field.name = std::move(name);
  field.type = join_words(words, " \\| ");
  field.help = std::move(help);
  field.default_text = now;
  field.assign = [&into, choices = std::move(choices),
                  words](std::string_view text) -> Result<void> {
    for (const auto& [word, value] : choices) {
      if (word == text) {
        into = value;
        return {};
      }
    }
    return fail(ErrorCode::kInvalidArgument, "is unknown; use " + join_words(words, ", "));
  };
  return field;
}

}  // namespace tailrace::core
