#include "tailrace/core/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <cmath>

#include "tailrace/core/text.h"

namespace tailrace::log {
namespace {

std::atomic<Level> g_level{Level::kInfo};
std::atomic<Format> g_format{Format::kLogfmt};

spdlog::logger& sink() {
  // spdlog holds the lock and the time stamp; the message is already formatted by us.
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("tailrace",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(spdlog::level::trace);
    made->flush_on(spdlog::level::info);
    made->set_pattern("%v");
    return made;
  }();
  return *logger;
}

std::string_view name(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kInfo:
      return "info";
    case Level::kWarn:
      return "warn";
    case Level::kError:
      return "error";
  }
  return "error";
}

std::string json_text(std::string_view text) {
  return boost::json::serialize(boost::json::string(core::valid_utf8(text)));
}

std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, millis);
}

bool bare(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f || c == '"' || c == '=' || c == '\\') {
      return false;
    }
  }
  return true;
}

}  // namespace

Field::Field(std::string_view k, double v)
    : key(k), value(std::isfinite(v) ? fmt::format("{:.6g}", v) : "null"), is_text(false) {}

Result<Level> parse_level(std::string_view text) {
  for (const Level level : {Level::kDebug, Level::kInfo, Level::kWarn, Level::kError}) {
    if (text == name(level)) return level;
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("log level \"{}\" is unknown; use debug, info, warn or error", text));
}

Result<Format> parse_format(std::string_view text) {
  if (text == "logfmt") return Format::kLogfmt;
  if (text == "json") return Format::kJson;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("log format \"{}\" is unknown; use logfmt or json", text));
}

void configure(Level level, Format format) {
  g_level = level;
  g_format = format;
}

bool enabled(Level level) {
  return level >= g_level.load(std::memory_order_relaxed);
}

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  if (!enabled(level)) return;
  std::string line;
  if (g_format.load(std::memory_order_relaxed) == Format::kJson) {
    line = fmt::format("{{\"time\":\"{}\",\"level\":\"{}\",\"event\":{}", utc_now(), name(level),
                       json_text(event));
    for (const Field& f : fields) {
      line += fmt::format(",{}:{}", json_text(f.key), f.is_text ? json_text(f.value) : f.value);
    }
    line += '}';
  } else {
    line = fmt::format("time={} level={} event={}", utc_now(), name(level), event);
    for (const Field& f : fields) {
      line +=
          fmt::format(" {}={}", f.key, f.is_text && !bare(f.value) ? json_text(f.value) : f.value);
    }
  }
  sink().info(line);
}

}  // namespace tailrace::log
