#include "tailrace/net/http_server.h"

#include <gmock/gmock.h>

#include "net/support/server_fixture.h"

namespace tailrace::net::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

using HttpServerTest = ServerTest;

TEST_F(HttpServerTest, AnswersARequestWithABody) {
  serve_echo();
  EXPECT_EQ(answer_to("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"),
            "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n/p|hello");
}

TEST_F(HttpServerTest, ReadsTheSameRequestsHoweverTheyAreCutIntoReads) {
  const std::string requests_sent =
      "\r\nPOST /one HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
      "POST /two HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "4;ext=1\r\nwiki\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n"
      "GET /three HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string answers =
      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n/one|hello"
      "HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n/two|wiki0123456789"
      "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n/three|";
  serve_echo();
  for (std::size_t cut = 1; cut <= requests_sent.size(); ++cut) {
    network.set_link({.read_bytes = {cut, 1 << 20}});
    ASSERT_EQ(answer_to(requests_sent), answers) << "cut after " << cut;
  }
  network.set_link({.read_bytes = {1}});
  EXPECT_EQ(answer_to(requests_sent), answers);
}

TEST_F(HttpServerTest, KeepsTheConnectionUntilAskedToClose) {
  serve_echo();
  RawPeer peer;
  peer.connect(loop, network);
  for (int i = 0; i < 3; ++i) {
    peer.send(std::string(kGet));
    run();
  }
  EXPECT_EQ(requests, 3);
  EXPECT_FALSE(peer.ended);
  peer.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  run();
  EXPECT_EQ(requests, 4);
  EXPECT_TRUE(peer.ended);
  EXPECT_THAT(peer.received, HasSubstr("Connection: close"));
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrderEvenIfTheHandlerTakesItsTime) {
  serve_and_hold();
  RawPeer peer;
  peer.connect(loop, network);
  peer.send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
  run();
  ASSERT_EQ(held.size(), 1U) << "the second request waits for the first answer";
  held[0]->respond({200, "", {}}, "one");
  run();
  ASSERT_EQ(held.size(), 2U);
  held[1]->respond({200, "", {}}, "two");
  run();
  EXPECT_LT(peer.received.find("one"), peer.received.find("two"));
}

TEST_F(HttpServerTest, StopsReadingWhenAClientPipelinesWithoutEnd) {
  serve_and_hold();
  network.set_link({.window_bytes = 16 * 1024});
  RawPeer peer;
  peer.connect(loop, network);
  std::string flood(kGet);
  for (int i = 0; i < 100'000; ++i) flood += kGet;
  peer.send(flood);
  run(1s);
  EXPECT_EQ(held.size(), 1U);
  EXPECT_TRUE(network.connections()[0]->server_open());
  EXPECT_LT(network.connections()[0]->bytes_read_by_server(), 100'000U);
}

TEST_F(HttpServerTest, InvitesTheBodyWhenTheClientWaitsForIt) {
  serve_echo();
  RawPeer peer;
  peer.connect(loop, network);
  peer.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  run();
  EXPECT_EQ(peer.received, "HTTP/1.1 100 Continue\r\n\r\n");
  peer.send("ok");
  run();
  EXPECT_THAT(peer.received, HasSubstr("/|ok"));
}

TEST_F(HttpServerTest, RefusesALargeBodyBeforeItIsSent) {
  serve_echo();
  RawPeer peer;
  peer.connect(loop, network);
  peer.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n");
  run();
  EXPECT_THAT(peer.received, StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(peer.received, HasSubstr("Connection: close"));
  EXPECT_TRUE(peer.ended);
}

TEST_F(HttpServerTest, AClientThatSendsALargeBodyAnywayStillReadsTheRefusal) {
  serve_echo();
  RawPeer peer;
  peer.connect(loop, network);
  peer.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n" +
            std::string(500'000, 'x'));
  run();
  EXPECT_THAT(peer.received, StartsWith("HTTP/1.1 413 "));
  EXPECT_TRUE(peer.ended);
  EXPECT_FALSE(peer.read_error) << "a reset could have destroyed the answer";
}

TEST_F(HttpServerTest, LimitsAChunkedBodyWhoseLengthIsUnknown) {
  serve_echo();
  std::string request = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 11; ++i) request += "64\r\n" + std::string(100, 'x') + "\r\n";
  EXPECT_THAT(answer_to(request), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(answer_to("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"),
              StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpServerTest, TakesATargetMeantForAProxyAsItsPath) {
  serve_echo();
  for (const auto& [target, path] : {std::pair{"http://x/p?q", "/p?q|"},
                                     {"https://x:1/", "/|"},
                                     {"http://x", "/|"},
                                     {"http://x?q", "/?q|"},
                                     {"/http://x/p", "/http://x/p|"}}) {
    const auto answer = answer_to(std::string("GET ") + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(answer, testing::EndsWith(std::string("\r\n\r\n") + path));
  }
}

TEST_F(HttpServerTest, LimitsTheBodiesThatAreReceivedAtOnce) {
  ServerLimits limits;
  limits.receiving_bytes_max = 1000;
  serve_echo(limits);
  const std::string head = "POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  const auto chunk = [](std::size_t size) {
    char digits[20];
    std::snprintf(digits, sizeof digits, "%zx\r\n", size);
    return digits + std::string(size, 'b') + "\r\n";
  };
  RawPeer slow;
  slow.connect(loop, network);
  slow.send(head + chunk(600));  // and never ends
  RawPeer large;
  large.connect(loop, network);
  large.send(head + chunk(600));
  run();
  EXPECT_TRUE(large.ended) << "the two together are over the limit";
  RawPeer small;
  small.connect(loop, network);
  small.send(head + chunk(300) + "0\r\n\r\n");
  run();
  EXPECT_THAT(small.received, StartsWith("HTTP/1.1 200 OK"));
  slow.close();
  run();
  RawPeer next;
  next.connect(loop, network);
  next.send(head + chunk(900) + "0\r\n\r\n");
  run();
  EXPECT_THAT(next.received, StartsWith("HTTP/1.1 200 OK")) << "who leaves gives its bytes back";
  run();
}

TEST_F(HttpServerTest, SpeaksHttp10) {
  serve([](std::shared_ptr<Exchange> exchange) {
    exchange->begin({200, "", {}}, std::nullopt);
    exchange->write("a");
    exchange->write("b");
    exchange->finish();
  });
  RawPeer peer;
  peer.connect(loop, network);
  peer.send("GET / HTTP/1.0\r\n\r\n");
  run();
  EXPECT_EQ(peer.received, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nab");
  EXPECT_TRUE(peer.ended);
}

TEST_F(HttpServerTest, KeepsAnHttp10ConnectionThatAsksForIt) {
  serve_echo();
  RawPeer peer;
  peer.connect(loop, network);
  peer.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  run();
  EXPECT_THAT(peer.received, HasSubstr("Connection: keep-alive"));
  EXPECT_FALSE(peer.ended);
}

TEST_F(HttpServerTest, AnswersHeadWithoutABody) {
  serve_echo();
  EXPECT_EQ(answer_to("HEAD /h HTTP/1.1\r\nHost: x\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
}

TEST_F(HttpServerTest, StreamsEachWriteAtOnceInItsOwnChunk) {
  serve_and_hold();
  RawPeer peer;
  peer.connect(loop, network);
  peer.send(std::string(kGet));
  run();
  held[0]->begin({200, "", {{"Content-Type", "text/event-stream"}}}, std::nullopt);
  run(100us);
  EXPECT_THAT(peer.received, testing::EndsWith("Transfer-Encoding: chunked\r\n\r\n"))
      << "the head must not wait for the first byte";
  held[0]->write("hello");
  run(100us);
  EXPECT_THAT(peer.received, testing::EndsWith("5\r\nhello\r\n"));
  held[0]->write("");
  held[0]->write(std::string(26, 'z'));
  run(100us);
  EXPECT_THAT(peer.received, testing::EndsWith("\r\n1a\r\n" + std::string(26, 'z') + "\r\n"));
  held[0]->finish();
  run(100us);
  EXPECT_THAT(peer.received, testing::EndsWith("\r\n0\r\n\r\n"));
  EXPECT_EQ(server->exchanges(), 0U);
}

TEST_F(HttpServerTest, AStreamWithALengthMustKeepIt) {
  serve_and_hold();
  for (const std::string_view sent : {"ab", "abcd"}) {
    RawPeer peer;
    peer.connect(loop, network);
    peer.send(std::string(kGet));
    run();
    held.back()->begin({200, "", {}}, 3);
    held.back()->write(std::string(sent));
    held.back()->finish();
    run();
    EXPECT_TRUE(peer.read_error) << sent << ": a wrong length must not look like a whole answer";
  }
  RawPeer peer;
  peer.connect(loop, network);
  peer.send(std::string(kGet));
  run();
  held.back()->begin({200, "", {}}, 3);
  held.back()->write("abc");
  held.back()->finish();
  run();
  EXPECT_EQ(peer.received, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
}

TEST_F(HttpServerTest, RefusesHeadsOverTheLimits) {
  ServerLimits limits;
  limits.head_bytes_max = 1000;
  limits.headers_max = 5;
  serve_echo(limits);
  EXPECT_THAT(answer_to("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(1000, 'a')),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(answer_to("GET /" + std::string(1000, 'a')), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(
      answer_to("GET / HTTP/1.1\r\nHost: x\r\n1: 1\r\n2: 2\r\n3: 3\r\n4: 4\r\n5: 5\r\n\r\n"),
      StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(answer_to("GET / HTTP/1.1\r\nHost: x\r\n1: 1\r\n2: 2\r\n3: 3\r\n4: 4\r\n\r\n"),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(requests, 1);
}

TEST_F(HttpServerTest, EndsAHeadThatDripsInTooSlowly) {
  serve_echo();
  RawPeer peer;
  peer.connect(loop, network);
  const std::string head(kGet);
  for (const char c : head.substr(0, 12)) {
    peer.send(std::string(1, c));
    run(1s);
  }
  EXPECT_THAT(peer.received, StartsWith("HTTP/1.1 408 ")) << "each byte must not buy more time";
  EXPECT_TRUE(peer.ended);
  run(3s);
  EXPECT_EQ(server->connections(), 0U);
}

TEST_F(HttpServerTest, ClosesAConnectionThatRests) {
  serve_echo();
  RawPeer peer;
  peer.connect(loop, network);
  peer.send(std::string(kGet));
  run(74s);
  EXPECT_FALSE(peer.ended);
  run(2s);
  EXPECT_TRUE(peer.ended);
  EXPECT_EQ(server->connections(), 0U);
}

TEST_F(HttpServerTest, EndsABodyThatStops) {
  serve_echo();
  RawPeer peer;
  peer.connect(loop, network);
  peer.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe");
  run(40s);
  peer.send("l");
  run(59s);
  EXPECT_EQ(peer.received, "") << "the time-out counts from the last byte";
  run(2s);
  EXPECT_THAT(peer.received, StartsWith("HTTP/1.1 408 "));
  EXPECT_TRUE(peer.ended);
}

TEST_F(HttpServerTest, ManyHalfOpenHeadsCostLittleAndEnd) {
  serve_echo();
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 500; ++i) {
    peers.push_back(std::make_unique<RawPeer>());
    peers.back()->connect(loop, network);
    peers.back()->send("GET / HTTP/1.1\r\nX-");
  }
  run(1s);
  EXPECT_EQ(server->connections(), 500U);
  run(15s);
  EXPECT_EQ(server->connections(), 0U);
}

TEST_F(HttpServerTest, ClosesConnectionsBeyondTheLimit) {
  ServerLimits limits;
  limits.connections_max = 2;
  serve_echo(limits);
  RawPeer a, b, c;
  a.connect(loop, network);
  b.connect(loop, network);
  c.connect(loop, network);
  run();
  EXPECT_EQ(server->connections(), 2U);
  EXPECT_TRUE(c.ended || c.read_error);
  b.close();
  run();
  EXPECT_EQ(server->connections(), 1U);
}

TEST_F(HttpServerTest, ASlowReaderStopsTheProducerAndMemoryStaysBounded) {
  ServerLimits limits;
  limits.write_buffer_bytes_max = 10'000;
  network.set_link({.window_bytes = 4000});
  serve_and_hold(limits);
  RawPeer peer;
  peer.connect(loop, network);
  peer.send(std::string(kGet));
  run();
  peer.stop_reading();
  run();
  auto exchange = held[0];
  exchange->begin({200, "", {}}, std::nullopt);
  run();  // the head ends the client's last read
  std::size_t produced = 0;
  int resumed = 0;
  while (exchange->writable()) {
    exchange->write(std::string(1000, 'x'));
    produced += 1000;
  }
  EXPECT_LT(produced, 20'000U);
  exchange->on_writable([&] { ++resumed; });
  run(5s);
  EXPECT_EQ(resumed, 0) << "the client takes nothing";
  peer.resume_reading();
  run(1s);
  EXPECT_EQ(resumed, 1);
  EXPECT_TRUE(exchange->writable());
  exchange->finish();
  run();
  EXPECT_THAT(peer.received, testing::EndsWith("0\r\n\r\n"));
}

TEST_F(HttpServerTest, OnWritableRunsSoonWhereThereIsRoomAlready) {
  serve_and_hold();
  RawPeer peer;
  peer.connect(loop, network);
  peer.send(std::string(kGet));
  run();
  bool ran = false;
  held[0]->begin({200, "", {}}, std::nullopt);
  held[0]->on_writable([&] { ran = true; });
  EXPECT_FALSE(ran) << "never inside the call";
  run();
  EXPECT_TRUE(ran);
}

TEST_F(HttpServerTest, AClientThatTakesNoByteForTooLongIsGone) {
  network.set_link({.window_bytes = 4000});
  serve_and_hold();
  RawPeer peer;
  peer.connect(loop, network);
  peer.send(std::string(kGet));
  run();
  peer.stop_reading();
  bool gone = false;
  held[0]->on_client_gone([&] { gone = true; });
  held[0]->begin({200, "", {}}, std::nullopt);
  held[0]->write(std::string(20'000, 'x'));
  run(59s);
  EXPECT_FALSE(gone);
  run(20s);
  EXPECT_TRUE(gone);
  EXPECT_TRUE(held[0]->client_gone());
  EXPECT_EQ(server->connections(), 0U);
}

}  // namespace
}  // namespace tailrace::net::test
