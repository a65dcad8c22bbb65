#include "tailrace/autoscaler/metrics_source.h"

#include "tailrace/core/text.h"
#include "tailrace/observe/scrape_source.h"

namespace tailrace::autoscaler {
namespace {

net::TlsOptions tls_options(const PrometheusConfig& config) {
  return {.ca_file = config.ca_file,
          .client_certificate_file = config.client_certificate_file,
          .client_key_file = config.client_key_file,
          .insecure_skip_verify = config.insecure_skip_verify};
}

/// A source with the network that it alone speaks through.
class OwningSource final : public observe::Source {
 public:
  OwningSource(std::unique_ptr<net::Network> network, std::unique_ptr<observe::Source> source)
      : network_(std::move(network)), source_(std::move(source)) {}

  void fetch(double now_s, const observe::Wanted& wanted,
             UniqueFunction<void(observe::Fetched)> done) override {
    source_->fetch(now_s, wanted, std::move(done));
  }

 private:
  std::unique_ptr<net::Network> network_;
  std::unique_ptr<observe::Source> source_;
};

}  // namespace

Result<observe::PrometheusSourceConfig> prometheus_source_config(const PrometheusConfig& config) {
  observe::PrometheusSourceConfig out;
  out.server.url = config.url;
  out.server.bearer_token_file = config.token_file;
  out.server.bearer_token_env = config.token_env;
  out.server.total_timeout = config.timeout;
  out.server.query_timeout = std::min(config.timeout, out.server.query_timeout);
  out.matchers = config.matchers;
  for (const std::string& header : config.headers) {
    const std::size_t colon = header.find(':');
    if (colon == std::string::npos) {
      // The text is not shown: it may be a key.
      return fail(ErrorCode::kInvalidArgument,
                  "prometheus.headers: a header has no colon; write \"X-Scope-OrgID: team\"");
    }
    out.server.headers.push_back({std::string(core::trim(header.substr(0, colon))),
                                  std::string(core::trim(header.substr(colon + 1)))});
  }
  if (const auto checked = observe::check(out.server); !checked) {
    return fail(checked.error().with_context("prometheus"));
  }
  return out;
}

Result<std::unique_ptr<observe::Source>> make_metrics_source(net::EventLoop& loop,
                                                             const Config& config) {
  if (config.source == SourceKind::kScrape) {
    auto network = net::make_socket_network(loop);
    observe::ScrapeConfig scrape;
    scrape.target_timeout = config.scrape_timeout;
    scrape.total_timeout = 2 * config.scrape_timeout;
    auto source = std::make_unique<observe::ScrapeSource>(loop, *network, scrape);
    return std::make_unique<OwningSource>(std::move(network), std::move(source));
  }
  auto server = prometheus_source_config(config.prometheus);
  if (!server) return fail(server.error());
  const net::TlsOptions tls = tls_options(config.prometheus);
  if (const auto usable = net::check_tls_options(tls); !usable) {
    return fail(usable.error().with_context("prometheus"));
  }
  auto network = net::make_socket_network(loop, tls);
  auto source = std::make_unique<observe::PrometheusSource>(loop, *network, std::move(*server));
  return std::make_unique<OwningSource>(std::move(network), std::move(source));
}

}  // namespace tailrace::autoscaler
