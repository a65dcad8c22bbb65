#include "net/tcp_stream.h"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "tailrace/core/check.h"

namespace tailrace::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr int kKeepAliveIdleSeconds = 60;
constexpr int kKeepAliveIntervalSeconds = 15;
constexpr int kKeepAliveProbes = 4;
constexpr std::size_t kPiecesMax = 64;

using ReadDone = UniqueFunction<void(Result<std::size_t>)>;
using WriteDone = UniqueFunction<void(Result<void>)>;

/// Outlives the Stream while Asio holds a handler, so that a late handler finds an empty
/// completion.
struct TcpState : std::enable_shared_from_this<TcpState> {
  explicit TcpState(TcpSocket s) : socket(std::move(s)), peer(peer_name(socket)) {}

  void read(std::span<char> into, ReadDone done) {
    TAILRACE_CHECK(!read_done && !into.empty());
    read_done = std::move(done);
    socket.async_read_some(asio::buffer(into.data(), into.size()),
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
    done(n);
  }

  void write(std::vector<std::string> buffers, WriteDone done) {
    TAILRACE_CHECK(!write_done);
    write_done = std::move(done);
    pieces = std::move(buffers);
    next_piece = 0;
    piece_offset = 0;
    write_some();
  }

  /// One scatter write of what is left. async_write would hide how far a slow write has got.
  void write_some() {
    std::vector<asio::const_buffer> left;
    for (std::size_t i = next_piece; i < pieces.size() && left.size() < kPiecesMax; ++i) {
      const std::size_t skip = i == next_piece ? piece_offset : 0;
      if (pieces[i].size() > skip)
        left.emplace_back(pieces[i].data() + skip, pieces[i].size() - skip);
    }
    socket.async_write_some(left, [self = shared_from_this()](const error_code& ec, std::size_t n) {
      self->wrote_some(ec, n);
    });
  }

  void wrote_some(const error_code& ec, std::size_t n) {
    if (!write_done) return;
    written += n;
    while (n > 0) {
      const std::size_t step = std::min(n, pieces[next_piece].size() - piece_offset);
      piece_offset += step;
      n -= step;
      if (piece_offset < pieces[next_piece].size()) break;
      pieces[next_piece++] = std::string();
      piece_offset = 0;
    }
    while (next_piece < pieces.size() && piece_offset == pieces[next_piece].size()) {
      ++next_piece;
      piece_offset = 0;
    }
    if (!ec && !closed && next_piece < pieces.size()) return write_some();
    pieces.clear();
    WriteDone done = std::move(write_done);
    if (closed) return done(fail(ErrorCode::kCancelled, "the connection was closed here"));
    if (ec) return done(fail(socket_error(ec, "cannot write to " + peer)));
    done({});
  }

  std::size_t try_write(std::span<const std::string_view> bytes) {
    TAILRACE_CHECK(!write_done && bytes.size() <= kPiecesMax);
    if (closed) return 0;
    std::array<iovec, kPiecesMax> vectors;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      vectors[i] = {const_cast<char*>(bytes[i].data()), bytes[i].size()};
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = bytes.size();
    const ssize_t sent = ::sendmsg(socket.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return 0;
    written += static_cast<std::uint64_t>(sent);
    return static_cast<std::size_t>(sent);
  }

  void close(bool reset) {
    if (closed) return;
    closed = true;
    error_code ignored;
    if (reset) socket.set_option(asio::socket_base::linger(true, 0), ignored);
    socket.close(ignored);
  }

  TcpSocket socket;
  std::string peer;
  bool closed = false;
  std::uint64_t written = 0;
  ReadDone read_done;
  WriteDone write_done;
  std::vector<std::string> pieces;
  std::size_t next_piece = 0;
  std::size_t piece_offset = 0;
};

class TcpStream final : public Stream {
 public:
  explicit TcpStream(TcpSocket socket) : state_(std::make_shared<TcpState>(std::move(socket))) {}
  ~TcpStream() override {
    state_->close(false);
    // Moved out first: destroying a completion may reach code that looks at this stream.
    const ReadDone read_done = std::move(state_->read_done);
    const WriteDone write_done = std::move(state_->write_done);
  }
  void read(std::span<char> into, ReadDone done) override { state_->read(into, std::move(done)); }
  void write(std::vector<std::string> buffers, WriteDone done) override {
    state_->write(std::move(buffers), std::move(done));
  }
  std::size_t try_write(std::span<const std::string_view> pieces) override {
    return state_->try_write(pieces);
  }
  std::uint64_t bytes_written() const override { return state_->written; }
  void shutdown_write() override {
    error_code ignored;
    state_->socket.shutdown(asio::socket_base::shutdown_send, ignored);
  }
  void close(bool reset) override { state_->close(reset); }
  std::string peer() const override { return state_->peer; }

 private:
  std::shared_ptr<TcpState> state_;
};

}  // namespace

void prepare_socket(TcpSocket& socket) {
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const int fd = socket.native_handle();
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kKeepAliveIdleSeconds, sizeof(int));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kKeepAliveIntervalSeconds, sizeof(int));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kKeepAliveProbes, sizeof(int));
}

std::unique_ptr<Stream> make_tcp_stream(TcpSocket socket) {
  return std::make_unique<TcpStream>(std::move(socket));
}

Error socket_error(const error_code& ec, std::string_view what) {
  const ErrorCode code = ec == asio::error::timed_out           ? ErrorCode::kDeadlineExceeded
                         : ec == asio::error::operation_aborted ? ErrorCode::kCancelled
                                                                : ErrorCode::kUnavailable;
  return Error{code, std::string(what) + ": " + ec.message()};
}

std::string peer_name(const TcpSocket& socket) {
  error_code ec;
  const auto endpoint = socket.remote_endpoint(ec);
  if (ec) return "unknown";
  return to_string(Endpoint{endpoint.address().to_string(), endpoint.port(), false});
}

}  // namespace tailrace::net
