// What does a program export, told once for those who write it and for those who read of it?
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tailrace::core {

/// A family of series.
struct MetricInfo {
  std::string_view name;
  std::string_view type;    ///< "counter", "gauge", "histogram"
  std::string_view labels;  ///< "model, outcome, status"; "" for none
  std::string_view help;
};

/// A table in Markdown, a row for each.
std::string metric_table(std::span<const MetricInfo> catalogue);

}  // namespace tailrace::core
