// What does relaying cost, in the gateway and in nginx? The two ends of the measurement:
//
//   relay_peer_bench upstream --ports-file FILE      an engine that emits numbered events at a
//   fixed rate relay_peer_bench streams PORT N RATE SECONDS     N streams; checks that no event is
//   lost or out of order relay_peer_bench requests PORT CONNECTIONS N     N small requests, closed
//   loop
//
// tools/bench-relay starts them with a proxy in between, and reads the proxy's CPU time and memory.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tailrace/core/text.h"
#include "tailrace/net/event_loop.h"
#include "tailrace/net/http_client.h"
#include "tailrace/net/http_server.h"

namespace {

using namespace tailrace;       // NOLINT(google-build-using-namespace)
using namespace tailrace::net;  // NOLINT(google-build-using-namespace)

constexpr std::string_view kMark = "\"content\":\"";

/// About 230 bytes, like an engine's token event; the content is the event's number.
std::string event_text(long number) {
  return fmt::format(
      "data: {{\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":"
      "\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{{\"index\":0,"
      "\"delta\":{{{}{}\"}},\"logprobs\":null,\"finish_reason\":null}}]}}\n\n",
      kMark, number);
}

long number_after(std::string_view body, std::string_view key, long otherwise) {
  const std::size_t at = body.find(key);
  if (at == std::string_view::npos) return otherwise;
  long value = otherwise;
  const char* begin = body.data() + at + key.size();
  std::from_chars(begin, body.data() + body.size(), value);
  return value;
}

/// One answer under way: an event every period until all are out.
struct Emission {
  std::shared_ptr<Exchange> exchange;
  std::unique_ptr<Timer> timer;
  Duration period;
  MonoTime next;
  long number = 0;
  long count;
};

void emit(EventLoop& loop, const std::shared_ptr<Emission>& emission) {
  if (emission->exchange->client_gone()) return;
  emission->exchange->write(event_text(emission->number++));
  if (emission->number == emission->count) {
    emission->exchange->write("data: [DONE]\n\n");
    emission->exchange->finish();
    emission->exchange.reset();
    return;
  }
  emission->next += emission->period;
  emission->timer = loop.at(emission->next, [&loop, emission] { emit(loop, emission); });
}

void answer(EventLoop& loop, const std::shared_ptr<Exchange>& exchange) {
  if (exchange->head().method == "GET") {
    exchange->respond({200, "", {{"content-type", "application/json"}}},
                      R"({"object":"list","data":[{"id":"m","object":"model"}]})");
    return;
  }
  exchange->read_body(1 << 20, [&loop, exchange](Result<std::string> body) {
    if (!body) return;
    const long count = number_after(*body, "\"events\":", 0);
    if (count <= 0) {
      std::string text =
          R"({"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,)"
          R"("message":{"role":"assistant","content":")";
      text.append(200, 'a');
      text +=
          R"("},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":50,"total_tokens":59}})";
      exchange->respond({200, "", {{"content-type", "application/json"}}}, std::move(text));
      return;
    }
    auto emission = std::make_shared<Emission>();
    emission->exchange = exchange;
    emission->period = Duration{number_after(*body, "\"period_us\":", 100'000) * 1000};
    emission->count = count;
    emission->next = loop.now();
    exchange->begin({200, "", {{"content-type", "text/event-stream"}}});
    emit(loop, emission);
  });
}

int run_upstream(const std::string& ports_file) {
  auto loop = make_event_loop();
  auto network = make_socket_network(*loop);
  ServerLimits limits;
  limits.idle_timeout = std::chrono::hours(1);
  auto server = HttpServer::listen(*loop, *network, {"127.0.0.1", 0, false}, limits,
                                   [&](std::shared_ptr<Exchange> e) { answer(*loop, e); });
  if (!server) {
    fmt::print(stderr, "{}\n", server.error().message);
    return 1;
  }
  const auto written = core::write_file_atomically(
      ports_file, fmt::format("{{\"port\":{}}}", (*server)->local().port));
  if (!written) {
    fmt::print(stderr, "{}\n", written.error().message);
    return 1;
  }
  loop->on_terminate([&](int) { loop->stop(); });
  loop->run();
  return 0;
}

RequestHead chat_request() {
  RequestHead head;
  head.method = "POST";
  head.target = "/v1/chat/completions";
  head.headers.add("content-type", "application/json");
  return head;
}

/// Follows one stream and checks the numbers of its events.
struct Reader {
  std::unique_ptr<Call> call;
  std::string pending;
  long expected = 0;
  bool done = false;
  std::string fault;

  void take(std::string_view bytes) {
    pending.append(bytes);
    std::size_t begin = 0;
    for (std::size_t end; (end = pending.find("\n\n", begin)) != std::string::npos;
         begin = end + 2) {
      const std::string_view event(pending.data() + begin, end - begin);
      if (event.ends_with("[DONE]")) {
        done = true;
      } else if (number_after(event, kMark, -1) != expected++) {
        fault = "lost or reordered event";
      }
    }
    pending.erase(0, begin);
  }
};

int run_streams(std::uint16_t port, std::size_t streams, double rate, double seconds) {
  auto loop = make_event_loop();
  auto network = make_socket_network(*loop);
  auto client = HttpClient::make(*loop, *network);
  const long events = static_cast<long>(rate * seconds);
  const std::string body = fmt::format(
      R"({{"model":"m","stream":true,"max_tokens":{},"messages":[{{"role":"user","content":"go"}}],"events":{},"period_us":{}}})",
      events, events, static_cast<long>(1e6 / rate));
  const auto shared = std::make_shared<const std::string>(body);
  std::vector<Reader> readers(streams);
  std::size_t ended = 0;
  std::vector<std::unique_ptr<Timer>> starts;
  for (std::size_t i = 0; i < streams; ++i) {
    // Spread over the first second, so that events do not come in step.
    starts.push_back(
        loop->after(from_seconds(static_cast<double>(i) / static_cast<double>(streams)), [&, i] {
          Reader& reader = readers[i];
          const auto end = [&](std::string fault) {
            if (reader.fault.empty()) reader.fault = std::move(fault);
            if (++ended == streams) loop->stop();
          };
          CallHandlers handlers;
          handlers.on_head = [&reader](ResponseHead head) {
            if (head.status != 200) reader.fault = fmt::format("status {}", head.status);
          };
          handlers.on_body = [&reader](std::string_view bytes) { reader.take(bytes); };
          handlers.on_end = [end] { end(""); };
          handlers.on_error = [end](CallError error) { end(error.error.message); };
          reader.call = client->start({"127.0.0.1", port, false}, chat_request(), shared, {},
                                      std::move(handlers));
        }));
  }
  loop->run();
  std::map<std::string, int> faults;
  long received = 0;
  for (const Reader& reader : readers) {
    received += reader.expected;
    std::string fault = reader.fault;
    if (fault.empty() && (reader.expected != events || !reader.done)) fault = "stream ended early";
    if (!fault.empty()) ++faults[fault];
  }
  fmt::print("{{\"streams\":{},\"events\":{},\"expected_events\":{},\"faults\":{}}}\n", streams,
             received, static_cast<long>(streams) * events, faults.size());
  for (const auto& [fault, count] : faults) fmt::print(stderr, "{} streams: {}\n", count, fault);
  return faults.empty() ? 0 : 1;
}

struct ClosedLoop {
  EventLoop& loop;
  HttpClient& client;
  Endpoint to;
  std::shared_ptr<const std::string> body;
  long left;
  long good = 0;
  std::size_t active;
  std::vector<std::unique_ptr<Call>> calls;

  void start(std::size_t i) {
    if (left-- <= 0) {
      if (--active == 0) loop.stop();
      return;
    }
    CallHandlers handlers;
    handlers.on_head = [this](ResponseHead head) { good += head.status == 200 ? 1 : 0; };
    handlers.on_body = [](std::string_view) {};
    handlers.on_end = [this, i] { start(i); };
    handlers.on_error = [this, i](CallError) { start(i); };
    // The call that just ended is replaced after its handler has returned.
    loop.post([this, i, handlers = std::make_shared<CallHandlers>(std::move(handlers))] {
      calls[i] = client.start(to, chat_request(), body, {}, std::move(*handlers));
    });
  }
};

int run_requests(std::uint16_t port, std::size_t connections, long count) {
  auto loop = make_event_loop();
  auto network = make_socket_network(*loop);
  auto client = HttpClient::make(*loop, *network);
  std::string text(400, 'w');
  const auto body = std::make_shared<const std::string>(fmt::format(
      R"({{"model":"m","max_tokens":50,"messages":[{{"role":"user","content":"{}"}}]}})", text));
  ClosedLoop state{*loop, *client, {"127.0.0.1", port, false}, body, count, 0, connections, {}};
  state.calls.resize(connections);
  const MonoTime began = loop->now();
  for (std::size_t i = 0; i < connections; ++i) state.start(i);
  loop->run();
  const double seconds = to_seconds(loop->now() - began);
  fmt::print("{{\"requests\":{},\"good\":{},\"seconds\":{:.3f}}}\n", count, state.good, seconds);
  return state.good == count ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) {
    return i < argc ? core::parse_double(argv[i]).value_or(-1) : -1.0;
  };
  if (mode == "upstream" && argc == 4 && std::strcmp(argv[2], "--ports-file") == 0)
    return run_upstream(argv[3]);
  if (mode == "streams" && argc == 6 && number(3) > 0 && number(4) > 0 && number(5) > 0) {
    return run_streams(static_cast<std::uint16_t>(number(2)), static_cast<std::size_t>(number(3)),
                       number(4), number(5));
  }
  if (mode == "requests" && argc == 5 && number(3) > 0 && number(4) > 0) {
    return run_requests(static_cast<std::uint16_t>(number(2)), static_cast<std::size_t>(number(3)),
                        static_cast<long>(number(4)));
  }
  fmt::print(stderr,
             "usage: relay_peer_bench upstream --ports-file FILE | streams PORT N RATE SECONDS | "
             "requests PORT CONNECTIONS N\n");
  return 2;
}
