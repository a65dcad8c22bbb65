#include "gateway/route.h"

#include <algorithm>
#include <vector>

#include "tailrace/core/text.h"

namespace tailrace::gateway {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Decoded again and again, as every hop may: "%2566" is "%66" is "f". The bytes left to look at
/// only shrink, so that one pass with a step back is enough.
std::string percent_decoded(std::string_view path) {
  std::string out;
  for (const char c : path) {
    out += c;
    while (out.size() >= 3 && out[out.size() - 3] == '%') {
      const int high = hex_digit(out[out.size() - 2]);
      const int low = hex_digit(out.back());
      if (high < 0 || low < 0) break;
      out.resize(out.size() - 3);
      out += static_cast<char>(high * 16 + low);
    }
  }
  return out;
}

}  // namespace

std::optional<Route> route_of(std::string_view path) {
  if (path == "/v1/chat/completions") return Route::kChat;
  if (path == "/v1/completions") return Route::kCompletions;
  if (path == "/v1/responses") return Route::kResponses;
  return std::nullopt;
}

std::string plain_path(std::string_view path) {
  std::string decoded = percent_decoded(path);
  decoded.resize(std::min(decoded.size(), decoded.find('#')));
  for (char& c : decoded) {
    if (c == '\\') c = '/';
  }
  std::vector<std::string_view> kept;
  for (const std::string_view segment : core::split(decoded, '/')) {
    if (segment == "..") {
      if (!kept.empty()) kept.pop_back();
    } else if (!segment.empty() && segment != ".") {
      kept.push_back(segment);
    }
  }
  std::string plain;
  for (const std::string_view segment : kept) plain.append("/").append(segment);
  return plain;
}

std::string_view to_string(Route route) {
  switch (route) {
    case Route::kChat:
      return "chat";
    case Route::kCompletions:
      return "completions";
    case Route::kResponses:
      return "responses";
  }
  return "";
}

}  // namespace tailrace::gateway
