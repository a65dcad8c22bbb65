#include "tailrace/core/field.h"

#include <fmt/format.h>

#include <cmath>

#include "tailrace/core/text.h"

namespace tailrace::core {
namespace {

constexpr std::size_t kTextBytesMax = 4096;

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kTimeUnits[] = {{"us", 1e3}, {"ms", 1e6},   {"s", 1e9},
                               {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}};
constexpr Unit kByteUnits[] = {{"", 1},       {"B", 1},         {"kB", 1e3},
                               {"KB", 1e3},   {"MB", 1e6},      {"GB", 1e9},
                               {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}};

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

/// A non-negative number followed by one of the units.
template <std::size_t N>
std::optional<double> parse_with_unit(std::string_view text, const Unit (&units)[N]) {
  const std::size_t digits = text.find_first_not_of("0123456789.");
  const auto value = parse_double(text.substr(0, digits));
  const auto unit =
      trim(digits == std::string_view::npos ? std::string_view{} : text.substr(digits));
  if (!value) return std::nullopt;
  for (const Unit& known : units) {
    if (known.name == unit) return *value * known.factor;
  }
  return std::nullopt;
}

template <class T>
Field whole_number_field(std::string name, std::int64_t low, std::int64_t high, std::string help,
                         T now, const std::function<void(std::int64_t)>& set) {
  Field field;
  field.name = std::move(name);
  field.type = fmt::format("whole number from {} to {}", low, high);
  field.help = std::move(help);
  field.default_text = fmt::format("{}", now);
  field.assign = [=, type = field.type](std::string_view text) -> Result<void> {
    const auto value = parse_int(text);
    if (!value || *value < low || *value > high) return wrong(fmt::format("is not a {}", type));
    set(*value);
    return {};
  };
  return field;
}

std::string duration_type(Duration low, Duration high) {
  return fmt::format("duration from {} to {}", print_duration(low), print_duration(high));
}

Result<Duration> duration_within(std::string_view text, Duration low, Duration high) {
  const auto value = parse_duration(text);
  if (!value) return fail(value.error());
  if (*value < low || *value > high) {
    return wrong(fmt::format("is not a {}", duration_type(low, high)));
  }
  return *value;
}

}  // namespace

bool is_plain_name(std::string_view text, std::size_t bytes_max) {
  return !text.empty() && text.size() <= bytes_max &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
             std::string_view::npos;
}

std::string join_words(const std::vector<std::string>& words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

Result<Duration> parse_duration(std::string_view text) {
  if (text == "0") return Duration{0};
  const auto nanoseconds = parse_with_unit(text, kTimeUnits);
  if (!nanoseconds || !(*nanoseconds < 9e18)) {
    return wrong("is not a duration; write a number and a unit, such as 250ms, 5s, 2m or 1h");
  }
  return Duration{std::llround(*nanoseconds)};
}

Result<std::size_t> parse_bytes(std::string_view text) {
  const auto bytes = parse_with_unit(text, kByteUnits);
  if (!bytes || !(*bytes < 9e18)) {
    return wrong(
        "is not a size; write a number of bytes, or one with a unit, such as 512KiB or 32MiB");
  }
  return static_cast<std::size_t>(std::llround(*bytes));
}

std::string print_duration(Duration value) {
  const std::int64_t ns = value.count();
  if (ns == 0) return "0";
  if (ns % 3'600'000'000'000 == 0) return fmt::format("{}h", ns / 3'600'000'000'000);
  if (ns % 60'000'000'000 == 0 && ns >= 300'000'000'000)
    return fmt::format("{}m", ns / 60'000'000'000);
  if (ns % 1'000'000'000 == 0) return fmt::format("{}s", ns / 1'000'000'000);
  if (ns % 1'000'000 == 0) return fmt::format("{}ms", ns / 1'000'000);
  return fmt::format("{}us", static_cast<double>(ns) / 1e3);
}

std::string print_bytes(std::size_t value) {
  for (const Unit& unit : {kByteUnits[8], kByteUnits[7], kByteUnits[6]}) {
    const auto factor = static_cast<std::size_t>(unit.factor);
    if (value >= factor && value % factor == 0)
      return fmt::format("{}{}", value / factor, unit.name);
  }
  return fmt::format("{}", value);
}

Field required(Field field) {
  field.required = true;
  field.default_text.clear();
  return field;
}

Field withheld(Field field) {
  field.withheld = true;
  return field;
}

std::string shown(const Field& field, std::string_view value) {
  if (field.withheld) return "its value";
  const std::size_t scheme = value.find("://");
  const std::size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  // Of a URL, neither who asks nor what: both may hold a key.
  const std::size_t query = scheme == std::string_view::npos ? scheme : value.find('?', begin);
  const std::string_view place = value.substr(0, query);
  const std::string_view rest = query == std::string_view::npos ? "" : "?…";
  const std::size_t at = place.find('@', begin);
  if (at == std::string_view::npos) return quoted(std::string(place) + std::string(rest));
  return quoted(std::string(place.substr(0, begin)) + "…" + std::string(place.substr(at)) +
                std::string(rest));
}

Field text_field(std::string name, std::string& into, std::string help) {
  Field field;
  field.name = std::move(name);
  field.type = "text";
  field.help = std::move(help);
  field.default_text = into;
  field.assign = [&into](std::string_view text) -> Result<void> {
    if (text.size() > kTextBytesMax) {
      return wrong(fmt::format("is longer than {} bytes", kTextBytesMax));
    }
    for (const char c : text) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
        return wrong("has a control character");
    }
    into = text;
    return {};
  };
  return field;
}

Field text_list_field(std::string name, std::vector<std::string>& into, std::string help) {
  Field field;
  field.name = std::move(name);
  field.type = "list of texts";
  field.help = std::move(help);
  field.default_text = join_words(into, ", ");
  field.is_list = true;
  field.clear = [&into] { into.clear(); };
  field.assign = [&into](std::string_view text) -> Result<void> {
    std::string item;
    if (auto set = text_field("", item, "").assign(text); !set) return set;
    if (item.empty()) return wrong("is empty");
    for (const auto& other : into) {
      if (other == item) return wrong("stands in the list twice");
    }
    into.push_back(std::move(item));
    return {};
  };
  return field;
}

Field flag_field(std::string name, bool& into, std::string help) {
  Field field;
  field.name = std::move(name);
  field.type = "true \\| false";
  field.help = std::move(help);
  field.default_text = into ? "true" : "false";
  field.assign = [&into](std::string_view text) -> Result<void> {
    if (text != "true" && text != "false") return wrong("is neither true nor false");
    into = text == "true";
    return {};
  };
  return field;
}

Field int_field(std::string name, int& into, std::int64_t low, std::int64_t high,
                std::string help) {
  return whole_number_field(std::move(name), low, high, std::move(help), into,
                            [&into](std::int64_t value) { into = static_cast<int>(value); });
}

Field count_field(std::string name, std::size_t& into, std::int64_t low, std::int64_t high,
                  std::string help) {
  return whole_number_field(
      std::move(name), low, high, std::move(help), into,
      [&into](std::int64_t value) { into = static_cast<std::size_t>(value); });
}

Field whole_field(std::string name, std::int64_t& into, std::int64_t low, std::int64_t high,
                  std::string help) {
  return whole_number_field(std::move(name), low, high, std::move(help), into,
                            [&into](std::int64_t value) { into = value; });
}

Field optional_count_field(std::string name, std::optional<std::uint64_t>& into, std::int64_t low,
                           std::int64_t high, std::string help) {
  Field field =
      whole_number_field(std::move(name), low, high, std::move(help), 0,
                         [&into](std::int64_t value) { into = static_cast<std::uint64_t>(value); });
  field.type += ", or auto";
  field.default_text = into ? std::to_string(*into) : "auto";
  field.assign = [&into, number = std::move(field.assign)](std::string_view text) -> Result<void> {
    if (text == "auto") {
      into.reset();
      return {};
    }
    if (auto set = number(text); !set) {
      return fail(ErrorCode::kInvalidArgument, set.error().message + ", nor auto");
    }
    return {};
  };
  return field;
}

Field tokens_field(std::string name, Tokens& into, std::int64_t low, std::int64_t high,
                   std::string help) {
  return whole_number_field(std::move(name), low, high, std::move(help), into.count(),
                            [&into](std::int64_t value) { into = Tokens{value}; });
}

Field optional_tokens_field(std::string name, std::optional<Tokens>& into, std::string help) {
  Field field = whole_number_field(std::move(name), 1, 1 << 30, std::move(help), 0,
                                   [&into](std::int64_t value) { into = Tokens{value}; });
  field.default_text = into ? std::to_string(into->count()) : "";
  return field;
}

Field real_field(std::string name, double& into, double low, double high, std::string help) {
  Field field;
  field.name = std::move(name);
  field.type = fmt::format("number from {} to {}", low, high);
  field.help = std::move(help);
  field.default_text = fmt::format("{}", into);
  field.assign = [&into, low, high, type = field.type](std::string_view text) -> Result<void> {
    const auto value = parse_double(text);
    if (!value || !(*value >= low && *value <= high))
      return wrong(fmt::format("is not a {}", type));
    into = *value;
    return {};
  };
  return field;
}

Field optional_real_field(std::string name, std::optional<double>& into, double low, double high,
                          std::string help) {
  double now = into.value_or(low);
  Field field = real_field(std::move(name), now, low, high, std::move(help));
  field.type += ", or auto";
  field.default_text = into ? fmt::format("{}", *into) : "auto";
  field.assign = [&into, low, high](std::string_view text) -> Result<void> {
    if (text == "auto") {
      into.reset();
      return {};
    }
    double value = 0;
    if (auto set = real_field("", value, low, high, "").assign(text); !set) {
      return fail(ErrorCode::kInvalidArgument, set.error().message + ", nor auto");
    }
    into = value;
    return {};
  };
  return field;
}

Field duration_field(std::string name, Duration& into, Duration low, Duration high,
                     std::string help) {
  Field field;
  field.name = std::move(name);
  field.type = duration_type(low, high);
  field.help = std::move(help);
  field.default_text = print_duration(into);
  field.assign = [&into, low, high](std::string_view text) -> Result<void> {
    const auto value = duration_within(text, low, high);
    if (!value) return fail(value.error());
    into = *value;
    return {};
  };
  return field;
}

Field optional_duration_field(std::string name, std::optional<Duration>& into, Duration low,
                              Duration high, std::string help) {
  Field field;
  field.name = std::move(name);
  field.type = duration_type(low, high) + ", or off";
  field.help = std::move(help);
  field.default_text = into ? print_duration(*into) : "off";
  field.assign = [&into, low, high](std::string_view text) -> Result<void> {
    if (text == "off") {
      into.reset();
      return {};
    }
    const auto value = duration_within(text, low, high);
    if (!value) return fail(ErrorCode::kInvalidArgument, value.error().message + ", or off");
    into = *value;
    return {};
  };
  return field;
}

Field bytes_field(std::string name, std::size_t& into, std::size_t low, std::size_t high,
                  std::string help) {
  Field field;
  field.name = std::move(name);
  field.type = fmt::format("size from {} to {}", print_bytes(low), print_bytes(high));
  field.help = std::move(help);
  field.default_text = print_bytes(into);
  field.assign = [&into, low, high, type = field.type](std::string_view text) -> Result<void> {
    const auto value = parse_bytes(text);
    if (!value) return fail(value.error());
    if (*value < low || *value > high) return wrong(fmt::format("is not a {}", type));
    into = *value;
    return {};
  };
  return field;
}

}  // namespace tailrace::core
