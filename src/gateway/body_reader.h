// Who reads a large request body, so that nobody else's stream stands still meanwhile?
//
// Reading 32 MB takes tens of milliseconds; on the loop that would delay every other stream. Small
// bodies are read in place (read_whole_body); larger ones go to a BodyReader, which has one thread
// and a bounded inbox. The inline reader is for tests. Calls and completions on the loop's thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "gateway/request_reader.h"
#include "tailrace/core/unique_function.h"
#include "tailrace/net/event_loop.h"

namespace tailrace::gateway {

struct ReadBody {
  ParsedRequest request;
  std::shared_ptr<const std::string> body;        ///< as the client sent it
  std::shared_ptr<const std::string> with_usage;  ///< with our asking; null where it needs none
};

/// Reads and, where the client did not ask for usage, prepares the body that does. Without a route
/// only the model is looked for, and nothing is an error: such a body is none of the gateway's
/// business.
Result<ReadBody> read_whole_body(std::optional<Route> route,
                                 std::shared_ptr<const std::string> body);

class BodyReader {
 public:
  using Done = UniqueFunction<void(Result<ReadBody>)>;
  virtual ~BodyReader() = default;
  /// `done` runs later. Errors: those of read_request; kResourceExhausted if the inbox is full.
  virtual void read(std::optional<Route> route, std::shared_ptr<const std::string> body,
                    Done done) = 0;
};

std::unique_ptr<BodyReader> make_inline_body_reader(net::EventLoop& loop);
std::unique_ptr<BodyReader> make_threaded_body_reader(net::EventLoop& loop,
                                                      std::size_t inbox_max = 64);

}  // namespace tailrace::gateway
