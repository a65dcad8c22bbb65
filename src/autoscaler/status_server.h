// What does a running autoscaler answer over HTTP?
//
// GET /healthz, /readyz, /metrics and /tailrace/v1/decisions (the latest cycle as JSON). Nothing
// that changes anything. Loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tailrace/net/event_loop.h"
#include "tailrace/net/http_server.h"

namespace tailrace::autoscaler {

struct StatusPages {
  std::function<std::string()> unhealthy;  ///< "": it is well
  std::function<std::string()> unready;    ///< "": it is ready
  std::function<std::string()> metrics;    ///< Prometheus' text format
  std::function<std::string()> decisions;  ///< JSON; "": there is no cycle yet
};

/// Errors: kUnavailable, the address is in use.
Result<std::unique_ptr<net::HttpServer>> serve_status(net::EventLoop& loop, net::Network& network,
                                                      const net::Endpoint& at, StatusPages pages);

}  // namespace tailrace::autoscaler
