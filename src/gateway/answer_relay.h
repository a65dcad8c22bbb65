// How does an engine's answer reach the client, byte for byte and no faster than it reads?
//
// One AnswerRelay per answer. It holds the head back until the first byte of the body, so that an
// engine that dies before can still be replaced; then it passes every byte on at once, except the
// usage event that our own asking caused. A client that reads slowly pauses the engine's
// connection: nothing piles up here. Loop thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/answer_facts.h"
#include "gateway/route.h"
#include "gateway/usage_filter.h"
#include "tailrace/net/http_client.h"
#include "tailrace/net/http_server.h"

namespace tailrace::gateway {

class AnswerRelay {
 public:
  /// `route` is empty for answers that nothing is learned from. `drop_caused_usage`: we asked for
  /// usage.
  AnswerRelay(std::shared_ptr<net::Exchange> exchange, std::optional<Route> route,
              bool drop_caused_usage);

  /// The engine's head, and the fields that the gateway adds. Nothing is sent yet.
  void head(net::ResponseHead engine, const net::Headers& added);
  /// Passes bytes on; pauses `call` while the client does not read.
  void body(std::string_view bytes, const std::shared_ptr<net::Call>& call);
  void end();
  /// The answer ends here, broken: an event stream gets an error event and no [DONE], any other
  /// answer a reset. Must follow at least one byte of body; before that the caller still has a
  /// whole answer to give.
  void cut(std::string_view message, std::string_view code);

  bool has_head() const { return engine_.has_value(); }
  bool begun() const { return begun_; }
  int status() const { return engine_ ? engine_->status : 0; }
  bool streams_events() const { return filter_.has_value(); }
  /// What the answer has told so far; of a whole answer only after end().
  const AnswerFacts& facts() const { return filter_ ? filter_->facts() : facts_; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t dropped_events() const { return filter_ ? filter_->dropped_events() : 0; }

 private:
  void begin();

  std::shared_ptr<net::Exchange> exchange_;
  std::optional<Route> route_;
  bool drop_caused_usage_;
  std::optional<net::ResponseHead> engine_;  // as it goes to the client
  std::optional<std::uint64_t> length_;
  std::optional<UsageFilter> filter_;
  AnswerFacts facts_;
  std::string whole_;  // a whole answer's bytes, for its facts; bounded
  bool whole_complete_ = true;
  bool begun_ = false;
  std::uint64_t bytes_ = 0;
};

}  // namespace tailrace::gateway
