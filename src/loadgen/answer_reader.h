// What does an answer say, and when did each of its tokens come?
//
// Reads the body of a chat completion, as an event stream or as one document, from any split into
// reads. It keeps counts and times, not the text. One per request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tailrace/core/unique_function.h"
#include "tailrace/net/event_stream.h"

namespace tailrace::loadgen {

class AnswerReader {
 public:
  /// `on_gap` gets the seconds between consecutive token events.
  AnswerReader(bool event_stream, UniqueFunction<void(double)> on_gap);

  void feed(std::string_view bytes, double at_s);
  /// The body is complete. Returns the kind of failure, empty if the answer is whole:
  /// "stream_error", "stream_cut" (neither finish reason nor [DONE]), "bad_body".
  std::string finish();

  std::optional<double> first_token_s() const { return first_token_s_; }
  std::optional<double> last_token_s() const { return last_token_s_; }
  std::int64_t tokens() const { return usage_tokens_.value_or(token_events_); }
  std::int64_t token_events() const { return token_events_; }
  bool from_usage() const { return usage_tokens_.has_value(); }
  const std::string& finish_reason() const { return finish_reason_; }
  /// What the first "error" of the body says; empty if there is none.
  const std::string& error_message() const { return error_message_; }

 private:
  void on_line(const net::EventLine& line);
  void read_document(std::string_view json, bool chunk);

  bool event_stream_;
  UniqueFunction<void(double)> on_gap_;
  net::EventStreamScanner scanner_;
  UniqueFunction<void(const net::EventLine&)> line_handler_;
  std::string body_;  // without streaming
  bool too_long_ = false;
  double now_s_ = 0;
  std::optional<double> first_token_s_;
  std::optional<double> last_token_s_;
  std::int64_t token_events_ = 0;
  std::optional<std::int64_t> usage_tokens_;
  std::string finish_reason_;
  std::string error_message_;
  bool done_ = false;
  bool failed_ = false;
  bool malformed_ = false;
};

}  // namespace tailrace::loadgen
