// Who may leave when: clients in every state, handlers that forget, servers that are destroyed.
#include <gmock/gmock.h>

#include "net/support/server_fixture.h"

namespace tailrace::net::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

class HttpServerLifetimeTest : public ServerTest {
 protected:
  /// An exchange for one GET; `gone` counts the reports that its client left.
  std::shared_ptr<Exchange> open_exchange() {
    if (!server) serve_and_hold();
    peer.connect(loop, network);
    peer.send(std::string(kGet));
    run();
    held.back()->on_client_gone([this] { ++gone; });
    return held.back();
  }
  RawPeer peer;
  int gone = 0;
};

TEST_F(HttpServerLifetimeTest, AClientThatLeavesWhileItsRequestWaitsIsReportedAtOnce) {
  const auto exchange = open_exchange();
  peer.close();
  run(60us);
  EXPECT_EQ(gone, 1);
  EXPECT_TRUE(exchange->client_gone());
  EXPECT_EQ(server->connections(), 0U);
  EXPECT_EQ(server->exchanges(), 0U);
}

TEST_F(HttpServerLifetimeTest, AResetIsReportedAtOnce) {
  const auto exchange = open_exchange();
  peer.close(true);
  run(60us);
  EXPECT_EQ(gone, 1);
}

TEST_F(HttpServerLifetimeTest, AHalfClosedClientCountsAsGone) {
  const auto exchange = open_exchange();
  peer.finish();
  run(60us);
  EXPECT_EQ(gone, 1);
}

TEST_F(HttpServerLifetimeTest, AClientThatLeavesMidStreamIsReportedAtOnce) {
  const auto exchange = open_exchange();
  exchange->begin({200, "", {}}, std::nullopt);
  exchange->write("a");
  run();
  peer.close();
  run(60us);
  EXPECT_EQ(gone, 1);
}

TEST_F(HttpServerLifetimeTest, AClientThatLeavesAfterPipeliningIsReportedToo) {
  const auto exchange = open_exchange();
  peer.send(std::string(kGet));
  run();
  peer.close();
  run(60us);
  EXPECT_EQ(gone, 1);
  EXPECT_EQ(held.size(), 1U);
}

TEST_F(HttpServerLifetimeTest, AClientThatLeavesWhileSendingItsBodyEndsTheBodyFirst) {
  std::vector<std::string> events;
  serve([&](std::shared_ptr<Exchange> exchange) {
    exchange->on_client_gone([&] { events.push_back("gone"); });
    exchange->read_body(1000, [&events, exchange](Result<std::string> body) {
      events.push_back(std::string(to_string(body.error().code)));
    });
  });
  peer.connect(loop, network);
  peer.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe");
  run();
  peer.close();
  run();
  EXPECT_THAT(events, testing::ElementsAre("cancelled", "gone"));
}

TEST_F(HttpServerLifetimeTest, AHandlerThatAsksLateIsStillToldThatTheClientLeft) {
  serve_and_hold();
  peer.connect(loop, network);
  peer.send(std::string(kGet));
  run();
  peer.close();
  run();
  bool told = false;
  held[0]->on_client_gone([&] { told = true; });
  std::optional<ErrorCode> body;
  held[0]->read_body(10, [&](Result<std::string> b) { body = b.error().code; });
  EXPECT_FALSE(told) << "never inside the call";
  run();
  EXPECT_TRUE(told);
  EXPECT_EQ(body, ErrorCode::kCancelled);
}

TEST_F(HttpServerLifetimeTest, EveryCallOnAGoneClientIsHarmless) {
  const auto exchange = open_exchange();
  exchange->begin({200, "", {}}, std::nullopt);
  peer.close(true);
  run();
  exchange->write("a");
  exchange->finish();
  exchange->respond({200, "", {}}, "x");
  exchange->on_writable([] {});
  EXPECT_TRUE(exchange->writable());
  exchange->abort();
  run();
  EXPECT_EQ(gone, 1);
  EXPECT_EQ(exchange->head().target, "/a") << "what was asked stays readable";
}

TEST_F(HttpServerLifetimeTest, WritesBetweenTheClientsLeavingAndItsNoticeAreHarmless) {
  const auto exchange = open_exchange();
  exchange->begin({200, "", {}}, std::nullopt);
  peer.close(true);  // not noticed yet
  for (int i = 0; i < 100; ++i) exchange->write(std::string(10'000, 'x'));
  run();
  EXPECT_EQ(gone, 1);
}

TEST_F(HttpServerLifetimeTest, ACompleteAnswerEndsTheWatch) {
  const auto exchange = open_exchange();
  exchange->respond({200, "", {}}, "ok");
  run();
  peer.close();
  run();
  EXPECT_EQ(gone, 0);
  EXPECT_FALSE(exchange->client_gone());
}

TEST_F(HttpServerLifetimeTest, AbortLooksLikeAResetAndNotLikeAnEnd) {
  const auto exchange = open_exchange();
  exchange->begin({200, "", {}}, std::nullopt);
  exchange->write("half");
  run();
  exchange->abort();
  run();
  EXPECT_TRUE(peer.read_error);
  EXPECT_FALSE(peer.ended);
  EXPECT_EQ(gone, 0) << "we left, not the client";
  EXPECT_EQ(server->exchanges(), 0U);
}

TEST_F(HttpServerLifetimeTest, AForgottenExchangeIsAnsweredWith500) {
  serve([](std::shared_ptr<Exchange>) {});
  EXPECT_THAT(answer_to(kGet), StartsWith("HTTP/1.1 500 "));
  EXPECT_EQ(server->exchanges(), 0U);
}

TEST_F(HttpServerLifetimeTest, AnExchangeForgottenMidStreamIsCut) {
  serve([](std::shared_ptr<Exchange> exchange) {
    exchange->begin({200, "", {}}, std::nullopt);
    exchange->write("half");
  });
  peer.connect(loop, network);
  peer.send(std::string(kGet));
  run();
  EXPECT_TRUE(peer.read_error);
}

TEST_F(HttpServerLifetimeTest, AnExchangeMayBeDroppedBeforeItsAnswerHasLeft) {
  network.set_link({.window_bytes = 1000});
  serve([](std::shared_ptr<Exchange> exchange) {
    exchange->respond({200, "", {}}, std::string(50'000, 'x'));
  });
  peer.connect(loop, network);
  peer.send(std::string(kGet));
  run(1s);
  EXPECT_THAT(peer.received, StartsWith("HTTP/1.1 200 "));
  EXPECT_GT(peer.received.size(), 50'000U);
  EXPECT_EQ(server->exchanges(), 0U);
}

TEST_F(HttpServerLifetimeTest, TheServerMayBeDestroyedWithExchangesInEveryState) {
  serve_and_hold();
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 4; ++i) {
    peers.push_back(std::make_unique<RawPeer>());
    peers.back()->connect(loop, network);
    if (i > 0) peers.back()->send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n12");
  }
  run();
  ASSERT_EQ(held.size(), 3U);
  int called = 0;
  for (const auto& exchange : held) exchange->on_client_gone([&] { ++called; });
  held[1]->read_body(100, [&](Result<std::string>) { ++called; });
  held[2]->begin({200, "", {}}, std::nullopt);
  server.reset();
  run();
  EXPECT_EQ(called, 0) << "its owner knows already";
  for (const auto& exchange : held) EXPECT_TRUE(exchange->client_gone());
  for (const auto& p : peers) EXPECT_TRUE(p->read_error || p->ended);
}

TEST_F(HttpServerLifetimeTest, TheServerMayBeDestroyedInsideItsHandlers) {
  serve([this](std::shared_ptr<Exchange> exchange) {
    server.reset();
    exchange->respond({200, "", {}}, "too late");
  });
  EXPECT_EQ(answer_to(kGet), "");

  serve([this](std::shared_ptr<Exchange> exchange) {
    exchange->read_body(10, [this, exchange](Result<std::string>) { server.reset(); });
  });
  EXPECT_EQ(answer_to(kGet), "");

  serve([this](std::shared_ptr<Exchange> exchange) {
    exchange->on_client_gone([this, exchange] { server.reset(); });
  });
  peer.connect(loop, network);
  peer.send(std::string(kGet));
  run();
  peer.close();
  run();
  EXPECT_EQ(server, nullptr);
}

TEST_F(HttpServerLifetimeTest, DrainingClosesIdleConnectionsAndFinishesRunningOnes) {
  const auto exchange = open_exchange();
  RawPeer idle;
  idle.connect(loop, network);
  RawPeer half;
  half.connect(loop, network);
  half.send("GET /b HTTP/1.1\r\n");
  run();
  server->close_when_idle();
  run();
  EXPECT_TRUE(idle.ended);
  EXPECT_FALSE(peer.ended);

  exchange->respond({200, "", {}}, "late answer");
  run();
  EXPECT_THAT(peer.received, HasSubstr("late answer"));
  EXPECT_THAT(peer.received, HasSubstr("Connection: close"));
  EXPECT_TRUE(peer.ended);

  half.send("Host: x\r\n\r\n");
  RawPeer late;
  late.connect(loop, network);
  late.send(std::string(kGet));
  run();
  ASSERT_EQ(held.size(), 3U) << "requests are served until the listener closes";
  held[1]->respond({200, "", {}}, "b");
  held[2]->respond({200, "", {}}, "c");
  run();
  EXPECT_TRUE(half.ended);
  EXPECT_TRUE(late.ended);

  server->stop_accepting();
  RawPeer refused;
  refused.connect(loop, network);
  EXPECT_TRUE(refused.connect_error);
  peer.close();
  half.close();
  late.close();
  run();
  EXPECT_EQ(server->connections(), 0U);
}

TEST_F(HttpServerLifetimeTest, DrainingEndsAStreamThatBeganBeforeIt) {
  const auto exchange = open_exchange();
  exchange->begin({200, "", {}}, std::nullopt);
  run();
  server->close_when_idle();
  exchange->write("x");
  exchange->finish();
  run();
  EXPECT_THAT(peer.received, testing::EndsWith("0\r\n\r\n"));
  EXPECT_TRUE(peer.ended);
}

TEST_F(HttpServerLifetimeTest, ASmallUnreadBodyDoesNotCostTheConnectionAndALargeOneDoes) {
  serve([](std::shared_ptr<Exchange> exchange) { exchange->respond({200, "", {}}, "no"); });
  peer.connect(loop, network);
  peer.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n");
  run();
  peer.send("hello" + std::string(kGet));
  run();
  EXPECT_FALSE(peer.ended);
  EXPECT_EQ(peer.received.find("HTTP/1.1 200", 1), peer.received.rfind("HTTP/1.1 200"));
  RawPeer large;
  large.connect(loop, network);
  large.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n");
  run();
  EXPECT_THAT(large.received, HasSubstr("Connection: close"));
  EXPECT_TRUE(large.ended);
}

TEST_F(HttpServerLifetimeTest, HeadersFromTheHandlerCannotAddLines) {
  serve([](std::shared_ptr<Exchange> exchange) {
    exchange->respond({200, "", {{"X-Echo", "a\r\nX-Evil: 1"}, {"Bad Name", "b"}}}, "ok");
  });
  EXPECT_EQ(answer_to(kGet),
            "HTTP/1.1 200 OK\r\nX-Echo: a  X-Evil: 1\r\nContent-Length: 2\r\n\r\nok");
}

}  // namespace
}  // namespace tailrace::net::test
