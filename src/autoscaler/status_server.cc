#include "autoscaler/status_server.h"

#include <utility>

namespace tailrace::autoscaler {
namespace {

constexpr std::size_t kConnectionsMax = 256;
/// Probes and scrapers ask at once; whoever does not must not take a probe's place for long.
constexpr Duration kHeadTimeout = std::chrono::seconds(2), kIdleTimeout = std::chrono::seconds(5);
constexpr Duration kWriteTimeout = std::chrono::seconds(5);

void respond(net::Exchange& exchange, int status, std::string type, std::string body) {
  net::ResponseHead head;
  head.status = status;
  head.headers.add("content-type", std::move(type));
  if (status == 405) head.headers.add("allow", "GET");
  exchange.respond(std::move(head), std::move(body));
}

void say(net::Exchange& exchange, const std::string& trouble) {
  respond(exchange, trouble.empty() ? 200 : 503, "text/plain; charset=utf-8",
          trouble.empty() ? "ok\n" : trouble + "\n");
}

void answer(net::Exchange& exchange, const StatusPages& pages) {
  const std::string path(exchange.head().path());
  if (exchange.head().method != "GET") {
    return respond(exchange, 405, "text/plain; charset=utf-8", "only GET\n");
  }
  if (path == "/healthz") return say(exchange, pages.unhealthy());
  if (path == "/readyz") return say(exchange, pages.unready());
  if (path == "/metrics") {
    return respond(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", pages.metrics());
  }
  if (path == "/tailrace/v1/decisions") {
    auto document = pages.decisions();
    if (document.empty()) return say(exchange, "no cycle has ended yet");
    return respond(exchange, 200, "application/json", std::move(document) + "\n");
  }
  respond(exchange, 404, "text/plain; charset=utf-8",
          "try /metrics, /healthz, /readyz or /tailrace/v1/decisions\n");
}

}  // namespace

Result<std::unique_ptr<net::HttpServer>> serve_status(net::EventLoop& loop, net::Network& network,
                                                      const net::Endpoint& at, StatusPages pages) {
  net::ServerLimits limits;
  limits.connections_max = kConnectionsMax;
  limits.head_timeout = kHeadTimeout;
  limits.idle_timeout = kIdleTimeout;
  limits.write_timeout = kWriteTimeout;
  return net::HttpServer::listen(
      loop, network, at, limits,
      [pages = std::move(pages)](const std::shared_ptr<net::Exchange>& exchange) {
        answer(*exchange, pages);
      });
}

}  // namespace tailrace::autoscaler
