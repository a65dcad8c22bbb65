// How does a command print one JSON object whose fields keep their order?
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tailrace::cli {

/// Numbers print so that they read back as themselves; what is unknown or no number is null.
class JsonObject {
 public:
  JsonObject& add(std::string_view name, double value) {
    return raw(name, std::isfinite(value) ? fmt::format("{}", value) : "null");
  }
  JsonObject& add(std::string_view name, std::optional<double> value) {
    return value ? add(name, *value) : raw(name, "null");
  }
  JsonObject& add(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }
  JsonObject& add(std::string_view name, const JsonObject& value) {
    return raw(name, value.text());
  }
  JsonObject& add_text(std::string_view name, std::string_view value) {
    return raw(name, quote(value));
  }
  JsonObject& add_texts(std::string_view name, const std::vector<std::string>& values) {
    std::string list;
    for (const std::string& value : values) list += (list.empty() ? "" : ",") + quote(value);
    return raw(name, "[" + list + "]");
  }
  JsonObject& add_null(std::string_view name) { return raw(name, "null"); }

  std::string text() const { return "{" + fields_ + "}"; }

 private:
  static std::string quote(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      if (static_cast<unsigned char>(c) < 0x20) {
        out += fmt::format("\\u{:04x}", c);
      } else {
        out += c;
      }
    }
    return out + "\"";
  }
  JsonObject& raw(std::string_view name, std::string_view value) {
    fields_ += fmt::format("{}\"{}\":{}", fields_.empty() ? "" : ",", name, value);
    return *this;
  }

  std::string fields_;
};

}  // namespace tailrace::cli
