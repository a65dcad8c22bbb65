// One accepted connection: which request is it at, and how far is the answer? Private to src/net.
//
// The read side runs through kHead → kExchange → (kDiscard) → kHead; an answer that ends the
// connection leads to kLinger. One read is outstanding in every state (unless a bound on pipelined
// bytes is reached), which is how a client that leaves is noticed at once.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "net/body_decoder.h"
#include "net/deadline.h"
#include "net/head_parser.h"
#include "net/write_queue.h"
#include "tailrace/net/http_server.h"

namespace tailrace::net {

class ServerConnection;

/// What all connections of one server share. Kept alive by each of them, so that a handler may
/// destroy the HttpServer.
struct ServerCore {
  ServerCore(EventLoop& l, ServerLimits s, HttpServer::Handler h)
      : loop(l), limits(s), handler(std::move(h)) {}
  EventLoop& loop;
  ServerLimits limits;
  HttpServer::Handler handler;
  std::map<ServerConnection*, std::shared_ptr<ServerConnection>> connections;
  std::size_t exchanges = 0;
  std::size_t receiving_bytes = 0;  ///< of all bodies that are not complete
  bool draining = false;
  bool closed = false;
};

class ServerExchange final : public Exchange, public std::enable_shared_from_this<ServerExchange> {
 public:
  ServerExchange(EventLoop& loop, ServerConnection& connection, RequestHead head, std::string peer)
      : loop_(loop), connection_(&connection), head_(std::move(head)), peer_(std::move(peer)) {}
  ~ServerExchange() override;

  const RequestHead& head() const override { return head_; }
  std::string peer() const override { return peer_; }
  void read_body(std::size_t max_bytes, UniqueFunction<void(Result<std::string>)> done) override;
  void on_client_gone(UniqueFunction<void()> handler) override;
  bool client_gone() const override { return gone_; }
  void respond(ResponseHead head, std::string body) override;
  void begin(ResponseHead head, std::optional<std::uint64_t> content_length) override;
  void write(std::string bytes) override;
  void finish() override;
  bool writable() const override;
  void on_writable(UniqueFunction<void()> handler) override;
  bool begun() const override { return begun_; }
  void abort() override;

 private:
  friend class ServerConnection;
  struct Callbacks {
    UniqueFunction<void(Result<std::string>)> body_done;
    UniqueFunction<void()> client_gone;
    UniqueFunction<void()> writable;
  };
  /// Cuts the tie to the connection. The callbacks go to the caller, who runs or drops them.
  Callbacks detach(bool gone);
  void finish_body(Result<std::string> body);

  EventLoop& loop_;
  ServerConnection* connection_;
  RequestHead head_;
  std::string peer_;
  Callbacks callbacks_;
  bool gone_ = false;
  bool begun_ = false;
  bool body_asked_ = false;
};

class ServerConnection : public std::enable_shared_from_this<ServerConnection> {
 public:
  ServerConnection(std::shared_ptr<ServerCore> core, std::unique_ptr<Stream> stream);

  void start();
  /// No request has begun to arrive and no answer is under way.
  bool idle() const { return state_ == State::kHead && in_.empty() && queue_.idle(); }
  /// Closes without telling anybody but the exchange (whose callbacks are dropped).
  void shut(bool reset);

 private:
  friend class ServerExchange;
  enum class State { kHead, kExchange, kDiscard, kLinger, kClosed };

  // Reading.
  void read_more();
  bool wants_read() const;
  void received(Result<std::size_t> result);
  void process();
  bool advance();
  bool take_head();
  void open_exchange(RequestHead head, BodyFraming framing);
  bool take_body();
  void end_body(Result<std::string> body);
  std::string release_body();
  bool discard_body();
  void linger();
  void read_expired();
  void client_left();
  void reject(int status, std::string_view message);

  // Calls from the exchange.
  void ask_body(std::size_t max_bytes);
  void answer(ResponseHead head, std::string body);
  void begin_answer(ResponseHead head, std::optional<std::uint64_t> content_length);
  void write_answer(std::string_view bytes);
  void finish_answer();
  void abandon_answer(bool begun);
  bool writable() const { return queue_.waiting_bytes() <= core_->limits.write_buffer_bytes_max; }

  // Writing.
  std::string prepare_head(ResponseHead head, bool framed);
  bool bodiless_answer(int status) const;
  void watch_writes();
  void writes_stalled();
  void settled(Result<void> result);
  void complete_if_flushed();
  void after_answer();

  std::shared_ptr<ServerCore> core_;
  std::unique_ptr<Stream> stream_;
  WriteQueue queue_;
  Deadline read_deadline_;
  Deadline write_deadline_;
  HeadScanner scanner_;
  State state_ = State::kHead;
  std::vector<char> read_buffer_;
  std::string in_;  ///< received and not used yet
  bool reading_ = false;
  bool processing_ = false;

  // The request and the answer under way.
  ServerExchange* exchange_ = nullptr;
  BodyDecoder decoder_;
  std::string body_;
  std::size_t body_bytes_max_ = 0;
  std::size_t discarded_bytes_ = 0;
  bool body_wanted_ = false;
  bool expects_continue_ = false;
  bool head_request_ = false;
  bool http10_ = false;
  bool keep_alive_ = true;
  bool answered_ = false;  ///< the answer's last byte is queued
  enum class AnswerBody { kNone, kLength, kChunked, kUntilClose } answer_body_ = AnswerBody::kNone;
  std::uint64_t answer_left_ = 0;
  std::uint64_t written_at_check_ = 0;
  int stalled_checks_ = 0;
};

}  // namespace tailrace::net
