// What may the parts of a gateway reach of each other?
//
// References to everything that lives as long as the gateway, and the two calls back into it.
// Passed to each request; owned by Gateway. Loop thread only.
#pragma once

#include <cstdint>

#include "gateway/backends.h"
#include "gateway/body_reader.h"
#include "gateway/health.h"
#include "gateway/history.h"
#include "gateway/metrics.h"
#include "tailrace/core/unique_function.h"
#include "tailrace/dispatch/dispatcher.h"
#include "tailrace/gateway/config.h"
#include "tailrace/gateway/prediction_runner.h"
#include "tailrace/net/event_loop.h"
#include "tailrace/net/http_client.h"

namespace tailrace::gateway {

struct Context {
  const Config& config;
  net::EventLoop& loop;
  net::HttpClient& client;
  dispatch::Dispatcher& dispatcher;
  Backends& backends;
  HealthChecker& health;
  Metrics& metrics;
  BodyReader& big_bodies;
  History& history;
  PredictionRunner* prediction = nullptr;  ///< null where predict.mode is off

  bool draining = false;
  std::size_t relayed_bytes = 0;  ///< bodies of the requests that are relayed without a queue

  UniqueFunction<void()> pump =
      nullptr;  ///< gives free slots to waiting jobs; safe from any handler
  UniqueFunction<void(JobId)> forget =
      nullptr;  ///< the request has ended; drops the gateway's reference
  UniqueFunction<void(bool calibrated)> saw_prediction = nullptr;
};

}  // namespace tailrace::gateway
