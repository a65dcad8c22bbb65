// Whatever clients, engines and operators do, in whatever order: nothing leaks and the gateway
// serves on.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "gateway/support/world.h"

namespace tailrace::gateway {
namespace {

using namespace testing;

/// Answers by the seed: promptly, late, in pieces, broken, busy, or never.
void misbehave(EngineRequest& request, Rng& rng) {
  const bool streams = request.body.find("\"stream\":true") != std::string::npos;
  switch (rng.below(10)) {
    case 0:
      return request.exchange->abort();
    case 1:
      return request.status(503, {{"retry-after", "1"}});
    case 2:
      return request.status(429);
    case 3:
      return request.status(400);
    case 4:
      return;  // never
    case 5:
      request.begin_events();
      return;  // a head and no more
    case 6:
      request.begin_events();
      request.event("x");
      return request.exchange->abort();
    case 7:
      request.begin_events();
      request.event("x");
      return;  // stalls
    default:
      if (!streams) return request.whole(static_cast<int>(rng.below(100)));
      request.begin_events();
      for (std::uint64_t i = rng.below(20); i > 0; --i) request.event("x");
      request.usage(7);
      return request.done();
  }
}

RC_GTEST_PROP(GatewayLeaks, EverySlotAndConnectionComesBackAfterRandomFaults, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  Rng rng(seed);
  World world(seed);
  world.config.timeouts.first_byte = seconds(3);
  world.config.timeouts.idle = seconds(3);
  world.config.timeouts.queue = seconds(10);
  world.config.dispatch.queued_jobs_max = 20;
  net::SimLink link;
  link.jitter = milliseconds(2);
  link.random_read_bytes_max = 200;
  world.network.set_link(link);
  std::vector<Engine*> engines;
  for (const char* name : {"a", "b"}) {
    engines.push_back(&world.add_engine(name, 1 + static_cast<int>(rng.below(3))));
    engines.back()->script([&rng](EngineRequest& request) { misbehave(request, rng); });
  }
  world.start();

  std::vector<std::shared_ptr<Reply>> replies;
  for (int step = 0; step < 60; ++step) {
    switch (rng.below(8)) {
      case 0:
        if (!replies.empty()) replies[rng.below(replies.size())]->leave();
        break;
      case 1: {
        const auto& connections = world.network.connections();
        if (connections.empty()) break;
        const auto& connection = connections[rng.below(connections.size())];
        // A cable that is cut towards an engine is found by the time-outs; one towards a client
        // that only waits cannot be, so that is a reset.
        const bool to_engine = connection->to() != world.config.listen;
        to_engine&& rng.below(2) == 0 ? connection->freeze() : connection->reset();
        break;
      }
      case 2: {
        Engine& engine = *engines[rng.below(engines.size())];
        engine.kill();
        world.run(milliseconds(static_cast<std::int64_t>(rng.below(300))));
        engine.start();
        break;
      }
      case 3:
        replies.push_back(world.chat(",\"n\":2"));
        break;
      case 4:
        replies.push_back(
            world.send("POST", "/v1/embeddings", "{\"model\":\"m\",\"input\":\"x\"}"));
        break;
      default:
        replies.push_back(rng.below(2) == 0 ? world.chat() : world.stream());
    }
    world.run(milliseconds(static_cast<std::int64_t>(rng.below(400))));
  }
  // Every time-out has passed: nothing may be left, and every client that stayed has an end.
  world.run(seconds(120));
  RC_ASSERT(world.idle());
  for (const auto& reply : replies) {
    RC_ASSERT(!reply->call || reply->ended || reply->error.has_value());
  }
  for (const auto& view : world.gateway->dispatcher().backends()) RC_ASSERT(view.running == 0);

  for (Engine* engine : engines) engine->script([](EngineRequest& request) { request.whole(1); });
  world.run(seconds(60));
  for (int i = 0; i < 4; ++i) {
    const auto reply = world.chat();
    world.run(seconds(5));
    RC_ASSERT(reply->status() == 200);
  }
  replies.clear();
  world.stop();
  world.run(seconds(120));
  for (const auto& connection : world.network.connections()) {
    if (connection->to() == world.config.listen) RC_ASSERT(!connection->server_open());
  }
}

}  // namespace
}  // namespace tailrace::gateway
