#include "autoscaler/status_server.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tailrace/net/http_client.h"
#include "tailrace/net/sim_network.h"

namespace tailrace::autoscaler {
namespace {

using std::chrono::seconds;

// As many as may be connected, each with more answers to come than its window takes.
TEST(StatusServer, ClientsThatAskAndNeverReadMakeRoomForProbesWithinSeconds) {
  net::SimLoop loop;
  net::SimNetwork network(loop, 1);
  network.set_link({.window_bytes = 4000});
  const net::Endpoint at{"autoscaler", 80, false};
  StatusPages pages;
  pages.unhealthy = [] { return std::string(); };
  pages.metrics = [] { return std::string(20'000, 'm'); };
  const auto server = serve_status(loop, network, at, std::move(pages)).value();
  std::vector<std::unique_ptr<net::Connecting>> connecting;
  std::vector<std::unique_ptr<net::Stream>> streams;
  for (int i = 0; i < 260; ++i) {
    connecting.push_back(network.connect(at, seconds(1), [&](auto stream) {
      if (!stream) return;
      streams.push_back(std::move(*stream));
      streams.back()->write({"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"}, [](auto) {});
    }));
  }
  loop.run_for(seconds(1));
  EXPECT_EQ(server->connections(), 256U) << "there is no room left";
  loop.run_for(seconds(8));
  EXPECT_EQ(server->connections(), 0U);

  const auto client = net::HttpClient::make(loop, network);
  int status = 0;
  net::RequestHead head;
  head.method = "GET";
  head.target = "/healthz";
  net::CallHandlers handlers;
  handlers.on_head = [&](const net::ResponseHead& answer) { status = answer.status; };
  const auto call = client->start(at, std::move(head), nullptr, {}, std::move(handlers));
  loop.run_for(seconds(1));
  EXPECT_EQ(status, 200);
}

}  // namespace
}  // namespace tailrace::autoscaler
