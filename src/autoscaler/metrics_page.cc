#include "autoscaler/metrics_page.h"

#include <prometheus/text_serializer.h>

#include <limits>
#include <sstream>

#include "tailrace/autoscaler/metrics_output.h"
#include "tailrace/core/text.h"

namespace tailrace::autoscaler {

Page::Page() : families_(static_cast<std::size_t>(SeriesId::kCount)) {
  const auto catalogue = series_catalogue();
  for (std::size_t i = 0; i < families_.size(); ++i) {
    families_[i].name = std::string(catalogue[i].name);
    families_[i].help = std::string(catalogue[i].help);
    families_[i].type = catalogue[i].type == "counter"     ? prometheus::MetricType::Counter
                        : catalogue[i].type == "histogram" ? prometheus::MetricType::Histogram
                                                           : prometheus::MetricType::Gauge;
  }
}

prometheus::ClientMetric& Page::add(SeriesId id, Labels labels) {
  for (auto& label : labels) label.value = core::valid_utf8(label.value);
  auto& metric = families_[static_cast<std::size_t>(id)].metric.emplace_back();
  metric.label = std::move(labels);
  return metric;
}

std::string Page::text() const {
  std::vector<prometheus::MetricFamily> shown;
  for (const auto& family : families_) {
    if (!family.metric.empty()) shown.push_back(family);
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, shown);
  return std::move(out).str();
}

void Histogram::observe(double value) {
  for (std::size_t i = 0; i < bounds_.size(); ++i) counts_[i] += value <= bounds_[i] ? 1 : 0;
  ++count_;
  sum_ += value;
}

void Histogram::show(prometheus::ClientMetric& metric) const {
  metric.histogram.sample_count = count_;
  metric.histogram.sample_sum = sum_;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    metric.histogram.bucket.push_back({counts_[i], bounds_[i]});
  }
  metric.histogram.bucket.push_back({count_, std::numeric_limits<double>::infinity()});
}

std::string word(std::string_view text) {
  std::string made(text);
  std::replace_if(made.begin(), made.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
  return made;
}

}  // namespace tailrace::autoscaler
