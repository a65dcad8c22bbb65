// How is a refusal or failure told to a client that speaks the OpenAI API?
#pragma once

#include <string>
#include <string_view>

#include "tailrace/core/result.h"
#include "tailrace/dispatch/dispatcher.h"

namespace tailrace::gateway {

/// {"error":{"message":…,"type":…,"code":…,"param":…}}; an empty code or param is null.
std::string error_body(std::string_view message, std::string_view type, std::string_view code = {},
                       std::string_view param = {});

/// The same as one server-sent event, for a stream that fails after its head.
std::string error_event(std::string_view message, std::string_view type,
                        std::string_view code = {});

/// A status and its body.
struct ErrorAnswer {
  int status = 500;
  std::string body;
  std::string message;  ///< the one in the body, for logs and explanations
};

/// Of an error in what the client sent, or in ourselves; see status_of.
ErrorAnswer error_answer(const Error& error);
/// With a status that the code alone does not tell (413, 431, 502, …).
ErrorAnswer error_answer(int status, std::string_view message, std::string_view code = {},
                         std::string_view param = {});
ErrorAnswer error_answer(dispatch::Refusal refusal, std::string_view reason);

/// kInvalidArgument 400, kNotFound 404, kAlreadyExists 409, kResourceExhausted 429, kUnavailable
/// 503, kDeadlineExceeded 504, kCancelled 499, kDataLoss 502, kUnsupported 501, kInternal 500.
int status_of(ErrorCode code);
/// As noted beside each value of dispatch::Refusal.
int status_of(dispatch::Refusal refusal);
std::string_view to_string(dispatch::Refusal refusal);  ///< "unknown_model", "queue_full", …
/// The API's word for a status: "invalid_request_error", "rate_limit_error", "server_error", …
std::string_view error_type(int status);

}  // namespace tailrace::gateway
