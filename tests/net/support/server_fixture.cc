#include "net/support/server_fixture.h"

namespace tailrace::net::test {

void ServerTest::serve(HttpServer::Handler handler, ServerLimits limits) {
  auto made = HttpServer::listen(loop, network, kServerAt, limits, std::move(handler));
  ASSERT_TRUE(made) << made.error().message;
  server = std::move(*made);
}

void ServerTest::serve_echo(ServerLimits limits) {
  serve(
      [this](std::shared_ptr<Exchange> exchange) {
        ++requests;
        exchange->read_body(1000, [exchange](Result<std::string> body) {
          if (body) {
            exchange->respond({200, "", {}}, exchange->head().target + "|" + *body);
          } else {
            const bool large = body.error().code == ErrorCode::kResourceExhausted;
            const bool late = body.error().code == ErrorCode::kDeadlineExceeded;
            exchange->respond({large ? 413 : late ? 408 : 400, "", {}}, body.error().message);
          }
        });
      },
      limits);
}

void ServerTest::serve_and_hold(ServerLimits limits) {
  serve([this](std::shared_ptr<Exchange> exchange) { held.push_back(std::move(exchange)); },
        limits);
}

std::string ServerTest::answer_to(std::string_view request) {
  RawPeer peer;
  peer.connect(loop, network);
  peer.send(std::string(request));
  run();
  return peer.received;
}

void ServerTest::TearDown() {
  server.reset();
  held.clear();
  run(std::chrono::seconds(10));
  for (const auto& connection : network.connections()) EXPECT_FALSE(connection->server_open());
}

}  // namespace tailrace::net::test
