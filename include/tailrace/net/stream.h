// How do bytes get from here to a peer and back?
//
// Stream, Listener and Network are interfaces: real sockets (make_socket_network) in production, an
// in-memory network with delays, resets and half-open peers in tests (net/sim_network.h). All calls
// and all completions happen on the loop's thread; a completion never runs inside the call that
// asked for it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/core/time.h"
#include "tailrace/core/unique_function.h"
#include "tailrace/net/event_loop.h"

namespace tailrace::net {

struct Endpoint {
  std::string host;  ///< a name or an address; IPv6 without brackets; "" listens on every address
  std::uint16_t port = 0;
  bool tls = false;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
  friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};
std::string to_string(const Endpoint& endpoint);  ///< "127.0.0.1:8080", "[::1]:8080"

/// "http://host[:port][/prefix]" or https. `prefix` is without a trailing slash ("" or "/v1").
struct Url {
  Endpoint endpoint;
  std::string prefix;
};
/// Errors: kInvalidArgument with what is wrong and an example.
Result<Url> parse_url(std::string_view text);
/// "host:port", ":port" and "[::1]:port". Errors: kInvalidArgument.
Result<Endpoint> parse_host_port(std::string_view text);

/// One byte stream to a peer. Destroying it closes it; completions that were pending then never
/// run.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Reads at least one byte into `into`, which must stay valid until the completion. The result is
  /// the number of bytes; 0 means that the peer has finished sending. One read at a time.
  virtual void read(std::span<char> into, UniqueFunction<void(Result<std::size_t>)> done) = 0;

  /// Writes all the bytes, which the stream keeps until then. One write at a time.
  virtual void write(std::vector<std::string> buffers, UniqueFunction<void(Result<void>)> done) = 0;

  /// Writes what the peer's window takes at once, in one scatter write, and returns how many bytes
  /// that was; never while a write() is pending. 0 also stands for a broken stream: the next
  /// write() or read() says so. This is the cheap path of a relay: no allocation, no completion.
  virtual std::size_t try_write(std::span<const std::string_view> pieces) = 0;

  /// Bytes handed to the peer's window since the start: how a caller sees that a slow write
  /// progresses.
  virtual std::uint64_t bytes_written() const = 0;

  /// Sends end of stream behind what has been written; reading goes on. Not while a write is
  /// pending.
  virtual void shutdown_write() = 0;

  /// Closes at once in both directions; pending completions get kCancelled. With `reset`, the peer
  /// sees a connection reset instead of an end of stream, so that a cut answer cannot pass for a
  /// whole one.
  virtual void close(bool reset = false) = 0;

  virtual std::string peer() const = 0;  ///< the peer's address, for logs
};

class Listener {
 public:
  virtual ~Listener() = default;  ///< stops listening
  virtual Endpoint local() const = 0;
};

/// A connection attempt. Destroying it before its completion ran abandons the attempt.
class Connecting {
 public:
  virtual ~Connecting() = default;
};

class Network {
 public:
  virtual ~Network() = default;

  /// Port 0 picks a free one. Errors: kUnavailable (address in use, no such address),
  /// kInvalidArgument.
  virtual Result<std::unique_ptr<Listener>> listen(
      const Endpoint& at, UniqueFunction<void(std::unique_ptr<Stream>)> on_accept) = 0;

  /// Resolves, connects and, for a TLS endpoint, shakes hands and verifies the certificate, all
  /// within `timeout`. Nagle's algorithm is off on every stream. Errors: kUnavailable,
  /// kDeadlineExceeded.
  [[nodiscard]] virtual std::unique_ptr<Connecting> connect(
      const Endpoint& to, Duration timeout,
      UniqueFunction<void(Result<std::unique_ptr<Stream>>)> done) = 0;
};

/// How TLS endpoints are verified, and as whom we come. Files are PEM; "" means none. They are read
/// before the first TLS connection and again whenever one of them has changed; when that fails the
/// last good ones stay in force.
struct TlsOptions {
  std::string ca_file = {};  ///< trusted authorities instead of the system's
  std::string client_certificate_file = {};
  std::string client_key_file = {};  ///< with the certificate or not at all
  /// The same as texts, for those who have no files; they win.
  std::string ca_pem = {}, client_certificate_pem = {}, client_key_pem = {};
  /// Speak with any server, whatever its certificate and name: for experiments only.
  bool insecure_skip_verify = false;
};
/// Can these be used? Reads the files. Errors: kInvalidArgument naming the field and the file.
Result<void> check_tls_options(const TlsOptions& options);

/// Real sockets on `loop`, which must outlive it.
std::unique_ptr<Network> make_socket_network(EventLoop& loop, TlsOptions tls = {});

}  // namespace tailrace::net
