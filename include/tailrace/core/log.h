// How does the program say what it is doing?
//
// One line per event on standard error: a short event name and typed fields, as logfmt or JSON.
// Never a prompt, an answer or a key: callers pass ids, counts, names and error messages. Any
// thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "tailrace/core/result.h"

namespace tailrace::log {

enum class Level { kDebug, kInfo, kWarn, kError };
enum class Format { kLogfmt, kJson };

/// Names in lower case: "debug", "info", "warn", "error"; "logfmt", "json". kInvalidArgument
/// otherwise.
Result<Level> parse_level(std::string_view name);
Result<Format> parse_format(std::string_view name);

void configure(Level level, Format format);
bool enabled(Level level);

struct Field {
  std::string_view key;
  std::string value;
  bool is_text;

  Field(std::string_view k, std::string_view v) : key(k), value(v), is_text(true) {}
  Field(std::string_view k, const char* v) : key(k), value(v), is_text(true) {}
  Field(std::string_view k, const std::string& v) : key(k), value(v), is_text(true) {}
  Field(std::string_view k, std::int64_t v) : key(k), value(std::to_string(v)), is_text(false) {}
  Field(std::string_view k, std::uint64_t v) : key(k), value(std::to_string(v)), is_text(false) {}
  Field(std::string_view k, int v) : key(k), value(std::to_string(v)), is_text(false) {}
  Field(std::string_view k, bool v) : key(k), value(v ? "true" : "false"), is_text(false) {}
  Field(std::string_view k, double v);
};

void write(Level level, std::string_view event, std::initializer_list<Field> fields);
inline void debug(std::string_view event, std::initializer_list<Field> f = {}) {
  if (enabled(Level::kDebug)) write(Level::kDebug, event, f);
}
inline void info(std::string_view event, std::initializer_list<Field> f = {}) {
  write(Level::kInfo, event, f);
}
inline void warn(std::string_view event, std::initializer_list<Field> f = {}) {
  write(Level::kWarn, event, f);
}
inline void error(std::string_view event, std::initializer_list<Field> f = {}) {
  write(Level::kError, event, f);
}

}  // namespace tailrace::log
