// What does a Prometheus server say to this expression?
//
// A client of /api/v1/query and /api/v1/query_range. Failures that may pass (no connection, 5xx,
// 429, a cut answer) are tried again after growing pauses, all within one time-out; a query that
// the server calls wrong is not. The bearer token is read anew for every attempt, so that a mounted
// one may be renewed, and stands in no error. Loop thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/net/http_client.h"
#include "tailrace/observe/prometheus_answer.h"

namespace tailrace::observe {

struct PrometheusConfig {
  net::Url url;  ///< as far as "/api/v1/…" begins: http://prometheus:9090, https://host/prefix
  /// Where the bearer token is: a file, or an environment variable's name. At most one.
  std::string bearer_token_file, bearer_token_env;
  std::vector<net::Header> headers;  ///< for every request: "X-Scope-OrgID" and the like
  Duration query_timeout = std::chrono::seconds(5);   ///< one attempt, from connect to last byte
  Duration total_timeout = std::chrono::seconds(10);  ///< all attempts with their pauses
  int attempts_max = 4;
  Duration pause_first = std::chrono::milliseconds(250);  ///< doubles from attempt to attempt
  std::size_t answer_bytes_max = std::size_t{64} << 20;
  PrometheusAnswerLimits limits;
};
/// Errors: kInvalidArgument naming the field.
Result<void> check(const PrometheusConfig& config);

/// A query under way. Destroying it cancels: its `done` then never runs.
class PrometheusQuery {
 public:
  virtual ~PrometheusQuery() = default;
};

class PrometheusApi {
 public:
  /// Runs once, never inside the call that asked, and may destroy the query. Errors: those of
  /// parse_prometheus_answer and of net::ask_whole; kInvalidArgument for what another attempt
  /// cannot heal (4xx, no token).
  using Done = UniqueFunction<void(Result<PrometheusAnswer>)>;

  /// `config` has passed check(). Loop and network must outlive it, and it the queries.
  PrometheusApi(net::EventLoop& loop, net::Network& network, PrometheusConfig config);
  PrometheusApi(const PrometheusApi&) = delete;
  PrometheusApi& operator=(const PrometheusApi&) = delete;
  ~PrometheusApi();

  /// At `time_s` (Unix seconds), or when the server's own clock says now.
  [[nodiscard]] std::unique_ptr<PrometheusQuery> query(std::string_view expression,
                                                       std::optional<double> time_s, Done done);
  /// Every `step_s` from `from_s` to `to_s`, both included.
  [[nodiscard]] std::unique_ptr<PrometheusQuery> query_range(std::string_view expression,
                                                             double from_s, double to_s,
                                                             double step_s, Done done);

  const PrometheusConfig& config() const;

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tailrace::observe
