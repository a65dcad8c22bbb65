#include "gateway/json_scan.h"

#include <charconv>
#include <cstring>

namespace tailrace::gateway {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// `at` is behind the opening quote; the offset of the closing one, or the text's end.
std::size_t find_string_end(std::string_view json, std::size_t at) {
  // From quote to quote, at memchr's speed: prompts of megabytes are single strings. A quote is
  // escaped if an odd number of backslashes stands before it.
  const std::size_t begin = at;
  for (;;) {
    const std::size_t quote = json.find('"', at);
    if (quote == std::string_view::npos) return json.size();
    std::size_t first = quote;
    while (first > begin && json[first - 1] == '\\') --first;
    if ((quote - first) % 2 == 0) return quote;
    at = quote + 1;
  }
}

std::size_t behind(std::string_view json, std::size_t at) {
  return at < json.size() ? at + 1 : at;
}

/// The character that an escape in a key stands for, as far as ASCII names need it ('\0': none of
/// them).
char unescape(std::string_view key, std::size_t& at) {
  const char kind = at + 1 < key.size() ? key[at + 1] : '\0';
  if (kind != 'u') {
    at += 2;
    return kind == '"' || kind == '\\' || kind == '/' ? kind : '\0';
  }
  unsigned code = 0;
  const char* digits = key.data() + at + 2;
  const std::size_t left = key.size() - at - 2;
  at += 6;
  if (left < 4 || std::from_chars(digits, digits + 4, code, 16).ptr != digits + 4) return '\0';
  return code < 0x80 ? static_cast<char>(code) : '\0';
}

/// Offset behind the longest JSON number at `at`; `at` itself if there is none.
std::size_t skip_number(std::string_view json, std::size_t at, bool& is_integer) {
  const std::size_t begin = at;
  const auto digits = [&] {
    const std::size_t first = at;
    while (at < json.size() && is_digit(json[at])) ++at;
    return at > first;
  };
  is_integer = true;
  if (at < json.size() && json[at] == '-') ++at;
  const std::size_t integer = at;
  if (!digits()) return begin;
  if (json[integer] == '0' && at > integer + 1) return begin;  // 007 is no JSON number
  if (at < json.size() && json[at] == '.') {
    ++at;
    is_integer = false;
    if (!digits()) return begin;
  }
  if (at < json.size() && (json[at] == 'e' || json[at] == 'E')) {
    ++at;
    is_integer = false;
    if (at < json.size() && (json[at] == '+' || json[at] == '-')) ++at;
    if (!digits()) return begin;
  }
  return at;
}

bool fits(std::string_view number, bool is_integer) {
  const char* first = number.data();
  const char* last = first + number.size();
  if (is_integer) {
    std::int64_t negative = 0;
    std::uint64_t positive = 0;
    return std::from_chars(first, last, negative).ec == std::errc{} ||
           std::from_chars(first, last, positive).ec == std::errc{};
  }
  double value = 0;
  return std::from_chars(first, last, value).ec == std::errc{};
}

std::string_view representable(std::string_view number) {
  double value = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool negative = number.front() == '-';
  if (parsed.ec == std::errc{})
    return negative ? "-1e30" : "1e30";  // an integer of 20 to 308 digits
  const std::size_t exponent = number.find_first_of("eE");
  const bool tiny = exponent != std::string_view::npos && number[exponent + 1] == '-';
  if (tiny) return "0.0";
  return negative ? "-1e308" : "1e308";
}

}  // namespace

std::size_t skip_space(std::string_view json, std::size_t at) {
  while (at < json.size() && is_space(json[at])) ++at;
  return at;
}

std::size_t skip_value(std::string_view json, std::size_t at) {
  std::size_t depth = 0;
  while (at < json.size()) {
    const char c = json[at];
    if (c == '"') {
      at = behind(json, find_string_end(json, at + 1));
      if (depth == 0) return at;
      continue;
    }
    if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return at;  // the end of a bare literal
      if (--depth == 0) return at + 1;
    } else if (depth == 0 && (c == ',' || is_space(c))) {
      return at;
    }
    ++at;
  }
  return at;
}

bool key_spells(std::string_view raw_key, std::string_view name) {
  if (raw_key.find('\\') == std::string_view::npos) return raw_key == name;
  std::size_t matched = 0;
  for (std::size_t at = 0; at < raw_key.size();) {
    char c = raw_key[at];
    if (c == '\\') {
      c = unescape(raw_key, at);
    } else {
      ++at;
    }
    if (matched >= name.size() || c != name[matched]) return false;
    ++matched;
  }
  return matched == name.size();
}

std::optional<JsonMember> last_member(std::string_view json, std::size_t object_begin,
                                      std::string_view name) {
  std::optional<JsonMember> found;
  std::size_t at = object_begin + 1;
  for (;;) {
    at = skip_space(json, at);
    if (at >= json.size() || json[at] != '"') return found;
    JsonMember member;
    member.key_begin = at + 1;
    member.key_end = find_string_end(json, at + 1);
    at = skip_space(json, behind(json, member.key_end));
    if (at >= json.size() || json[at] != ':') return found;
    member.value_begin = skip_space(json, at + 1);
    member.value_end = skip_value(json, member.value_begin);
    const auto key = json.substr(member.key_begin, member.key_end - member.key_begin);
    if (key_spells(key, name)) found = member;
    at = skip_space(json, member.value_end);
    if (at >= json.size() || json[at] != ',') return found;
    ++at;
  }
}

bool is_empty_object(std::string_view json, std::size_t object_begin) {
  const std::size_t at = skip_space(json, object_begin + 1);
  return at < json.size() && json[at] == '}';
}

std::string with_representable_numbers(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  std::size_t copied = 0;
  for (std::size_t at = 0; at < json.size();) {
    const char c = json[at];
    if (c == '"') {
      at = behind(json, find_string_end(json, at + 1));
      continue;
    }
    if (c != '-' && !is_digit(c)) {
      ++at;
      continue;
    }
    bool is_integer = false;
    const std::size_t end = skip_number(json, at, is_integer);
    if (end == at) {
      // Not a number: leave the whole run of digits for the parser to refuse.
      ++at;
      while (at < json.size() && is_digit(json[at])) ++at;
      continue;
    }
    const auto number = json.substr(at, end - at);
    if (!fits(number, is_integer)) {
      out.append(json.substr(copied, at - copied));
      out.append(representable(number));
      copied = end;
    }
    at = end;
  }
  out.append(json.substr(copied));
  return out;
}

}  // namespace tailrace::gateway
