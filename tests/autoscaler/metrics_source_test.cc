#include "tailrace/autoscaler/metrics_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tailrace/net/http_server.h"

namespace tailrace::autoscaler {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Config with_prometheus(const PrometheusConfig& prometheus) {
  Config config;
  config.source = SourceKind::kPrometheus;
  config.prometheus = prometheus;
  return config;
}
std::string error_of(const PrometheusConfig& prometheus) {
  const auto loop = net::make_event_loop();
  const auto source = make_metrics_source(*loop, with_prometheus(prometheus));
  return source ? "" : source.error().message;
}

TEST(MetricsSource, TakesWhatTheSettingsSayOfAPrometheusServer) {
  PrometheusConfig settings;
  settings.url = {{"host", 443, true}, "/tenant"};
  settings.token_file = "/run/token";
  settings.headers = {"X-Scope-OrgID: team", "X-Key:a:b"};
  settings.matchers = "cluster=\"eu\"";
  settings.timeout = std::chrono::seconds(3);
  const auto config = prometheus_source_config(settings);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server.url.prefix, "/tenant");
  EXPECT_EQ(config->server.bearer_token_file, "/run/token");
  ASSERT_EQ(config->server.headers.size(), 2U);
  EXPECT_EQ(config->server.headers[0].value, "team");
  EXPECT_EQ(config->server.headers[1].name, "X-Key");
  EXPECT_EQ(config->server.headers[1].value, "a:b");
  EXPECT_EQ(config->server.total_timeout, std::chrono::seconds(3));
  EXPECT_EQ(config->server.query_timeout, std::chrono::seconds(3));
  EXPECT_EQ(config->matchers, "cluster=\"eu\"");
}

TEST(MetricsSource, NamesTheKeyThatCannotBeUsed) {
  EXPECT_EQ(error_of({}), "");
  PrometheusConfig settings;
  settings.headers = {"s3cr3t"};
  EXPECT_THAT(error_of(settings),
              AllOf(StartsWith("prometheus.headers"), Not(HasSubstr("s3cr3t"))));
  settings.headers = {"Bad Name: x"};
  EXPECT_THAT(error_of(settings), StartsWith("prometheus: headers"));
  settings = {};
  settings.ca_file = "/no/such.pem";
  EXPECT_THAT(error_of(settings), StartsWith("prometheus: ca_file"));
  settings = {};
  settings.client_key_file = "/no/such.key";
  EXPECT_THAT(error_of(settings), HasSubstr("belong together"));
}

TEST(MetricsSource, ReadsExportersThemselves) {
  const auto loop = net::make_event_loop();
  const auto network = net::make_socket_network(*loop);
  const auto exporter = net::HttpServer::listen(
      *loop, *network, {"127.0.0.1", 0, false}, {},
      [](const std::shared_ptr<net::Exchange>& exchange) {
        exchange->respond({200, "", {{"Content-Type", "text/plain"}}}, "x 7\n");
      });
  ASSERT_TRUE(exporter) << exporter.error().message;
  const auto source = make_metrics_source(*loop, Config{});
  ASSERT_TRUE(source) << source.error().message;
  observe::Wanted wanted;
  wanted.names = {"x"};
  wanted.targets = {{"one", {(*exporter)->local(), "/metrics"}, {}}};
  std::optional<observe::Fetched> fetched;
  (*source)->fetch(1, wanted, [&](observe::Fetched result) {
    fetched = std::move(result);
    loop->stop();
  });
  loop->run();
  ASSERT_TRUE(fetched);
  EXPECT_THAT(fetched->reached, ElementsAre("one"));
  EXPECT_EQ(fetched->series.at(0).points.at(0).value, 7);
}

}  // namespace
}  // namespace tailrace::autoscaler
