#include "tailrace/net/sim_network.h"

#include <gmock/gmock.h>

#include "net/support/sim_fixture.h"

namespace tailrace::net::test {
namespace {

using namespace std::chrono_literals;

TEST(SimLoop, RunsEventsInTheOrderOfTheirTimesAndThenOfAsking) {
  SimLoop loop;
  std::string order;
  const auto late = loop.after(2s, [&] { order += 'd'; });
  const auto early = loop.after(1s, [&] { order += 'b'; });
  const auto same = loop.after(1s, [&] { order += 'c'; });
  auto dropped = loop.after(1s, [&] { order += 'x'; });
  dropped.reset();
  loop.post([&] { order += 'a'; });
  loop.run();
  EXPECT_EQ(order, "abcd");
  EXPECT_EQ(loop.now(), MonoTime{} + 2s);
}

TEST(SimLoop, StopsWhenToldAndKeepsTheRest) {
  SimLoop loop;
  int ran = 0;
  loop.post([&] {
    ++ran;
    loop.stop();
  });
  loop.post([&] { ++ran; });
  loop.run();
  EXPECT_EQ(ran, 1);
  loop.run();
  EXPECT_EQ(ran, 2);
}

TEST(SimLoop, PassesSignalsOn) {
  SimLoop loop;
  int seen = 0;
  loop.on_terminate([&](int signal) { seen = signal; });
  loop.raise(15);
  loop.run();
  EXPECT_EQ(seen, 15);
}

class SimNetworkTest : public SimTest {
 protected:
  void open() {
    if (!listener) {
      listener = network
                     .listen(kServerAt,
                             [this](std::unique_ptr<Stream> stream) {
                               server = std::make_unique<RawPeer>();
                               server->adopt(std::move(stream));
                             })
                     .value();
    }
    client = std::make_unique<RawPeer>();
    client->connect(loop, network);
    run();
    ASSERT_TRUE(client->connected());
  }
  std::unique_ptr<Listener> listener;
  std::unique_ptr<RawPeer> client, server;
};

TEST_F(SimNetworkTest, CarriesBytesBothWaysAfterItsDelay) {
  network.set_link({.delay = 1ms});
  open();
  client->send("ping");
  run(900us);
  EXPECT_EQ(server->received, "");
  run(200us);
  EXPECT_EQ(server->received, "ping");
  server->send("pong");
  run(2ms);
  EXPECT_EQ(client->received, "pong");
}

TEST(SimNetwork, KeepsOrderUnderJitterAndIsTheSameForTheSameSeed) {
  const auto trace = [](std::uint64_t seed) {
    SimLoop loop;
    SimNetwork network(loop, seed);
    network.set_link({.delay = 1ms, .jitter = 10ms, .random_read_bytes_max = 5});
    RawPeer server, client;
    const auto listener = network.listen(
        kServerAt, [&](std::unique_ptr<Stream> stream) { server.adopt(std::move(stream)); });
    client.connect(loop, network);
    std::string sent, arrivals;
    for (int i = 0; i < 50; ++i) {
      const std::string piece = std::to_string(i) + ",";
      sent += piece;
      client.send(piece);
      loop.run_for(1ms);
      arrivals += std::to_string(server.received.size()) + " ";
    }
    loop.run_for(1s);
    EXPECT_EQ(server.received, sent);
    return arrivals;
  };
  EXPECT_EQ(trace(1), trace(1));
  EXPECT_NE(trace(1), trace(2));
}

TEST_F(SimNetworkTest, AFullWindowStopsTheWriterUntilTheReaderReads) {
  network.set_link({.window_bytes = 10});
  open();
  server->stop_reading();
  client->send("01234");  // the read that was outstanding still takes these
  run();
  client->send(std::string(100, 'x'));
  run(1s);
  EXPECT_EQ(server->received, "01234");
  server->resume_reading();
  run();
  EXPECT_EQ(server->received.size(), 105U);
}

TEST_F(SimNetworkTest, CloseIsAnEndAndUnreadInputMakesItAReset) {
  open();
  client->send("bye");
  client->close();
  run();
  EXPECT_EQ(server->received, "bye");
  EXPECT_TRUE(server->ended);

  open();
  client->stop_reading();
  server->send("a");
  run();
  server->send("unread");
  run();
  client->close();
  run();
  EXPECT_TRUE(server->read_error);
}

TEST_F(SimNetworkTest, WritingToAPeerThatHasGoneBringsAReset) {
  open();
  server->close();
  run();
  EXPECT_TRUE(client->ended);
  EXPECT_FALSE(network.connections()[0]->reset_seen());
  client->send("anybody?");
  run();
  EXPECT_TRUE(network.connections()[0]->reset_seen());
}

TEST_F(SimNetworkTest, InjectsResetsAndCutCables) {
  open();
  network.connections().back()->reset();
  run();
  EXPECT_TRUE(client->read_error);
  EXPECT_TRUE(server->read_error);
  open();
  network.connections().back()->freeze();
  client->send("lost");
  client->close();
  run(1h);
  EXPECT_EQ(server->received, "");
  EXPECT_FALSE(server->ended || server->read_error);
}

TEST_F(SimNetworkTest, RefusesWhatNobodyListensTo) {
  RawPeer peer;
  peer.connect(loop, network, {"nowhere", 1, false});
  ASSERT_TRUE(peer.connect_error);
  EXPECT_EQ(peer.connect_error->code, ErrorCode::kUnavailable);
  const auto a = network.listen({"h", 5, false}, [](std::unique_ptr<Stream>) {});
  const auto b = network.listen({"h", 5, false}, [](std::unique_ptr<Stream>) {});
  EXPECT_TRUE(a);
  EXPECT_FALSE(b);
}

TEST_F(SimNetworkTest, AnAbandonedAttemptNeverReports) {
  auto listening = network.listen(kServerAt, [this](std::unique_ptr<Stream> stream) {
    server = std::make_unique<RawPeer>();
    server->adopt(std::move(stream));
  });
  bool reported = false;
  auto attempt =
      network.connect(kServerAt, 1s, [&](Result<std::unique_ptr<Stream>>) { reported = true; });
  loop.run_for(60us);  // half-way: accepted there, not known here
  attempt.reset();
  run();
  EXPECT_FALSE(reported);
  EXPECT_TRUE(server->ended);
}

}  // namespace
}  // namespace tailrace::net::test
