// What did the other server answer, all of it, or why not?
//
// One question over an HttpClient for callers that want an answer whole and small: a time-out over
// everything from the connection to the last byte, and a bound on the body. A compressed answer is
// an error, since none was asked for. Loop thread only.
#pragma once

#include <memory>
#include <string>

#include "tailrace/net/http_client.h"

namespace tailrace::net {

struct WholeAnswer {
  ResponseHead head;
  std::string body;
};

struct AnswerBounds {
  Duration timeout = std::chrono::seconds(5);
  std::size_t body_bytes_max = std::size_t{16} << 20;
};

/// A question under way. Destroying it cancels: `done` then never runs.
class Question {
 public:
  virtual ~Question() = default;
};

/// `done` runs once, never inside this call, and may destroy the Question. Any status is an answer.
/// Errors: those of CallError, kDeadlineExceeded after `bounds.timeout`, kResourceExhausted for a
/// body over the bound, kUnsupported for a compressed one.
[[nodiscard]] std::unique_ptr<Question> ask_whole(EventLoop& loop, HttpClient& client,
                                                  const Endpoint& to, RequestHead head,
                                                  std::shared_ptr<const std::string> body,
                                                  const AnswerBounds& bounds,
                                                  UniqueFunction<void(Result<WholeAnswer>)> done);

}  // namespace tailrace::net
