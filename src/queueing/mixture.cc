#include "queueing/mixture.h"

#include <cmath>

namespace tailrace::queueing {

void UniformMixture::add(double low, double width, double weight) {
  constexpr double kLeastWeight = 1e-7;
  if (!(weight > kLeastWeight) || size_ == kMost) return;
  // A point is a narrow interval, so that the distribution is continuous.
  const double wide = std::max(width, 1e-6 * low + 1e-12);
  least_ = size_ == 0 ? low : std::min(least_, low);
  most_ = size_ == 0 ? low + wide : std::max(most_, low + wide);
  parts_[size_++] = {low, wide, weight};
  weight_ += weight;
  sum_ += weight * (low + wide / 2);
}

Percentiles UniformMixture::percentiles(double mean, double floor,
                                        const WhichPercentiles& which) const {
  if (size_ == 0) return {};
  // Slopes of the distribution function change where parts begin and end: summed twice over a
  // grid they give it, smoothed by a cell. The exact value is then near.
  std::array<double, kCells + 2> grid{};
  const double step = (most_ - least_) / static_cast<double>(kCells);
  if (!(step > 0)) return {mean, mean, mean, mean};
  const double per_cell = 1 / step;
  const auto turn = [&](double value, double slope) {
    const double at = std::clamp((value - least_) * per_cell, 0.0, static_cast<double>(kCells));
    const auto cell = static_cast<std::size_t>(at);
    const double part = at - static_cast<double>(cell);
    grid[cell] += slope * (1 - part);
    grid[cell + 1] += slope * part;
  };
  for (std::size_t i = 0; i < size_; ++i) {
    const double slope = parts_[i].weight / weight_ / parts_[i].width * step;
    turn(parts_[i].low, slope);
    turn(parts_[i].low + parts_[i].width, -slope);
  }
  double slope = 0, sum = 0;
  for (double& value : grid) {
    sum += slope;
    slope += value;
    value = sum;
  }
  floor = mean > floor && this->mean() > floor ? floor : 0;
  const double scale = this->mean() > floor ? (mean - floor) / (this->mean() - floor) : 1;
  const auto find = [&](double p) {
    const auto at =
        static_cast<double>(std::lower_bound(grid.begin(), grid.end() - 1, p) - grid.begin());
    const double value = quantile(p, std::max(least_, least_ + (at - 2) * step),
                                  std::min(most_, least_ + (at + 1) * step));
    return floor + (value > floor ? scale : std::min(1.0, scale)) * (value - floor);
  };
  Percentiles out;
  if (which.p50) out.p50 = find(0.5);
  if (which.p90) out.p90 = std::max(out.p50, find(0.9));
  if (which.p95) out.p95 = std::max(out.p90, find(0.95));
  if (which.p99) out.p99 = std::max(out.p95, find(0.99));
  return out;
}

double UniformMixture::quantile(double p, double low, double high) const {
  // What begins or ends within the bracket is looked at one by one; what lies below it counts
  // whole, and what reaches beyond both ends is a straight line.
  std::array<std::uint16_t, kMost> inside;
  std::size_t count = 0;
  double line = 0, slope = 0, whole_at_high = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    const Part& part = parts_[i];
    const double end = part.low + part.width;
    if (end <= low) {
      line += part.weight;
      whole_at_high += part.weight;
    } else if (part.low < high) {
      const double density = part.weight / part.width;
      if (part.low <= low && end >= high) {
        line += (low - part.low) * density;
        slope += density;
        whole_at_high += (high - part.low) * density;
      } else {
        inside[count++] = static_cast<std::uint16_t>(i);
        whole_at_high += std::min(part.weight, (high - part.low) * density);
      }
    }
  }
  const double wanted = p * weight_;
  const double origin = low;
  const auto below = [&](double value) {
    double sum = line + slope * (value - origin);
    for (std::size_t i = 0; i < count; ++i) {
      const Part& part = parts_[inside[i]];
      sum += part.weight * std::clamp((value - part.low) / part.width, 0.0, 1.0);
    }
    return sum;
  };
  if ((low > least_ && below(low) > wanted) || (high < most_ && whole_at_high < wanted)) {
    return quantile(p, least_, most_);
  }
  // Linear in pieces: secants, and a bisection after each that does not halve the bracket.
  constexpr int kSteps = 60;
  constexpr double kEnough = 1e-11;
  double f_low = below(low) - wanted, f_high = below(high) - wanted;
  bool bisect = false;
  for (int i = 0; i < kSteps && high - low > kEnough * high; ++i) {
    const double width = high - low;
    const double secant = low - f_low * width / (f_high - f_low);
    const bool usable = !bisect && f_high > f_low && secant > low && secant < high;
    const double middle = usable ? secant : low + width / 2;
    const double f = below(middle) - wanted;
    if (std::abs(f) < kEnough * weight_) return middle;
    if (f < 0) {
      low = middle;
      f_low = f;
    } else {
      high = middle;
      f_high = f;
    }
    bisect = usable && high - low > width / 2;
  }
  return 0.5 * (low + high);
}

}  // namespace tailrace::queueing
