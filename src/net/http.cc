#include "tailrace/net/http.h"

#include <algorithm>
#include <charconv>

#include "tailrace/core/text.h"

namespace tailrace::net {
namespace {

using core::iequals;
using core::quoted;
using core::trim;

/// Fields that describe one connection and not the message (RFC 9110, 7.6.1), with the framing
/// fields.
constexpr std::string_view kHopByHop[] = {"connection",
                                          "keep-alive",
                                          "proxy-connection",
                                          "proxy-authenticate",
                                          "proxy-authorization",
                                          "te",
                                          "trailer",
                                          "transfer-encoding",
                                          "upgrade",
                                          "content-length"};

/// The elements of a comma-separated list, without white space around them; empty ones are kept.
template <class F>
void for_each_element(std::string_view list, F visit) {
  for (const std::string_view part : core::split(list, ',')) visit(trim(part));
}

Result<std::uint64_t> parse_length(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, value);
  // from_chars takes no sign and no blank for unsigned types, but stops early at anything else.
  if (text.empty() || ec != std::errc{} || stop != end || text.front() == '-') {
    return fail(ErrorCode::kInvalidArgument,
                "Content-Length " + quoted(text) + " is not a number of bytes");
  }
  return value;
}

/// The one length that all Content-Length fields agree on; nothing where there is no such field.
Result<std::optional<std::uint64_t>> content_length(const Headers& headers) {
  std::optional<std::uint64_t> length;
  for (const Header& header : headers) {
    if (!iequals(header.name, "content-length")) continue;
    for (const std::string_view element : core::split(header.value, ',')) {
      const Result<std::uint64_t> parsed = parse_length(trim(element));
      if (!parsed) return fail(parsed.error());
      if (length && *length != *parsed) {
        return fail(ErrorCode::kInvalidArgument, "Content-Length is given twice with other values");
      }
      length = *parsed;
    }
  }
  return length;
}

/// True for a single "chunked"; an error for any other transfer coding or a list of them.
Result<bool> is_chunked(const Headers& headers) {
  const std::size_t fields = headers.count("transfer-encoding");
  if (fields == 0) return false;
  const std::string_view value = headers.find("transfer-encoding").value();
  if (fields > 1 || !iequals(trim(value), "chunked")) {
    return fail(ErrorCode::kInvalidArgument, "Transfer-Encoding " + quoted(value) +
                                                 " is not supported; only a single chunked is");
  }
  return true;
}

Result<BodyFraming> explicit_framing(const Headers& headers) {
  const Result<std::optional<std::uint64_t>> length = content_length(headers);
  if (!length) return fail(length.error());
  const Result<bool> chunked = is_chunked(headers);
  if (!chunked) return fail(chunked.error());
  if (*chunked && *length) {
    return fail(ErrorCode::kInvalidArgument,
                "Content-Length and Transfer-Encoding must not stand in one message");
  }
  if (*chunked) return BodyFraming{BodyFraming::Kind::kChunked, 0};
  if (*length) return BodyFraming{BodyFraming::Kind::kLength, **length};
  return BodyFraming{};
}

}  // namespace

std::optional<std::string_view> Headers::find(std::string_view name) const {
  for (const Header& header : headers_) {
    if (iequals(header.name, name)) return header.value;
  }
  return std::nullopt;
}

std::size_t Headers::count(std::string_view name) const {
  return static_cast<std::size_t>(std::count_if(
      headers_.begin(), headers_.end(), [&](const Header& h) { return iequals(h.name, name); }));
}

bool Headers::has_token(std::string_view name, std::string_view token) const {
  bool found = false;
  for (const Header& header : headers_) {
    if (!iequals(header.name, name)) continue;
    for_each_element(header.value, [&](std::string_view e) { found |= iequals(e, token); });
  }
  return found;
}

void Headers::set(std::string_view name, std::string value) {
  const auto first = std::find_if(headers_.begin(), headers_.end(),
                                  [&](const Header& h) { return iequals(h.name, name); });
  if (first == headers_.end()) return add(std::string(name), std::move(value));
  first->value = std::move(value);
  headers_.erase(std::remove_if(first + 1, headers_.end(),
                                [&](const Header& h) { return iequals(h.name, name); }),
                 headers_.end());
}

void Headers::remove(std::string_view name) {
  std::erase_if(headers_, [&](const Header& h) { return iequals(h.name, name); });
}

void Headers::remove_hop_by_hop() {
  std::vector<std::string> named;
  for (const Header& header : headers_) {
    if (!iequals(header.name, "connection")) continue;
    for_each_element(header.value, [&](std::string_view e) { named.emplace_back(e); });
  }
  std::erase_if(headers_, [&](const Header& h) {
    const auto same = [&](std::string_view name) { return iequals(h.name, name); };
    return std::any_of(std::begin(kHopByHop), std::end(kHopByHop), same) ||
           std::any_of(named.begin(), named.end(), same);
  });
}

std::string_view RequestHead::path() const {
  return std::string_view(target).substr(0, target.find('?'));
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 101:
      return "Switching Protocols";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 424:
      return "Failed Dependency";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    case 529:
      return "Site Is Overloaded";
    default:
      return "";
  }
}

Result<BodyFraming> request_framing(const RequestHead& head) {
  const Result<BodyFraming> framing = explicit_framing(head.headers);
  if (!framing) return framing;
  if (framing->kind == BodyFraming::Kind::kChunked && head.minor_version == 0) {
    return fail(ErrorCode::kInvalidArgument, "Transfer-Encoding is not part of HTTP/1.0");
  }
  if (framing->kind == BodyFraming::Kind::kLength && framing->length == 0) return BodyFraming{};
  return framing;
}

Result<BodyFraming> response_framing(const ResponseHead& head, std::string_view request_method) {
  const bool bodiless = head.status / 100 == 1 || head.status == 204 || head.status == 304;
  if (bodiless || request_method == "HEAD") return BodyFraming{};
  const Result<BodyFraming> framing = explicit_framing(head.headers);
  if (!framing) return framing;
  if (framing->kind == BodyFraming::Kind::kNone) {
    return BodyFraming{BodyFraming::Kind::kUntilClose, 0};
  }
  if (framing->kind == BodyFraming::Kind::kLength && framing->length == 0) return BodyFraming{};
  return framing;
}

}  // namespace tailrace::net
