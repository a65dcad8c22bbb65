// Is this a well-formed HTTP/1.1 message head, and what does it say?
//
// HeadScanner looks at every byte as it comes and refuses what two parsers could read differently:
// a bare CR or LF, a folded line, a NUL, a blank before the colon. What passes goes to Beast's
// parser, which checks names, values and the start line once more. Private to src/net.
#pragma once

#include <cstddef>
#include <string_view>

#include "tailrace/core/result.h"
#include "tailrace/net/http.h"

namespace tailrace::net {

/// Finds the end of a head in a growing buffer. Reads each byte once.
class HeadScanner {
 public:
  HeadScanner(std::size_t bytes_max, std::size_t headers_max)
      : bytes_max_(bytes_max), headers_max_(headers_max) {}

  /// `buffer` begins with the head's first byte and has grown since the last call. The head's size
  /// with its empty line, or 0 while it is incomplete. Errors: kResourceExhausted over a limit
  /// (431), kInvalidArgument for a malformed line (400).
  Result<std::size_t> scan(std::string_view buffer);
  void reset();
  bool begun() const { return scanned_ > 0; }

 private:
  std::size_t bytes_max_;
  std::size_t headers_max_;
  std::size_t line_start_ = 0;
  std::size_t scanned_ = 0;
  std::size_t lines_ = 0;
};

/// A response's version decides about keeping the connection, but nobody above needs it.
struct ParsedResponse {
  ResponseHead head;
  int minor_version = 1;
};

/// `head` is what HeadScanner found. Errors: kInvalidArgument, kUnsupported for another HTTP
/// version.
Result<RequestHead> parse_request_head(std::string_view head);
Result<ParsedResponse> parse_response_head(std::string_view head);

/// A head as it goes on the wire. A field whose name is not a token is left out, and control
/// characters in values become blanks, so that no value can add a line of its own.
std::string serialize(const RequestHead& head);
std::string serialize(const ResponseHead& head);

}  // namespace tailrace::net
