// Where in a JSON text do the members of an object begin and end?
//
// A parser gives values; an edit that touches no other byte needs offsets. These functions walk a
// text that a parser has accepted. On anything else they stay inside the text and find nothing
// useful.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tailrace::gateway {

/// One member of an object: offsets into the text. The key's are without its quotes.
struct JsonMember {
  std::size_t key_begin = 0, key_end = 0;
  std::size_t value_begin = 0, value_end = 0;
};

/// Offset of the first byte that is not white space, from `at` on.
std::size_t skip_space(std::string_view json, std::size_t at);
/// Offset just behind the value that begins at `at`. No recursion.
std::size_t skip_value(std::string_view json, std::size_t at);
/// The last member of that name in the object that begins at `object_begin` ('{'), escapes in keys
/// considered.
std::optional<JsonMember> last_member(std::string_view json, std::size_t object_begin,
                                      std::string_view name);
/// Is the object that begins at `object_begin` without members?
bool is_empty_object(std::string_view json, std::size_t object_begin);
/// Does a key as it stands in the text (without quotes) spell `name`? ASCII names only.
bool key_spells(std::string_view raw_key, std::string_view name);

/// The text with numbers that no double or 64-bit integer holds replaced by near ones that they do:
/// simdjson refuses a whole document for `1e999`, engines do not.
std::string with_representable_numbers(std::string_view json);

}  // namespace tailrace::gateway
