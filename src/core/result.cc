#include "tailrace/core/result.h"

#include "tailrace/core/check.h"

#include <cstdio>
#include <cstdlib>

namespace tailrace {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kAlreadyExists:
      return "already_exists";
    case ErrorCode::kResourceExhausted:
      return "resource_exhausted";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kDeadlineExceeded:
      return "deadline_exceeded";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kDataLoss:
      return "data_loss";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

Error Error::with_context(std::string_view context) const {
  std::string text(context);
  text += ": ";
  text += message;
  return Error{code, std::move(text)};
}

namespace core {
void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "tailrace: impossible state: %s is false at %s:%d\n", expression, file,
               line);
  std::abort();
}
}  // namespace core

}  // namespace tailrace
