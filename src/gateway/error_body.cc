#include "gateway/error_body.h"

#include <fmt/format.h>

#include <boost/json.hpp>

namespace tailrace::gateway {
namespace {

/// Length of the UTF-8 character that begins at `at`; 0 if it is none.
std::size_t character_bytes(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return 1;
  const std::size_t bytes = lead >= 0xF0 && lead <= 0xF4  ? 4
                            : lead >= 0xE0 && lead < 0xF0 ? 3
                            : lead >= 0xC2 && lead < 0xE0 ? 2
                                                          : 0;
  if (bytes == 0 || at + bytes > text.size()) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  const unsigned char second = byte(at + 1);
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0) ||
      (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90)) {
    return 0;
  }
  return bytes;
}

/// Messages quote what a client or an engine sent, and may cut it inside a character.
std::string valid_utf8(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_bytes(text, at);
    if (bytes == 0) {
      out += '?';
      ++at;
    } else {
      out.append(text.substr(at, bytes));
      at += bytes;
    }
  }
  return out;
}

boost::json::value text_or_null(std::string_view text) {
  if (text.empty()) return nullptr;
  return boost::json::string(valid_utf8(text));
}

}  // namespace

std::string error_body(std::string_view message, std::string_view type, std::string_view code,
                       std::string_view param) {
  const boost::json::object error{{"message", boost::json::string(valid_utf8(message))},
                                  {"type", boost::json::string(valid_utf8(type))},
                                  {"code", text_or_null(code)},
                                  {"param", text_or_null(param)}};
  return boost::json::serialize(boost::json::object{{"error", error}});
}

std::string error_event(std::string_view message, std::string_view type, std::string_view code) {
  return fmt::format("data: {}\n\n", error_body(message, type, code));
}

ErrorAnswer error_answer(int status, std::string_view message, std::string_view code,
                         std::string_view param) {
  return {status, error_body(message, error_type(status), code, param)};
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
