// How does a function say that it could not do what it was asked?
//
// Expected failures are values: Result<T> is either a T or an Error. Exceptions thrown by libraries
// are converted at their edge; nothing of ours throws. What is impossible is a TAILRACE_CHECK
// (core/check.h), never an Error.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace tailrace {

enum class ErrorCode {
  kInvalidArgument,    // the caller's input is wrong; the message names the field, value and remedy
  kNotFound,           // no such id, name or file
  kAlreadyExists,      // the id or name is taken
  kResourceExhausted,  // a stated limit is reached (queue, bytes, connections)
  kUnavailable,        // the other side cannot be reached or refuses; a retry may work
  kDeadlineExceeded,   // a time-out ran out
  kCancelled,          // the caller or the peer gave up
  kDataLoss,           // stored or received bytes are damaged or cut short
  kUnsupported,        // a well-formed request for something that is not offered
  kInternal,           // a library or system call failed in a way that no input explains
};

/// The code's name in lower snake case, for logs and JSON: "invalid_argument".
std::string_view to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;

  /// The same error, with `context` and ": " before its message.
  [[nodiscard]] Error with_context(std::string_view context) const;
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::make_unexpected(Error{code, std::move(message)});
}
inline tl::unexpected<Error> fail(Error error) {
  return tl::make_unexpected(std::move(error));
}

}  // namespace tailrace
