// What does a Prometheus server remember of the series that are wanted?
//
// Fetches raw points with the times at which the exporters were scraped, so that counters, restarts
// and ages are seen as they were and not as rate() and its look-back make them. A fetch is at most
// five queries, all at once: the names in up to four groups, and the server's clock, whose distance
// from ours is a problem of its own. "Now" is the server's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tailrace/observe/prometheus_api.h"
#include "tailrace/observe/source.h"

namespace tailrace::observe {

struct PrometheusSourceConfig {
  PrometheusConfig server;
  std::vector<std::string> namespaces;  ///< only series of these; empty: of every one
  /// More matchers for every selector, as PromQL has them: `cluster="eu1",job=~"vllm.*"`.
  std::string matchers;
  double clock_skew_max_s = 5;
};

/// The range selector for `names`: {__name__=~"a|b",namespace=~"llm"}[120000ms].
std::string range_selector(const std::vector<std::string>& names,
                           const PrometheusSourceConfig& config, double window_s);

class PrometheusSource final : public Source {
 public:
  /// `config.server` has passed check(). Loop and network must outlive it.
  PrometheusSource(net::EventLoop& loop, net::Network& network, PrometheusSourceConfig config);
  ~PrometheusSource() override;

  /// No series is an answer, and no failure. `wanted.targets` is not looked at.
  void fetch(double now_s, const Wanted& wanted, UniqueFunction<void(Fetched)> done) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tailrace::observe
