// How does a page of metrics come together?
#pragma once

#include <prometheus/metric_family.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autoscaler/metrics_catalogue.h"

namespace tailrace::autoscaler {

using Label = prometheus::ClientMetric::Label;
using Labels = std::vector<Label>;

/// A page under construction: one family per entry of the catalogue, in its order.
class Page {
 public:
  Page();

  prometheus::ClientMetric& add(SeriesId id, Labels labels);
  /// A value that is no number is not known.
  void gauge(SeriesId id, Labels labels, std::optional<double> value) {
    if (value && std::isfinite(*value)) add(id, std::move(labels)).gauge.value = *value;
  }
  void counter(SeriesId id, Labels labels, double value) {
    add(id, std::move(labels)).counter.value = value;
  }
  std::string text() const;

 private:
  std::vector<prometheus::MetricFamily> families_;
};

/// Of durations in seconds; `bounds` outlive it.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size()) {}

  void observe(double value);
  bool empty() const { return count_ == 0; }
  void show(prometheus::ClientMetric& metric) const;

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

/// "down window" as a label's value.
std::string word(std::string_view text);

}  // namespace tailrace::autoscaler
