// What does the other server answer, and when did it stop?
//
// HttpClient sends HTTP/1.1 requests over kept-alive connections that it pools per endpoint. A
// request that meets a pooled connection which the server closed before any byte of an answer is
// sent again once on a fresh connection; nothing else is ever repeated. Loop thread only.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tailrace/net/http.h"
#include "tailrace/net/stream.h"

namespace tailrace::net {

struct ClientOptions {
  std::size_t idle_connections_per_endpoint_max = 64;
  Duration idle_connection_timeout = std::chrono::seconds(4);  ///< below uvicorn's 5 s
  std::size_t head_bytes_max = 64 * 1024;
  std::size_t headers_max = 200;
};

/// Zero means no time-out.
struct CallTimeouts {
  Duration connect = std::chrono::seconds(5);
  Duration first_byte{0};  ///< from the request's last byte to the answer's head
  Duration idle{0};        ///< between two reads of the answer's body; not counted while paused
};

/// How far a call had got when it failed.
enum class CallPhase { kConnect, kSend, kFirstByte, kBody };

struct CallError {
  CallPhase phase;
  Error error;  ///< kUnavailable (refused, reset, cut), kDeadlineExceeded, kDataLoss (bad framing)
};

/// What a call reports, in this order: on_head once, on_body any number of times, then exactly one
/// of on_end and on_error. on_error may come at any point. Nothing is reported after the Call is
/// destroyed. A handler may destroy its Call.
struct CallHandlers {
  UniqueFunction<void(ResponseHead)> on_head;      ///< 1xx heads are skipped
  UniqueFunction<void(std::string_view)> on_body;  ///< decoded bytes, as they come; not empty
  UniqueFunction<void()> on_end;
  UniqueFunction<void(CallError)> on_error;
  UniqueFunction<void()> on_connected;  ///< optional: the request is about to be sent
};

/// A request under way. Destroying it cancels: the connection is closed at once, in every state,
/// which is how an engine learns that nobody wants the answer.
class Call {
 public:
  virtual ~Call() = default;
  /// Stops reading the body; the peer is slowed down by TCP. Bytes already read may still be
  /// reported.
  virtual void pause() = 0;
  virtual void resume() = 0;
};

class HttpClient {
 public:
  static std::unique_ptr<HttpClient> make(EventLoop& loop, Network& network,
                                          ClientOptions options = {});
  virtual ~HttpClient() = default;

  /// `head` needs no Host and no framing fields: Host is added where missing and Content-Length is
  /// set from `body` (shared, so that a retry needs no copy; null means no body).
  [[nodiscard]] virtual std::unique_ptr<Call> start(const Endpoint& to, RequestHead head,
                                                    std::shared_ptr<const std::string> body,
                                                    CallTimeouts timeouts,
                                                    CallHandlers handlers) = 0;

  /// Closes the idle connections to an endpoint that is going away.
  virtual void forget(const Endpoint& endpoint) = 0;
};

}  // namespace tailrace::net
