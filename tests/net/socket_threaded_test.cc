// Real sockets on the loopback interface, port 0: what the in-memory network cannot show.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <future>
#include <thread>

#include "net/support/tls_peer.h"
#include "support/temp_folder.h"
#include "tailrace/core/text.h"
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

TEST(Sockets, PostsFromOtherThreadsArriveInOrder) {
  const auto loop = make_event_loop();
  std::vector<std::vector<int>> seen(4);
  int left = 4000;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < seen.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i) {
        loop->post([&, t, i] {
          seen[t].push_back(i);
          if (--left == 0) loop->stop();
        });
      }
    });
  }
  loop->run();
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int>& numbers : seen) {
    ASSERT_EQ(numbers.size(), 1000U);
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
  }
}

TEST(Sockets, ASignalReachesItsHandlerOnTheLoop) {
  const auto loop = make_event_loop();
  int seen = 0;
  loop->on_terminate([&](int signal) {
    seen = signal;
    loop->stop();
  });
  loop->post([] { std::raise(SIGTERM); });
  loop->run();
  EXPECT_EQ(seen, SIGTERM);
}

TEST(Sockets, ADroppedTimerNeverRunsEvenIfItIsDueAlready) {
  const auto loop = make_event_loop();
  std::unique_ptr<Timer> second;
  bool ran = false;
  const auto first = loop->after(1ms, [&] { second.reset(); });
  second = loop->after(1ms, [&] { ran = true; });
  const auto last = loop->after(20ms, [&] { loop->stop(); });
  std::this_thread::sleep_for(5ms);
  loop->run();
  EXPECT_FALSE(ran);
}

/// A relay as small as can be: what comes from `upstream` goes to the client, and a client that
/// leaves takes its upstream call with it.
struct Relay : std::enable_shared_from_this<Relay> {
  std::shared_ptr<Exchange> exchange;
  std::unique_ptr<Call> call;

  void start(HttpClient& client, const Endpoint& upstream) {
    CallHandlers handlers;
    handlers.on_head = [self = shared_from_this()](ResponseHead head) {
      head.headers.remove_hop_by_hop();
      self->exchange->begin(std::move(head));
    };
    handlers.on_body = [self = shared_from_this()](std::string_view bytes) {
      self->exchange->write(std::string(bytes));
      if (self->exchange->writable()) return;
      self->call->pause();
      self->exchange->on_writable([self] { self->call->resume(); });
    };
    handlers.on_end = [self = shared_from_this()] { self->exchange->finish(); };
    handlers.on_error = [self = shared_from_this()](const CallError&) { self->exchange->abort(); };
    exchange->on_client_gone([self = shared_from_this()] { self->call.reset(); });
    call = client.start(upstream, {"GET", exchange->head().target, 1, {}}, nullptr, {},
                        std::move(handlers));
  }
};

/// An upstream, a relay in front of it and a thread that runs both.
class RelayedSockets : public testing::Test {
 protected:
  void start(HttpServer::Handler upstream_handler) {
    upstream =
        HttpServer::listen(*side.loop, *side.network, kLoopback, {}, std::move(upstream_handler))
            .value();
    client = HttpClient::make(*side.loop, *side.network);
    front = HttpServer::listen(*side.loop, *side.network, kLoopback, {},
                               [this](std::shared_ptr<Exchange> exchange) {
                                 const auto relay = std::make_shared<Relay>();
                                 relay->exchange = std::move(exchange);
                                 relay->start(*client, upstream->local());
                               })
                .value();
    at = front->local();
    side.start();
  }
  void TearDown() override { side.join(); }

  LoopThread side;
  std::unique_ptr<HttpServer> upstream, front;
  std::unique_ptr<HttpClient> client;
  Endpoint at;
};

/// Sends `events` numbered events, one per millisecond or so.
struct Source : std::enable_shared_from_this<Source> {
  EventLoop& loop;
  std::shared_ptr<Exchange> exchange;
  int left;
  std::unique_ptr<Timer> timer;
  Source(EventLoop& l, std::shared_ptr<Exchange> e, int events)
      : loop(l), exchange(std::move(e)), left(events) {}
  void step() {
    if (exchange->client_gone()) return;
    exchange->write("data: " + std::to_string(left) + "\n\n");
    if (--left == 0) return exchange->finish();
    timer = loop.after(500us, [self = shared_from_this()] { self->step(); });
  }
};

TEST_F(RelayedSockets, ManyStreamsArriveWholeAndInOrder) {
  static constexpr int kStreams = 40;
  static constexpr int kEvents = 50;
  start([this](std::shared_ptr<Exchange> exchange) {
    exchange->begin({200, "", {{"Content-Type", "text/event-stream"}}});
    std::make_shared<Source>(*side.loop, std::move(exchange), kEvents)->step();
  });
  const auto loop = make_event_loop();
  const auto network = make_socket_network(*loop);
  const auto asking = HttpClient::make(*loop, *network);
  std::vector<std::string> bodies(kStreams);
  std::vector<std::unique_ptr<Call>> calls;
  int open = kStreams;
  for (int i = 0; i < kStreams; ++i) {
    CallHandlers handlers;
    handlers.on_body = [&, i](std::string_view bytes) {
      bodies[static_cast<std::size_t>(i)] += bytes;
    };
    handlers.on_end = [&] {
      if (--open == 0) loop->stop();
    };
    handlers.on_error = [&](const CallError& error) {
      ADD_FAILURE() << error.error.message;
      loop->stop();
    };
    calls.push_back(asking->start(at, {"GET", "/", 1, {}}, nullptr, {}, std::move(handlers)));
  }
  const auto guard = loop->after(30s, [&] { loop->stop(); });
  loop->run();
  std::string expected;
  for (int i = kEvents; i > 0; --i) expected += "data: " + std::to_string(i) + "\n\n";
  for (const std::string& body : bodies) EXPECT_EQ(body, expected);
}

TEST_F(RelayedSockets, AClientThatLeavesFreesTheUpstream) {
  std::promise<void> gone;
  start([&](std::shared_ptr<Exchange> exchange) {
    exchange->on_client_gone([&gone, exchange] { gone.set_value(); });
    exchange->begin({200, "", {}});
    exchange->write("first");
  });
  const auto loop = make_event_loop();
  const auto network = make_socket_network(*loop);
  const auto asking = HttpClient::make(*loop, *network);
  std::unique_ptr<Call> call;
  CallHandlers handlers;
  handlers.on_body = [&](std::string_view) {
    call.reset();
    loop->stop();
  };
  call = asking->start(at, {"GET", "/", 1, {}}, nullptr, {}, std::move(handlers));
  const auto guard = loop->after(10s, [&] { loop->stop(); });
  loop->run();
  EXPECT_EQ(gone.get_future().wait_for(5s), std::future_status::ready);
}

TEST_F(RelayedSockets, ALargeAnswerPassesThroughASlowReader) {
  static constexpr std::size_t kBytes = 30'000'000;
  start([](std::shared_ptr<Exchange> exchange) {
    exchange->respond({200, "", {}}, std::string(kBytes, 'z'));
  });
  const auto loop = make_event_loop();
  const auto network = make_socket_network(*loop);
  const auto asking = HttpClient::make(*loop, *network);
  std::size_t received = 0;
  int pauses = 0;
  bool ended = false;
  std::unique_ptr<Call> call;
  std::unique_ptr<Timer> resume;
  CallHandlers handlers;
  handlers.on_body = [&](std::string_view bytes) {
    received += bytes.size();
    if (received < kBytes && received / 3'000'000 > static_cast<std::size_t>(pauses)) {
      ++pauses;
      call->pause();
      resume = loop->after(5ms, [&] { call->resume(); });
    }
  };
  handlers.on_end = [&] {
    ended = true;
    loop->stop();
  };
  call = asking->start(at, {"GET", "/", 1, {}}, nullptr, {}, std::move(handlers));
  const auto guard = loop->after(30s, [&] { loop->stop(); });
  loop->run();
  EXPECT_TRUE(ended);
  EXPECT_EQ(received, kBytes);
}

TEST_F(RelayedSockets, ACutAnswerIsAnErrorAtTheOtherEnd) {
  start([](std::shared_ptr<Exchange> exchange) {
    exchange->begin({200, "", {}});
    exchange->write("half");
    exchange->abort();
  });
  const auto loop = make_event_loop();
  const auto network = make_socket_network(*loop);
  const auto asking = HttpClient::make(*loop, *network);
  const Answer answer = ask(*loop, *asking, at, {"GET", "/", 1, {}}, "");
  EXPECT_FALSE(answer.ended);
  ASSERT_TRUE(answer.error);
  EXPECT_EQ(answer.error->error.code, ErrorCode::kUnavailable);
}

class ClientSockets : public testing::Test {
 protected:
  std::unique_ptr<EventLoop> loop = make_event_loop();
  std::unique_ptr<Network> network = make_socket_network(*loop);
  std::unique_ptr<HttpClient> client = HttpClient::make(*loop, *network);
};

TEST_F(ClientSockets, ResolvesNamesAndTellsWhatCannotBeReached) {
  auto server =
      HttpServer::listen(*loop, *network, kLoopback, {}, [](std::shared_ptr<Exchange> exchange) {
        exchange->respond({200, "", {}}, exchange->peer());
      }).value();
  const std::uint16_t port = server->local().port;
  const Answer named = ask(*loop, *client, {"localhost", port, false}, {"GET", "/", 1, {}}, "");
  EXPECT_EQ(named.body.substr(0, 10), "127.0.0.1:");
  EXPECT_EQ(
      HttpServer::listen(*loop, *network, server->local(), {}, [](std::shared_ptr<Exchange>) {})
          .error()
          .code,
      ErrorCode::kUnavailable);
  client->forget({"localhost", port, false});
  server.reset();
  const Answer refused = ask(*loop, *client, {"127.0.0.1", port, false}, {"GET", "/", 1, {}}, "");
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->error.code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error->phase, CallPhase::kConnect);
  const Answer unknown =
      ask(*loop, *client, {"no-such-host.invalid", 1, false}, {"GET", "/", 1, {}}, "");
  ASSERT_TRUE(unknown.error);
  EXPECT_EQ(unknown.error->error.code, ErrorCode::kUnavailable);
}

TEST_F(ClientSockets, SpeaksTlsAndVerifiesWhomItSpeaksTo) {
  test::TlsPeer peer(3, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret");
  const RequestHead head{"GET", "/", 1, {}};
  const Answer untrusted = ask(*loop, *client, {"localhost", peer.port(), true}, head, "");
  ASSERT_TRUE(untrusted.error) << "a self-signed certificate that nobody trusts";
  EXPECT_EQ(untrusted.error->error.code, ErrorCode::kUnavailable);
  EXPECT_EQ(untrusted.error->phase, CallPhase::kConnect);

  // OpenSSL reads the variable when a network loads its trust store, hence a network of its own.
  ::setenv("SSL_CERT_FILE", peer.certificate_path().c_str(), 1);
  const auto trusting_network = make_socket_network(*loop);
  const auto trusting = HttpClient::make(*loop, *trusting_network);
  const Answer wrong_name = ask(*loop, *trusting, {"127.0.0.1", peer.port(), true}, head, "");
  EXPECT_TRUE(wrong_name.error) << "the certificate is for another name";
  const Answer trusted = ask(*loop, *trusting, {"localhost", peer.port(), true}, head, "");
  ::unsetenv("SSL_CERT_FILE");
  EXPECT_TRUE(trusted.ended) << (trusted.error ? trusted.error->error.message : "time-out");
  EXPECT_EQ(trusted.body, "secret");
}

constexpr const char* kSecret = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret";

/// The answer of `peer`, asked under `name` by a client with these settings.
Answer ask_tls(EventLoop& loop, const test::TlsPeer& peer, const TlsOptions& options,
               const std::string& name = "localhost") {
  const auto network = make_socket_network(loop, options);
  const auto client = HttpClient::make(loop, *network);
  return ask(loop, *client, {name, peer.port(), true}, {"GET", "/", 1, {}}, "");
}

TEST_F(ClientSockets, TrustsExactlyTheAuthoritiesOfTheFile) {
  test::TlsPeer peer(3, kSecret);
  const test::TlsPeer other(0, "");
  EXPECT_EQ(ask_tls(*loop, peer, {.ca_file = peer.certificate_path()}).body, "secret");
  const Answer wrong = ask_tls(*loop, peer, {.ca_file = other.certificate_path()});
  ASSERT_TRUE(wrong.error);
  EXPECT_EQ(wrong.error->phase, CallPhase::kConnect);
  EXPECT_NE(wrong.error->error.message.find("certificate"), std::string::npos)
      << wrong.error->error.message;
  EXPECT_TRUE(ask_tls(*loop, peer, {.ca_file = peer.certificate_path()}, "127.0.0.1").error)
      << "the certificate is for another name";
}

TEST_F(ClientSockets, SpeaksWithAnyServerOnlyWhenToldTo) {
  test::TlsPeer peer(2, kSecret);
  const TlsOptions any{.insecure_skip_verify = true};
  EXPECT_EQ(ask_tls(*loop, peer, any).body, "secret");
  EXPECT_EQ(ask_tls(*loop, peer, any, "127.0.0.1").body, "secret");
}

TEST_F(ClientSockets, ShowsItsOwnCertificate) {
  test::TlsPeer peer(2, kSecret, true);
  TlsOptions options{.ca_file = peer.certificate_path()};
  EXPECT_TRUE(ask_tls(*loop, peer, options).error) << "the server wants to know who asks";
  options.client_certificate_file = peer.certificate_path();
  options.client_key_file = peer.key_path();
  EXPECT_EQ(ask_tls(*loop, peer, options).body, "secret");
}

TEST_F(ClientSockets, TakesARenewedAuthorityWithoutARestart) {
  test::TlsPeer before(1, kSecret);
  test::TlsPeer after(2, kSecret);
  const TempFolder folder;
  const std::string path = folder.file("authority.pem");
  const auto install = [&](const std::string& from) {
    ASSERT_TRUE(core::write_file_atomically(path, core::read_file(from, 1 << 20).value()));
  };
  install(before.certificate_path());
  const auto one_network = make_socket_network(*loop, {.ca_file = path});
  const auto one_client = HttpClient::make(*loop, *one_network);
  const RequestHead head{"GET", "/", 1, {}};
  EXPECT_EQ(ask(*loop, *one_client, {"localhost", before.port(), true}, head, "").body, "secret");
  install(after.certificate_path());
  EXPECT_EQ(ask(*loop, *one_client, {"localhost", after.port(), true}, head, "").body, "secret");
  one_client->forget({"localhost", after.port(), true});
  ::unlink(path.c_str());
  EXPECT_EQ(ask(*loop, *one_client, {"localhost", after.port(), true}, head, "").body, "secret")
      << "a file that has gone leaves the last good one in force";
}

TEST(TlsOptions, NamesTheFieldAndTheFileThatCannotBeUsed) {
  const test::TlsPeer peer(0, "");
  const test::TlsPeer other(0, "");
  const auto message = [](const TlsOptions& options) {
    const auto checked = check_tls_options(options);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({.ca_file = peer.certificate_path(),
                     .client_certificate_file = peer.certificate_path(),
                     .client_key_file = peer.key_path()}),
            "");
  EXPECT_THAT(message({.ca_file = "/no/such.pem"}), testing::StartsWith("ca_file: cannot use"));
  EXPECT_THAT(message({.ca_file = peer.key_path()}), testing::HasSubstr("ca_file"));
  EXPECT_THAT(message({.client_certificate_file = peer.certificate_path()}),
              testing::HasSubstr("belong together"));
  EXPECT_THAT(message({.client_certificate_file = peer.certificate_path(),
                       .client_key_file = other.key_path()}),
              testing::StartsWith("client_key_file"))
      << "the key of another certificate";
}

TEST(TlsOptions, RefusesAPipeInsteadOfWaitingForItsWriter) {
  const test::TlsPeer peer(0, "");
  const TempFolder folder;
  const std::string pipe = folder.file("pipe.pem");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const auto& [field, options] : std::vector<std::pair<std::string, TlsOptions>>{
           {"ca_file", {.ca_file = pipe}},
           {"client_certificate_file",
            {.client_certificate_file = pipe, .client_key_file = peer.key_path()}},
           {"client_key_file",
            {.client_certificate_file = peer.certificate_path(), .client_key_file = pipe}}}) {
    const auto checked = check_tls_options(options);
    ASSERT_FALSE(checked) << field;
    EXPECT_EQ(checked.error().message, field + ": \"" + pipe + "\" is no regular file; name one");
  }
}

TEST_F(ClientSockets, AServerOutOfDescriptorsPausesAndRecovers) {
  auto server =
      HttpServer::listen(*loop, *network, kLoopback, {}, [](std::shared_ptr<Exchange> exchange) {
        exchange->respond({200, "", {}}, "ok");
      }).value();
  // The client's socket exists before the descriptors run out; the server's must be made
  // afterwards.
  const int raw = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server->local().port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(raw, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_GT(::send(raw, request.data(), request.size(), 0), 0);

  rlimit saved{};
  ::getrlimit(RLIMIT_NOFILE, &saved);
  const rlimit none{static_cast<rlim_t>(raw) + 1, saved.rlim_max};
  std::vector<int> fillers;
  for (int fd = ::dup(0); fd >= 0 && fd <= raw; fd = ::dup(0)) fillers.push_back(fd);
  ::setrlimit(RLIMIT_NOFILE, &none);
  auto timer = loop->after(150ms, [&] { loop->stop(); });
  loop->run();
  EXPECT_EQ(server->connections(), 0U);
  ::setrlimit(RLIMIT_NOFILE, &saved);
  for (const int fd : fillers) ::close(fd);
  timer = loop->after(300ms, [&] { loop->stop(); });
  loop->run();
  EXPECT_EQ(server->connections(), 1U);
  char buffer[100];
  EXPECT_GT(::recv(raw, buffer, sizeof buffer, MSG_DONTWAIT), 0);
  ::close(raw);
}

}  // namespace
}  // namespace tailrace::net
