#include <charconv>
#include <optional>

#include "tailrace/core/text.h"
#include "tailrace/net/stream.h"

namespace tailrace::net {
namespace {

using core::quoted;

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, port);
  if (text.empty() || ec != std::errc{} || stop != end) return std::nullopt;
  return port;
}

bool plausible_host(std::string_view host) {
  for (const char c : host) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f ||
        std::string_view("/?#@\\[]<>\"").find(c) != std::string_view::npos) {
      return false;
    }
  }
  return true;
}

struct Authority {
  std::string_view host;
  std::optional<std::string_view> port;
};

/// "host", "host:port", "[v6]", "[v6]:port". Nothing where brackets or colons do not match.
std::optional<Authority> split_authority(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos || close == 1) return std::nullopt;
    const std::string_view host = text.substr(1, close - 1);
    if (!plausible_host(host)) return std::nullopt;
    const std::string_view rest = text.substr(close + 1);
    if (rest.empty()) return Authority{host, std::nullopt};
    if (!rest.starts_with(':')) return std::nullopt;
    return Authority{host, rest.substr(1)};
  }
  const std::size_t colon = text.find(':');
  const std::string_view host = text.substr(0, colon);
  if (!plausible_host(host)) return std::nullopt;
  if (colon == std::string_view::npos) return Authority{host, std::nullopt};
  const std::string_view port = text.substr(colon + 1);
  if (port.find(':') != std::string_view::npos) return std::nullopt;
  return Authority{host, port};
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return (v6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

Result<Url> parse_url(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return fail(ErrorCode::kInvalidArgument,
                "URL " + quoted(text.substr(0, text.find('?')), 256) + " " + std::string(why) +
                    "; use for example http://127.0.0.1:8000 or https://host/prefix");
  };
  Url url;
  std::string_view rest = text;
  const std::size_t scheme = text.find("://");
  const std::string_view behind = scheme == std::string_view::npos ? text : text.substr(scheme + 3);
  if (behind.substr(0, behind.find('/')).find('@') != std::string_view::npos) {
    // The text is not shown: what stands before the @ is a secret.
    return fail(ErrorCode::kInvalidArgument,
                "a user or a password in a URL is not supported; use for example "
                "http://127.0.0.1:8000 or https://host/prefix, and give keys apart");
  }
  if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
    url.endpoint.tls = true;
  } else {
    return bad("does not begin with http:// or https://");
  }
  const std::size_t slash = rest.find('/');
  const std::optional<Authority> authority = split_authority(rest.substr(0, slash));
  if (!authority || authority->host.empty()) return bad("has no usable host");
  url.endpoint.host = authority->host;
  url.endpoint.port = url.endpoint.tls ? 443 : 80;
  if (authority->port) {
    const std::optional<std::uint16_t> port = parse_port(*authority->port);
    if (!port || *port == 0) return bad("has no port between 1 and 65535 after the colon");
    url.endpoint.port = *port;
  }
  if (slash != std::string_view::npos) url.prefix = rest.substr(slash);
  while (url.prefix.ends_with('/')) url.prefix.pop_back();
  for (const char c : url.prefix) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f || c == '?' || c == '#') {
      return bad("has a blank, a query, a fragment or a character outside ASCII in its path");
    }
  }
  return url;
}

Result<Endpoint> parse_host_port(std::string_view text) {
  const std::optional<Authority> authority = split_authority(text);
  const std::optional<std::uint16_t> port =
      authority && authority->port ? parse_port(*authority->port) : std::nullopt;
  if (!port) {
    return fail(ErrorCode::kInvalidArgument,
                "address " + quoted(text, 256) +
                    " is not host:port; use for example 127.0.0.1:8080, [::1]:8080 or :8080");
  }
  return Endpoint{std::string(authority->host), *port, false};
}

}  // namespace tailrace::net
