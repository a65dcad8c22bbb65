// Who is asking us what over HTTP/1.1, and are they still there?
//
// HttpServer accepts connections and calls its handler once per request, when the head is complete.
// The handler keeps the Exchange for as long as it wants to answer. While an exchange is open the
// connection is watched: a client that leaves is reported at once, in every state. Everything is
// bounded: head size, header count, body size, connections, bytes waiting to be written, and every
// wait has a time-out. Malformed or ambiguous input (RFC 9112) is answered with 400 or 431 and a
// closed connection, without the handler seeing it. Loop thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tailrace/net/http.h"
#include "tailrace/net/stream.h"

namespace tailrace::net {

struct ServerLimits {
  std::size_t head_bytes_max = 32 * 1024;  ///< 431 beyond
  std::size_t headers_max = 100;           ///< 431 beyond
  std::size_t connections_max = 10'000;    ///< further ones are closed at once
  /// Request bodies that are being received, over all connections; what goes beyond is refused.
  std::size_t receiving_bytes_max = std::size_t{1} << 30;
  std::size_t write_buffer_bytes_max = 256 * 1024;  ///< above this an exchange is not writable()
  Duration head_timeout =
      std::chrono::seconds(10);  ///< from the first byte of a head to its end: 408
  Duration idle_timeout = std::chrono::seconds(75);  ///< a kept-alive connection without a request
  Duration body_timeout = std::chrono::seconds(60);  ///< between two reads of a request body: 408
  Duration write_timeout =
      std::chrono::seconds(60);  ///< a client that takes no byte for so long is gone
};

/// One request and its answer. Shared between the connection and the handler; after the client has
/// gone every call is harmless and does nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const RequestHead& head() const = 0;
  virtual std::string peer() const = 0;

  /// The whole decoded body. Errors: kResourceExhausted above `max_bytes` (known before a byte is
  /// read where Content-Length says so; answer 413), kInvalidArgument (bad framing, answer 400),
  /// kDeadlineExceeded (408), kUnavailable (receiving_bytes_max is reached, answer 503), kCancelled
  /// (the client left). Answers "100-continue" where asked. Once.
  virtual void read_body(std::size_t max_bytes, UniqueFunction<void(Result<std::string>)> done) = 0;

  /// Runs `handler` once if the client leaves (end of stream, reset, write time-out) before the
  /// answer is complete. A half-closed client counts as gone.
  virtual void on_client_gone(UniqueFunction<void()> handler) = 0;
  virtual bool client_gone() const = 0;

  /// The whole answer at once. Content-Length is set here. A body that the handler did not read is
  /// discarded up to a limit, or the connection is closed after the answer.
  virtual void respond(ResponseHead head, std::string body) = 0;

  /// A streamed answer: head at once, then any number of writes, then finish(). Chunked for
  /// HTTP/1.1, closed at the end for 1.0. With `content_length` the answer is framed by that
  /// instead.
  virtual void begin(ResponseHead head,
                     std::optional<std::uint64_t> content_length = std::nullopt) = 0;
  /// Never waits and never coalesces with later calls; bytes that the socket cannot take yet are
  /// queued.
  virtual void write(std::string bytes) = 0;
  virtual void finish() = 0;
  /// False while more than write_buffer_bytes_max wait: stop producing until on_writable's handler
  /// runs.
  virtual bool writable() const = 0;
  virtual void on_writable(UniqueFunction<void()> handler) = 0;
  virtual bool begun() const = 0;  ///< a head has been sent

  /// Resets the connection, so that the client cannot take a cut answer for a whole one.
  virtual void abort() = 0;
};

class HttpServer {
 public:
  using Handler = UniqueFunction<void(std::shared_ptr<Exchange>)>;

  /// Errors: those of Network::listen.
  static Result<std::unique_ptr<HttpServer>> listen(EventLoop& loop, Network& network,
                                                    const Endpoint& at, ServerLimits limits,
                                                    Handler handler);
  virtual ~HttpServer() = default;  ///< closes every connection

  virtual Endpoint local() const = 0;
  virtual std::size_t connections() const = 0;
  virtual std::size_t exchanges() const = 0;  ///< requests not completely answered

  /// Graceful end: idle connections are closed now, others after the answer that is under way (sent
  /// with "Connection: close"). New connections are still accepted until stop_accepting().
  virtual void close_when_idle() = 0;
  virtual void stop_accepting() = 0;
};

}  // namespace tailrace::net
