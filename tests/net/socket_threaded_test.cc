// Real sockets on the loopback interface, port 0: what the in-memory network cannot show.
#include <gtest/gtest.h>

#include <thread>

#include "tailrace/net/http_client.h"
#include "tailrace/net/http_server.h"

namespace tailrace::net {
namespace {

using namespace std::chrono_literals;

const Endpoint kLoopback{"127.0.0.1", 0, false};

/// An event loop with its network on a thread of its own.
class LoopThread {
 public:
  LoopThread() : loop(make_event_loop()), network(make_socket_network(*loop)) {}
  ~LoopThread() { join(); }
  void start() {
    thread_ = std::thread([this] { loop->run(); });
  }
  void join() {
    if (!thread_.joinable()) return;
    loop->stop();
    thread_.join();
  }
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<Network> network;

 private:
  std::thread thread_;
};

struct Answer {
  int status = 0;
  std::string body;
  bool ended = false;
  std::optional<CallError> error;
};

/// Runs `loop` until the call has ended; fails after ten seconds.
Answer ask(EventLoop& loop, HttpClient& client, const Endpoint& to, RequestHead head,
           std::string body) {
  Answer answer;
  CallHandlers handlers;
  handlers.on_head = [&](ResponseHead h) { answer.status = h.status; };
  handlers.on_body = [&](std::string_view bytes) { answer.body += bytes; };
  handlers.on_end = [&] {
    answer.ended = true;
    loop.stop();
  };
  handlers.on_error = [&](CallError error) {
    answer.error = std::move(error);
    loop.stop();
  };
  const auto call = client.start(to, std::move(head), std::make_shared<const std::string>(body), {},
                                 std::move(handlers));
  const auto guard = loop.after(10s, [&] { loop.stop(); });
  loop.run();
  return answer;
}

TEST(Sockets, AServerAnswersAClientInAnotherThread) {
  LoopThread side;
  auto server = HttpServer::listen(
      *side.loop, *side.network, kLoopback, {}, [](std::shared_ptr<Exchange> exchange) {
        exchange->read_body(1 << 20, [exchange](Result<std::string> body) {
          exchange->respond({200, "", {}}, "got " + body.value());
        });
      });
  ASSERT_TRUE(server) << server.error().message;
  const Endpoint at = (*server)->local();
  side.start();

  const auto loop = make_event_loop();
  const auto network = make_socket_network(*loop);
  const auto client = HttpClient::make(*loop, *network);
  const Answer answer = ask(*loop, *client, at, {"POST", "/x", 1, {}}, "hello");
  EXPECT_TRUE(answer.ended) << (answer.error ? answer.error->error.message : "time-out");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "got hello");
  side.join();
  server->reset();
}

}  // namespace
}  // namespace tailrace::net
