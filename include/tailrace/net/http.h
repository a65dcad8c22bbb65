// What is in an HTTP/1.1 message head?
//
// Names compare without case; order and spelling are kept so that a relayed message looks as it
// came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"

namespace tailrace::net {

struct Header {
  std::string name;
  std::string value;
};

class Headers {
 public:
  Headers() = default;
  Headers(std::initializer_list<Header> headers) : headers_(headers) {}

  /// The first value of that name.
  std::optional<std::string_view> find(std::string_view name) const;
  std::size_t count(std::string_view name) const;
  /// Is `token` an element of the comma-separated lists under that name ("close" in Connection)?
  bool has_token(std::string_view name, std::string_view token) const;
  void add(std::string name, std::string value) {
    headers_.push_back({std::move(name), std::move(value)});
  }
  void set(std::string_view name, std::string value);  ///< replaces every value of that name by one
  void remove(std::string_view name);
  auto begin() const { return headers_.begin(); }
  auto end() const { return headers_.end(); }
  std::size_t size() const { return headers_.size(); }

  /// Drops Connection, what it names, and the other hop-by-hop fields (RFC 9110, 7.6.1), with
  /// Transfer-Encoding and Content-Length: framing belongs to each connection.
  void remove_hop_by_hop();

 private:
  std::vector<Header> headers_;
};

struct RequestHead {
  std::string method;
  std::string target;     ///< as sent: "/v1/chat/completions?x=1"
  int minor_version = 1;  ///< HTTP/1.0 or 1.1
  Headers headers;

  std::string_view path() const;  ///< target up to '?'
};

struct ResponseHead {
  int status = 200;
  std::string reason;  ///< empty: the usual phrase
  Headers headers;
};

/// "Not Found" for 404; "" for an unknown code.
std::string_view reason_phrase(int status);

/// How the bytes after a head are delimited.
struct BodyFraming {
  enum class Kind { kNone, kLength, kChunked, kUntilClose };
  Kind kind = Kind::kNone;
  std::uint64_t length = 0;  ///< for kLength

  friend bool operator==(const BodyFraming&, const BodyFraming&) = default;
};

/// RFC 9112, 6.3. A request with both Content-Length and Transfer-Encoding, differing lengths, or a
/// coding other than a single final "chunked" is kInvalidArgument (answer 400 and close).
Result<BodyFraming> request_framing(const RequestHead& head);
/// The answer to `request_method`; 1xx, 204, 304 and answers to HEAD have no body.
Result<BodyFraming> response_framing(const ResponseHead& head, std::string_view request_method);

}  // namespace tailrace::net
