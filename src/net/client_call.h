// One request to another server: connect, send, wait for the head, relay the body. Private to
// src/net.
#pragma once

#include <memory>
#include <optional>
#include <set>

#include "net/body_decoder.h"
#include "net/client_connection.h"
#include "net/connection_pool.h"
#include "net/head_parser.h"

namespace tailrace::net {

class ClientCall;

/// What the calls of one client share. Calls outlive neither it nor their handles.
struct ClientCore {
  ClientCore(EventLoop& l, Network& n, ClientOptions o)
      : loop(l), network(n), options(o), pool(l, o) {}
  EventLoop& loop;
  Network& network;
  ClientOptions options;
  ConnectionPool pool;
  std::set<ClientCall*> calls;
};

class ClientCall final : public ClientConnection::Owner,
                         public std::enable_shared_from_this<ClientCall> {
 public:
  ClientCall(ClientCore& core, Endpoint to, std::string head, std::string method,
             std::shared_ptr<const std::string> body, CallTimeouts timeouts, CallHandlers handlers);

  void start();
  /// Closes the connection and reports nothing more. Safe in every state, inside handlers too.
  void cancel();
  void pause() { paused_ = true; }
  void resume();

  void received(std::span<char> bytes) override;
  void read_failed(const Error& error) override;
  void written(Result<void> result) override;

 private:
  enum class State { kConnecting, kHead, kBody, kFinished };

  void connect();
  void use(std::shared_ptr<ClientConnection> connection);
  void send_more();
  void sent_all();
  void connection_broke(const Error& error);
  bool retry();
  void take_head(std::span<char> bytes);
  void take_body(std::span<char> bytes);
  void ended_by_peer();
  void expired();
  void watch();
  void finish(bool reusable);
  void fail_call(ErrorCode code, std::string message);
  void release();
  CallPhase phase() const;
  /// Runs a handler; false when the call was cancelled or failed meanwhile.
  template <class Handler, class... Args>
  bool report(Handler& handler, Args&&... args);

  ClientCore* core_;
  const Endpoint to_;
  const std::string head_;
  const std::string method_;
  const std::shared_ptr<const std::string> body_;
  const CallTimeouts timeouts_;
  CallHandlers handlers_;
  int handlers_running_ = 0;

  State state_ = State::kConnecting;
  std::unique_ptr<Connecting> connecting_;
  std::shared_ptr<ClientConnection> connection_;
  Deadline deadline_;
  HeadScanner scanner_;
  BodyDecoder decoder_;
  std::string head_bytes_;     ///< of an answer's head that is not complete
  std::size_t body_sent_ = 0;  ///< bytes of the body given to the stream
  std::uint64_t written_at_check_ = 0;
  int informational_heads_ = 0;
  bool reused_ = false;  ///< the connection came from the pool
  bool retried_ = false;
  bool announced_ = false;     ///< on_connected has run
  bool answer_begun_ = false;  ///< a byte of the answer has arrived
  bool send_done_ = false;
  bool write_failed_ = false;
  bool keep_alive_ = false;
  bool paused_ = false;
};

}  // namespace tailrace::net
