#include "gateway/error_body.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "tailrace/core/text.h"

namespace tailrace::gateway {
namespace {

boost::json::value text_or_null(std::string_view text) {
  if (text.empty()) return nullptr;
  return boost::json::string(core::valid_utf8(text));
}

}  // namespace

std::string error_body(std::string_view message, std::string_view type, std::string_view code,
                       std::string_view param) {
  const boost::json::object error{{"message", boost::json::string(core::valid_utf8(message))},
                                  {"type", boost::json::string(core::valid_utf8(type))},
                                  {"code", text_or_null(code)},
                                  {"param", text_or_null(param)}};
  return boost::json::serialize(boost::json::object{{"error", error}});
}

std::string error_event(std::string_view message, std::string_view type, std::string_view code) {
  return fmt::format("data: {}\n\n", error_body(message, type, code));
}

ErrorAnswer error_answer(int status, std::string_view message, std::string_view code,
                         std::string_view param) {
  return {status, error_body(message, error_type(status), code, param), std::string(message)};
}

ErrorAnswer error_answer(const Error& error) {
  return error_answer(status_of(error.code), error.message, to_string(error.code));
}

ErrorAnswer error_answer(dispatch::Refusal refusal, std::string_view reason) {
  // Clients of the API know this word for a model that is not there.
  const bool unknown_model = refusal == dispatch::Refusal::kUnknownModel;
  return error_answer(status_of(refusal), reason,
                      unknown_model ? std::string_view("model_not_found") : to_string(refusal),
                      unknown_model ? "model" : "");
}

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kAlreadyExists:
      return 409;
    case ErrorCode::kResourceExhausted:
      return 429;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kDeadlineExceeded:
      return 504;
    case ErrorCode::kCancelled:
      return 499;
    case ErrorCode::kDataLoss:
      return 502;
    case ErrorCode::kUnsupported:
      return 501;
    case ErrorCode::kInternal:
      return 500;
  }
  return 500;
}

int status_of(dispatch::Refusal refusal) {
  switch (refusal) {
    case dispatch::Refusal::kUnknownModel:
      return 404;
    case dispatch::Refusal::kQueueFull:
    case dispatch::Refusal::kDeadline:
      return 429;
    case dispatch::Refusal::kBytesFull:
      return 413;
    case dispatch::Refusal::kDraining:
      return 503;
    case dispatch::Refusal::kTooManySlots:
    case dispatch::Refusal::kInvalidJob:
      return 400;
  }
  return 500;
}

std::string_view to_string(dispatch::Refusal refusal) {
  switch (refusal) {
    case dispatch::Refusal::kUnknownModel:
      return "unknown_model";
    case dispatch::Refusal::kQueueFull:
      return "queue_full";
    case dispatch::Refusal::kBytesFull:
      return "bytes_full";
    case dispatch::Refusal::kDeadline:
      return "deadline";
    case dispatch::Refusal::kDraining:
      return "draining";
    case dispatch::Refusal::kTooManySlots:
      return "too_many_slots";
    case dispatch::Refusal::kInvalidJob:
      return "invalid_job";
  }
  return "";
}

std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 408:
    case 504:
      return "timeout_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

}  // namespace tailrace::gateway
