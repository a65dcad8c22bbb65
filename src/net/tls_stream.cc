#include "net/tls_stream.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <cstring>

#include "net/tls_context.h"
#include "tailrace/core/check.h"

namespace tailrace::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

using ReadDone = UniqueFunction<void(Result<std::size_t>)>;
using WriteDone = UniqueFunction<void(Result<void>)>;
using Connected = UniqueFunction<void(Result<std::unique_ptr<Stream>>)>;
using SslStream = asio::ssl::stream<TcpSocket>;

constexpr std::size_t kReadBytes = 16 * 1024;

struct TlsState : std::enable_shared_from_this<TlsState> {
  TlsState(TcpSocket socket, asio::ssl::context& context)
      : peer(peer_name(socket)), stream(std::move(socket), context) {}

  void handshake(const std::string& host, bool verify) {
    error_code not_an_address;
    asio::ip::make_address(host, not_an_address);
    if (not_an_address) SSL_set_tlsext_host_name(stream.native_handle(), host.c_str());
    if (verify) stream.set_verify_callback(asio::ssl::host_name_verification(host));
    stream.async_handshake(asio::ssl::stream_base::client,
                           [self = shared_from_this()](const error_code& ec) { self->shaken(ec); });
  }
  void shaken(const error_code& ec);

  void read(std::span<char> into, ReadDone done) {
    TAILRACE_CHECK(!read_done && !into.empty());
    read_done = std::move(done);
    target = into;
    // OpenSSL fills the buffer in a later handler, when the caller's may be gone: read into our
    // own.
    buffer.resize(std::min(into.size(), kReadBytes));
    stream.async_read_some(asio::buffer(buffer),
                           [self = shared_from_this()](const error_code& ec, std::size_t n) {
                             self->finish_read(ec, n);
                           });
  }

  void finish_read(const error_code& ec, std::size_t n) {
    if (!read_done) return;
    ReadDone done = std::move(read_done);
    if (closed) return done(fail(ErrorCode::kCancelled, "the connection was closed here"));
    if (ec == asio::error::eof) return done(std::size_t{0});
    if (ec) return done(fail(socket_error(ec, "cannot read from " + peer)));
    std::memcpy(target.data(), buffer.data(), n);
    done(n);
  }

  void write(std::vector<std::string> buffers, WriteDone done) {
    TAILRACE_CHECK(!write_done);
    write_done = std::move(done);
    pieces = std::move(buffers);
    if (pieces.size() > 1) {  // one record per write instead of one per piece
      std::string joined;
      for (const std::string& piece : pieces) joined += piece;
      pieces.assign(1, std::move(joined));
    }
    write_from(0);
  }

  void write_from(std::size_t offset) {
    const std::string_view left =
        pieces.empty() ? std::string_view() : std::string_view(pieces[0]).substr(offset);
    if (left.empty()) {
      asio::post(stream.get_executor(), [self = shared_from_this()] { self->finish_write({}); });
      return;
    }
    stream.async_write_some(
        asio::buffer(left.data(), left.size()),
        [self = shared_from_this(), offset](const error_code& ec, std::size_t n) {
          self->written += n;
          if (ec || self->closed || !self->write_done) return self->finish_write(ec);
          if (offset + n == self->pieces[0].size()) return self->finish_write({});
          self->write_from(offset + n);
        });
  }

  void finish_write(const error_code& ec) {
    if (!write_done) return;
    WriteDone done = std::move(write_done);
    pieces.clear();
    if (closed) return done(fail(ErrorCode::kCancelled, "the connection was closed here"));
    if (ec) return done(fail(socket_error(ec, "cannot write to " + peer)));
    done({});
  }

  void close(bool reset) {
    if (closed) return;
    closed = true;
    error_code ignored;
    auto& socket = stream.next_layer();
    if (reset) socket.set_option(asio::socket_base::linger(true, 0), ignored);
    socket.close(ignored);
  }

  std::string peer;
  SslStream stream;
  bool closed = false;
  std::uint64_t written = 0;
  Connected connected;
  ReadDone read_done;
  WriteDone write_done;
  std::span<char> target;
  std::vector<char> buffer;
  std::vector<std::string> pieces;
};

class TlsStream final : public Stream {
 public:
  explicit TlsStream(std::shared_ptr<TlsState> state) : state_(std::move(state)) {}
  ~TlsStream() override {
    state_->close(false);
    const ReadDone read_done = std::move(state_->read_done);
    const WriteDone write_done = std::move(state_->write_done);
  }
  void read(std::span<char> into, ReadDone done) override { state_->read(into, std::move(done)); }
  void write(std::vector<std::string> buffers, WriteDone done) override {
    state_->write(std::move(buffers), std::move(done));
  }
  /// A record may be half sent, so nothing can be written without a completion.
  std::size_t try_write(std::span<const std::string_view>) override { return 0; }
  std::uint64_t bytes_written() const override { return state_->written; }
  void shutdown_write() override {
    error_code ignored;
    state_->stream.next_layer().shutdown(asio::socket_base::shutdown_send, ignored);
  }
  void close(bool reset) override { state_->close(reset); }
  std::string peer() const override { return state_->peer; }

 private:
  std::shared_ptr<TlsState> state_;
};

void TlsState::shaken(const error_code& ec) {
  if (!connected) return;
  Connected done = std::move(connected);
  if (ec) {
    std::string message = "cannot set up TLS with " + peer + ": " + ec.message();
    if (const long why = SSL_get_verify_result(stream.native_handle()); why != X509_V_OK) {
      message += std::string(" (") + X509_verify_cert_error_string(why) + ")";
    }
    return done(fail(ErrorCode::kUnavailable, std::move(message)));
  }
  done(std::unique_ptr<Stream>(std::make_unique<TlsStream>(shared_from_this())));
}

class Handshake final : public Connecting {
 public:
  explicit Handshake(std::shared_ptr<TlsState> state) : state_(std::move(state)) {}
  ~Handshake() override {
    if (!state_->connected) return;  // done: the stream has its own owner
    const Connected dropped = std::move(state_->connected);
    state_->close(false);
  }

 private:
  std::shared_ptr<TlsState> state_;
};

}  // namespace

std::unique_ptr<Connecting> start_tls(TcpSocket socket, TlsSettings::Context& context,
                                      const std::string& host, bool verify, Connected done) {
  auto state = std::make_shared<TlsState>(std::move(socket), context.ssl);
  state->connected = std::move(done);
  state->handshake(host, verify);
  return std::make_unique<Handshake>(std::move(state));
}

}  // namespace tailrace::net
