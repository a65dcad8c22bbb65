// What does one relayed server-sent event cost the thread that relays it?
//
// Three threads over loopback sockets: an upstream that sends one 230-byte event per stream and
// tick, a relay built from HttpClient and HttpServer, and a client that counts. The time shown is
// the relay thread's CPU time per event; events_per_read near 1 says that events were not merged on
// the way. The benchmark fails if an event was lost.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <future>
#include <thread>

#include "tailrace/core/check.h"
#include "tailrace/net/http_client.h"
#include "tailrace/net/http_server.h"

namespace tailrace::net {
namespace {

using namespace std::chrono_literals;

const Endpoint kLoopback{"127.0.0.1", 0, false};
const std::string kEvent = "data: " + std::string(222, 'x') + "\n\n";
constexpr int kEventsPerStream = 200;
constexpr Duration kTick = 4ms;

double thread_cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Side {
  std::unique_ptr<EventLoop> loop = make_event_loop();
  std::unique_ptr<Network> network = make_socket_network(*loop);
};

/// Runs on its loop: begins when all streams are there, then one event per stream and tick.
struct Upstream : Side {
  int streams;
  int sent = 0;
  std::vector<std::shared_ptr<Exchange>> open;
  std::unique_ptr<Timer> timer;
  std::unique_ptr<HttpServer> server;

  explicit Upstream(int n) : streams(n) {
    server =
        HttpServer::listen(*loop, *network, kLoopback, {}, [this](std::shared_ptr<Exchange> e) {
          e->begin({200, "", {{"Content-Type", "text/event-stream"}}});
          open.push_back(std::move(e));
          if (static_cast<int>(open.size()) == streams) tick();
        }).value();
  }
  void tick() {
    for (const auto& exchange : open) exchange->write(kEvent);
    if (++sent < kEventsPerStream) {
      timer = loop->after(kTick, [this] { tick(); });
      return;
    }
    for (const auto& exchange : open) exchange->finish();
    open.clear();
  }
};

struct Relay : Side {
  Endpoint upstream;
  std::int64_t reads = 0;
  std::unique_ptr<HttpClient> client = HttpClient::make(*loop, *network);
  std::vector<std::unique_ptr<Call>> calls;
  std::unique_ptr<HttpServer> server;

  explicit Relay(Endpoint to) : upstream(std::move(to)) {
    server =
        HttpServer::listen(*loop, *network, kLoopback, {}, [this](std::shared_ptr<Exchange> e) {
          CallHandlers handlers;
          handlers.on_head = [e](ResponseHead head) {
            head.headers.remove_hop_by_hop();
            e->begin(std::move(head));
          };
          handlers.on_body = [this, e](std::string_view bytes) {
            ++reads;
            e->write(std::string(bytes));
          };
          handlers.on_end = [e] { e->finish(); };
          handlers.on_error = [](const CallError&) { TAILRACE_CHECK(!"upstream failed"); };
          calls.push_back(
              client->start(upstream, {"GET", "/", 1, {}}, nullptr, {}, std::move(handlers)));
        }).value();
  }
};

/// Asks for all streams and returns the bytes that came.
std::size_t consume(const Endpoint& from, int streams) {
  Side side;
  const auto client = HttpClient::make(*side.loop, *side.network);
  std::vector<std::unique_ptr<Call>> calls;
  std::size_t bytes = 0;
  int open = streams;
  for (int i = 0; i < streams; ++i) {
    CallHandlers handlers;
    handlers.on_body = [&](std::string_view piece) { bytes += piece.size(); };
    handlers.on_end = [&] {
      if (--open == 0) side.loop->stop();
    };
    calls.push_back(client->start(from, {"GET", "/", 1, {}}, nullptr, {}, std::move(handlers)));
  }
  side.loop->run();
  return bytes;
}

void relay_event(benchmark::State& state) {
  const int streams = static_cast<int>(state.range(0));
  const double events = static_cast<double>(streams) * kEventsPerStream;
  double reads = 0;
  double total = 0;
  for (auto _ : state) {
    Upstream upstream(streams);
    Relay relay(upstream.server->local());
    std::promise<double> cpu;
    std::thread upstream_thread([&] { upstream.loop->run(); });
    std::thread relay_thread([&] {
      const double before = thread_cpu_seconds();
      relay.loop->run();
      cpu.set_value(thread_cpu_seconds() - before);
    });
    const std::size_t bytes = consume(relay.server->local(), streams);
    relay.loop->stop();
    upstream.loop->stop();
    relay_thread.join();
    upstream_thread.join();
    TAILRACE_CHECK(bytes == static_cast<std::size_t>(events) * kEvent.size());
    state.SetIterationTime(cpu.get_future().get() / events);
    reads += static_cast<double>(relay.reads);
    total += events;
  }
  state.counters["events_per_read"] = total / reads;
}

BENCHMARK(relay_event)
    ->Arg(10)
    ->Arg(50)
    ->UseManualTime()
    ->Iterations(3)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tailrace::net

BENCHMARK_MAIN();
