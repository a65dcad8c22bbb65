#include "tailrace/net/http_client.h"

#include <gmock/gmock.h>

#include "net/support/sim_fixture.h"

namespace tailrace::net::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A client, and a server end that a test plays by hand.
class HttpClientTest : public SimTest {
 protected:
  HttpClientTest() { listen(); }
  void listen() {
    auto made = network.listen(kServerAt, [this](std::unique_ptr<Stream> stream) {
      peers.push_back(std::make_unique<RawPeer>());
      peers.back()->adopt(std::move(stream));
    });
    ASSERT_TRUE(made);
    listener = std::move(*made);
  }
  std::unique_ptr<Call> start(CallLog& log, CallTimeouts timeouts = {}, std::string body = "{}") {
    return client->start(kServerAt, {"POST", "/v1", 1, {}},
                         std::make_shared<const std::string>(std::move(body)), timeouts,
                         log.handlers());
  }
  /// Starts a call, lets the request arrive, answers it with these bytes.
  std::unique_ptr<Call> answered_with(CallLog& log, std::string_view answer,
                                      std::string_view method = "POST") {
    auto call =
        client->start(kServerAt, {std::string(method), "/v1", 1, {}}, nullptr, {}, log.handlers());
    run(1ms);
    peers.back()->send(std::string(answer));
    run(1ms);
    return call;
  }
  void TearDown() override {
    client.reset();
    run(1s);
    for (const auto& connection : network.connections()) EXPECT_FALSE(connection->client_open());
  }

  std::unique_ptr<Listener> listener;
  std::vector<std::unique_ptr<RawPeer>> peers;
  std::unique_ptr<HttpClient> client = HttpClient::make(loop, network);
};

TEST_F(HttpClientTest, SendsARequestAndReportsTheAnswer) {
  CallLog log;
  const auto call = start(log);
  EXPECT_EQ(log.connected, 0) << "nothing is reported inside start()";
  run();
  EXPECT_EQ(log.connected, 1);
  EXPECT_EQ(peers.at(0)->received,
            "POST /v1 HTTP/1.1\r\nHost: server\r\nContent-Length: 2\r\n\r\n{}");
  peers[0]->send(std::string(kOk));
  run();
  EXPECT_EQ(log.head.status, 200);
  EXPECT_EQ(log.head.headers.find("content-length"), "2");
  EXPECT_EQ(log.body, "ok");
  EXPECT_EQ(log.ends, 1);
}

TEST_F(HttpClientTest, ReadsTheSameAnswersHoweverTheyAreCutIntoReads) {
  const std::pair<std::string, std::string> answers[] = {
      {std::string(kOk), "ok"},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" +
           std::string(kOk),
       "ok"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
       "5;a=b\r\ndata:\r\n00c\r\n \xe4\xbd\xa0\xe5\xa5\xbd\xf0\x9f\x98\x80\n\r\n0\r\nT: "
       "x\r\n\r\n",
       "data: \xe4\xbd\xa0\xe5\xa5\xbd\xf0\x9f\x98\x80\n"},
      {"HTTP/1.1 204 No Content\r\n\r\n", ""},
      {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ""},
  };
  for (const auto& [answer, body] : answers) {
    for (std::size_t cut = 1; cut <= answer.size(); ++cut) {
      network.set_link({.read_bytes = {cut, 1 << 20}});
      CallLog log;
      const auto call = answered_with(log, answer);
      ASSERT_EQ(log.ends, 1) << answer << " cut after " << cut << ": "
                             << (log.error ? log.error->error.message : "");
      EXPECT_EQ(log.heads, 1);
      EXPECT_EQ(log.body, body);
      client->forget(kServerAt);
    }
  }
}

TEST_F(HttpClientTest, ReusesAConnectionAndOnlyAfterACleanEnd) {
  CallLog first, second;
  const auto a = answered_with(first, kOk);
  EXPECT_EQ(first.ends, 1);
  const auto b = answered_with(second, kOk);
  EXPECT_EQ(second.ends, 1);
  EXPECT_EQ(peers.size(), 1U);

  const std::string_view not_reusable[] = {
      "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
      "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
  };
  for (const std::string_view answer : not_reusable) {
    const std::size_t before = peers.size();
    CallLog log, next;
    const auto c = answered_with(log, answer);
    EXPECT_EQ(log.ends, 1) << answer;
    EXPECT_EQ(log.body, "ok") << answer;
    const auto d = answered_with(next, kOk);
    EXPECT_EQ(next.ends, 1);
    EXPECT_EQ(peers.size(), before + 1) << answer;
  }
}

TEST_F(HttpClientTest, AHeadAnswerHasNoBodyWhateverItsLengthSays) {
  CallLog log;
  const auto call = answered_with(log, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", "HEAD");
  EXPECT_EQ(log.ends, 1);
  EXPECT_EQ(log.body, "");
}

TEST_F(HttpClientTest, ABodyUntilCloseEndsWithTheConnection) {
  CallLog log;
  const auto call = answered_with(log, "HTTP/1.1 200 OK\r\n\r\nall of ");
  peers[0]->send("it");
  run();
  EXPECT_EQ(log.ends, 0);
  peers[0]->finish();
  run();
  EXPECT_EQ(log.ends, 1);
  EXPECT_EQ(log.body, "all of it");
}

TEST_F(HttpClientTest, RefusedAndSilentServersAreTold) {
  network.set_reach(kServerAt, SimNetwork::Reach::kRefused);
  CallLog refused;
  const auto a = start(refused);
  run();
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->phase, CallPhase::kConnect);
  EXPECT_EQ(refused.error->error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error->error.message, HasSubstr("server:80"));

  network.set_reach(kServerAt, SimNetwork::Reach::kSilent);
  CallLog silent;
  const auto b = start(silent, {.connect = 2s});
  run(1900ms);
  EXPECT_FALSE(silent.error);
  run(200ms);
  ASSERT_TRUE(silent.error);
  EXPECT_EQ(silent.error->phase, CallPhase::kConnect);
  EXPECT_EQ(silent.error->error.code, ErrorCode::kDeadlineExceeded);
}

TEST_F(HttpClientTest, TheFirstByteAndIdleTimeoutsCountFromWhatHappenedLast) {
  CallLog log;
  const auto call = start(log, {.first_byte = 2s, .idle = 1s});
  run(1900ms);
  peers[0]->send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na");
  run(900ms);
  peers[0]->send("b");
  run(900ms);
  EXPECT_FALSE(log.error);
  run(200ms);
  ASSERT_TRUE(log.error);
  EXPECT_EQ(log.error->phase, CallPhase::kBody);
  EXPECT_EQ(log.error->error.code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(log.body, "ab");

  CallLog silent;
  const auto second = start(silent, {.first_byte = 2s});
  run(2100ms);
  ASSERT_TRUE(silent.error);
  EXPECT_EQ(silent.error->phase, CallPhase::kFirstByte);
}

TEST_F(HttpClientTest, WithoutTimeoutsItWaitsForEver) {
  CallLog log;
  const auto call = start(log);
  run(24h);
  EXPECT_FALSE(log.settled());
}

TEST_F(HttpClientTest, AServerThatTakesNoneOfTheBodyIsNotWaitedForForEver) {
  network.set_link({.window_bytes = 1000});
  CallLog log;
  const auto call = start(log, {.first_byte = 2s}, std::string(100'000, 'x'));
  loop.run_for(200us);
  peers[0]->stop_reading();
  run(10s);
  ASSERT_TRUE(log.error);
  EXPECT_EQ(log.error->phase, CallPhase::kSend);
  EXPECT_EQ(log.error->error.code, ErrorCode::kDeadlineExceeded);
}

TEST_F(HttpClientTest, ALargeBodyArrivesWhole) {
  std::string body(1'000'000, 'x');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i * i % 26);
  CallLog log;
  const auto call = start(log, {.first_byte = 1s}, body);
  run(2s);
  EXPECT_TRUE(peers[0]->received.ends_with("\r\n\r\n" + body));
}

TEST_F(HttpClientTest, ACutAnswerIsAnErrorForEveryFraming) {
  const std::pair<std::string_view, CallPhase> cuts[] = {
      {"", CallPhase::kFirstByte},
      {"HTTP/1.1 200 O", CallPhase::kFirstByte},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", CallPhase::kBody},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfour", CallPhase::kBody},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", CallPhase::kBody},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n", CallPhase::kBody},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n", CallPhase::kBody},
  };
  for (const auto& [bytes, phase] : cuts) {
    for (const bool reset : {false, true}) {
      CallLog log;
      const auto call = answered_with(log, bytes);
      peers.back()->close(reset);
      run();
      ASSERT_TRUE(log.error) << bytes;
      EXPECT_EQ(log.error->error.code, ErrorCode::kUnavailable) << bytes;
      EXPECT_EQ(log.error->phase, phase) << bytes;
      EXPECT_EQ(log.ends, 0) << bytes;
    }
  }
  CallLog until_close;
  const auto call = answered_with(until_close, "HTTP/1.1 200 OK\r\n\r\npart");
  peers.back()->close(true);
  run();
  EXPECT_TRUE(until_close.error) << "a reset is not an end";
}

TEST_F(HttpClientTest, AnswersThatMakeNoSenseAreDataLoss) {
  const std::string_view answers[] = {
      "SSH-2.0-OpenSSH\r\n\r\n",
      "HTTP/1.1 200 OK\nContent-Length: 2\n\nok\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      "HTTP/1.1 101 Switching Protocols\r\n\r\n",
      "HTTP/2 200 OK\r\n\r\n",
  };
  for (const std::string_view answer : answers) {
    CallLog log;
    const auto call = answered_with(log, answer);
    ASSERT_TRUE(log.error) << answer;
    EXPECT_EQ(log.error->error.code, ErrorCode::kDataLoss) << answer;
  }
  CallLog endless;
  const auto call = answered_with(endless, "HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x'));
  ASSERT_TRUE(endless.error);
  EXPECT_EQ(endless.error->error.code, ErrorCode::kDataLoss);
}

TEST_F(HttpClientTest, AnEarlyRefusalIsReportedEvenIfTheBodyWasNotTaken) {
  network.set_link({.window_bytes = 1000});
  CallLog log;
  const auto call = start(log, {}, std::string(100'000, 'x'));
  loop.run_for(200us);
  peers[0]->stop_reading();
  run();
  peers[0]->send("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
  run();
  EXPECT_EQ(log.head.status, 413);
  EXPECT_EQ(log.ends, 1);
  run();
  EXPECT_FALSE(network.connections()[0]->client_open()) << "half a request is still in it";
}

TEST_F(HttpClientTest, APooledConnectionThatTheServerClosedIsTriedAgainOnce) {
  CallLog first;
  const auto a = answered_with(first, kOk);
  // The server closes when the next request is on its way: it cannot be noticed before.
  CallLog log;
  const auto call = start(log);
  peers[0]->close();
  run();
  ASSERT_EQ(peers.size(), 2U);
  EXPECT_THAT(peers[1]->received, StartsWith("POST /v1 "));
  EXPECT_EQ(log.connected, 1);
  peers[1]->close();  // and not a third time
  run();
  EXPECT_EQ(peers.size(), 2U);
  ASSERT_TRUE(log.error);
  EXPECT_EQ(log.error->error.code, ErrorCode::kUnavailable);
}

TEST_F(HttpClientTest, ARequestIsNotRepeatedOnceAnAnswerHasBegun) {
  CallLog first, log;
  const auto a = answered_with(first, kOk);
  const auto call = answered_with(log, "HTTP/1.1");
  peers[0]->close();
  run();
  EXPECT_EQ(peers.size(), 1U);
  EXPECT_TRUE(log.error);
}

TEST_F(HttpClientTest, IdleConnectionsEndWhenTheServerClosesThemOrTimePasses) {
  CallLog a, b;
  const auto first = answered_with(a, kOk);
  peers[0]->close();
  run();
  EXPECT_FALSE(network.connections()[0]->client_open());
  const auto second = answered_with(b, kOk);
  EXPECT_EQ(peers.size(), 2U);
  run(3900ms);
  EXPECT_TRUE(network.connections()[1]->client_open());
  run(200ms);
  EXPECT_FALSE(network.connections()[1]->client_open());
}

TEST_F(HttpClientTest, BytesThatNobodyAskedForEndAnIdleConnection) {
  CallLog a;
  const auto first = answered_with(a, kOk);
  peers[0]->send("HTTP/1.1 200 OK\r\n\r\n");
  run();
  EXPECT_FALSE(network.connections()[0]->client_open());
}

TEST_F(HttpClientTest, ForgetClosesIdleConnections) {
  CallLog a;
  const auto first = answered_with(a, kOk);
  client->forget(kServerAt);
  run();
  EXPECT_FALSE(network.connections()[0]->client_open());
}

TEST_F(HttpClientTest, ThePoolIsBounded) {
  client = HttpClient::make(loop, network, {.idle_connections_per_endpoint_max = 3});
  std::vector<CallLog> logs(8);
  std::vector<std::unique_ptr<Call>> calls;
  for (CallLog& log : logs) calls.push_back(start(log));
  run();
  for (const auto& peer : peers) peer->send(std::string(kOk));
  run();
  int open = 0;
  for (const auto& connection : network.connections()) open += connection->client_open() ? 1 : 0;
  EXPECT_EQ(open, 3);
}

TEST_F(HttpClientTest, DestroyingACallClosesItsConnectionInEveryState) {
  const auto expect_closed = [&](const char* state) {
    run(60us);
    for (const auto& connection : network.connections()) {
      EXPECT_FALSE(connection->client_open()) << state;
    }
  };
  CallLog log;
  start(log).reset();
  expect_closed("before the loop ran");
  {
    const auto call = start(log);
    run(60us);
  }
  expect_closed("connecting");
  network.set_link({.window_bytes = 1000});
  {
    const auto call = start(log, {}, std::string(10'000, 'x'));
    loop.run_for(200us);
    peers.back()->stop_reading();
    run();
  }
  expect_closed("sending");
  network.set_link({});
  {
    const auto call = start(log);
    run();
  }
  expect_closed("waiting for the first byte");
  {
    const auto call = answered_with(log, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na");
  }
  expect_closed("in the body");
  EXPECT_TRUE(peers.back()->ended || peers.back()->read_error) << "the server sees it";
  EXPECT_FALSE(log.settled());
}

TEST_F(HttpClientTest, ACallMayBeDestroyedInsideEachOfItsHandlers) {
  const std::string_view answers[] = {
      kOk, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz", "nonsense\r\n\r\n"};
  for (int handler = 0; handler < 5; ++handler) {
    for (const std::string_view answer : answers) {
      std::unique_ptr<Call> call;
      int ran = 0;
      // The captured string would be destroyed with the handler: reading it afterwards tells.
      const auto drop = [&call, &ran, text = std::string(100, 'x')] {
        ++ran;
        call.reset();
        EXPECT_EQ(text, std::string(100, 'x'));
      };
      CallHandlers handlers;
      if (handler == 0) handlers.on_connected = drop;
      if (handler == 1) handlers.on_head = [drop](const ResponseHead&) { drop(); };
      if (handler == 2) handlers.on_body = [drop](std::string_view) { drop(); };
      if (handler == 3) handlers.on_end = drop;
      if (handler == 4) handlers.on_error = [drop](const CallError&) { drop(); };
      const std::size_t before = peers.size();
      call = client->start(kServerAt, {"GET", "/", 1, {}}, nullptr, {}, std::move(handlers));
      run(1ms);
      if (peers.size() > before) peers.back()->send(std::string(answer));
      run(1ms);
      EXPECT_LE(ran, 1);
      EXPECT_EQ(call == nullptr, ran == 1);
      client->forget(kServerAt);
    }
  }
}

TEST_F(HttpClientTest, TheClientMayBeDestroyedWithCallsInEveryState) {
  std::vector<CallLog> logs(3);
  const auto a = answered_with(logs[0], "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na");
  const auto b = start(logs[1]);
  run();
  const auto c = start(logs[2]);
  client.reset();
  run();
  for (const CallLog& log : logs) EXPECT_FALSE(log.settled());
  for (const auto& connection : network.connections()) EXPECT_FALSE(connection->client_open());
  a->pause();
  a->resume();
}

TEST_F(HttpClientTest, TheClientMayBeDestroyedInsideAHandler) {
  CallHandlers handlers;
  handlers.on_body = [this](std::string_view) { client.reset(); };
  const auto call = client->start(kServerAt, {"GET", "/", 1, {}}, nullptr, {}, std::move(handlers));
  run();
  peers[0]->send(std::string(kOk));
  run();
  EXPECT_EQ(client, nullptr);
}

TEST_F(HttpClientTest, ANewCallFromOnEndReusesTheConnection) {
  CallLog second_log;
  std::unique_ptr<Call> second;
  CallHandlers handlers;
  handlers.on_end = [&] { second = start(second_log); };
  const auto first =
      client->start(kServerAt, {"GET", "/", 1, {}}, nullptr, {}, std::move(handlers));
  run();
  peers[0]->send(std::string(kOk));
  run();
  peers[0]->send(std::string(kOk));
  run();
  EXPECT_EQ(second_log.ends, 1);
  EXPECT_EQ(peers.size(), 1U);
}

TEST_F(HttpClientTest, PausingSlowsTheServerDownAndTheIdleTimeoutRests) {
  network.set_link({.window_bytes = 20'000});
  CallLog log;
  const auto call = start(log, {.idle = 1s});
  run();
  const std::string body(500'000, 'y');
  peers[0]->send("HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n" + body);
  loop.run_for(60us);
  call->pause();
  run(1h);
  EXPECT_LT(log.body.size(), 100'000U) << "one read may still arrive";
  EXPECT_FALSE(log.settled());
  call->resume();
  run(900ms);
  EXPECT_EQ(log.body, body);
  EXPECT_EQ(log.ends, 1);
}

TEST_F(HttpClientTest, PausingInsideOnBodyAndResumingLaterLosesNothing) {
  network.set_link({.read_bytes = {7}});
  std::string body;
  bool ended = false;
  std::unique_ptr<Call> call;
  CallHandlers handlers;
  handlers.on_body = [&](std::string_view bytes) {
    body += bytes;
    call->pause();
    loop.post_at(loop.now() + 10ms, [&] {
      if (!ended) call->resume();
    });
  };
  handlers.on_end = [&] { ended = true; };
  call = client->start(kServerAt, {"GET", "/", 1, {}}, nullptr, {}, std::move(handlers));
  run();
  peers[0]->send(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
      "chunked\r\n\r\n19\r\n0123456789012345678901234\r\n0\r\n\r\n");
  run(1s);
  EXPECT_EQ(body, "0123456789012345678901234");
  EXPECT_TRUE(ended);
}

TEST_F(HttpClientTest, SetsHostAndFramingItself) {
  CallLog log;
  const auto call = client->start(
      {"::1", 8080, false},
      {"POST",
       "/",
       1,
       {{"Content-Length", "99"}, {"Transfer-Encoding", "chunked"}, {"X", "a\r\nY: b"}}},
      nullptr, {}, log.handlers());
  RawPeer peer;
  const auto at = network.listen(
      {"::1", 8080, false}, [&](std::unique_ptr<Stream> stream) { peer.adopt(std::move(stream)); });
  run();
  EXPECT_EQ(peer.received,
            "POST / HTTP/1.1\r\nHost: [::1]:8080\r\nX: a  Y: b\r\nContent-Length: 0\r\n\r\n");
}

}  // namespace
}  // namespace tailrace::net::test
