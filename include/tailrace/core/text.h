// Small questions about text that the standard library answers awkwardly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"

namespace tailrace::core {

std::string_view trim(std::string_view text);          ///< without ASCII white space at both ends
bool iequals(std::string_view a, std::string_view b);  ///< ASCII case-insensitive equality
std::vector<std::string_view> split(std::string_view text, char separator);

/// The whole text as a number, or nothing (no leading '+', no white space, no trailing bytes).
std::optional<std::int64_t> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);

/// What a client or an engine sent may be no UTF-8 at all, but JSON must be: each byte that belongs
/// to no character becomes '?'.
std::string valid_utf8(std::string_view text);
/// The longest beginning of at most `max_bytes` that does not end inside a UTF-8 character.
std::string_view utf8_prefix(std::string_view text, std::size_t max_bytes);

/// A text for an error message: quoted, control characters escaped, cut to `max_bytes` with "…".
std::string quoted(std::string_view text, std::size_t max_bytes = 64);

/// A whole file. Errors: kNotFound, kResourceExhausted over `max_bytes`, kInternal.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes);
/// The same for a program that must not wait: a pipe, a socket or a device is refused
/// (kInvalidArgument) instead of read.
Result<std::string> read_regular_file(const std::string& path, std::size_t max_bytes);

/// Replaces a file so that a reader, or a crash, sees the old bytes or the new ones, never a mix:
/// a temporary file in the same folder, fsync, rename, fsync of the folder. A symbolic link is
/// followed; a device or a pipe is written into instead (core/write_target.h).
Result<void> write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace tailrace::core
