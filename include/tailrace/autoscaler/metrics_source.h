// Which metrics source do the settings ask for?
//
// From the sections `prometheus` and `scrape` to an observe::Source that is ready to fetch, with a
// network of its own, since its TLS settings are nobody else's.
#pragma once

#include <memory>

#include "tailrace/autoscaler/config.h"
#include "tailrace/observe/prometheus_source.h"
#include "tailrace/observe/source.h"

namespace tailrace::autoscaler {

/// Errors: kInvalidArgument with the path of the key.
Result<observe::PrometheusSourceConfig> prometheus_source_config(const PrometheusConfig& config);

/// The loop must outlive the source. Errors: kInvalidArgument with the path of the key: files that
/// cannot be used, headers that are none.
Result<std::unique_ptr<observe::Source>> make_metrics_source(net::EventLoop& loop,
                                                             const Config& config);

}  // namespace tailrace::autoscaler
