#include "tailrace/core/metric_catalogue.h"

#include <fmt/format.h>

namespace tailrace::core {

std::string metric_table(std::span<const MetricInfo> catalogue) {
  std::string text = "| name | type | labels | meaning |\n|---|---|---|---|\n";
  for (const MetricInfo& metric : catalogue) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", metric.name, metric.type,
                        metric.labels.empty() ? "–" : metric.labels, metric.help);
  }
  return text;
}

}  // namespace tailrace::core
