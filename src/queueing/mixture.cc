#include "queueing/mixture.h"

#include <algorithm>
#include <array>
#include <cstddef>

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

// The distribution function is straight between the ends of parts. Cells of equal width, with what
// begins and ends in each of them, give it at their edges.
class UniformMixture::Cells {
 public:
  /// As many as `ends` are worth.
  Cells(const Range& range, std::size_t ends)
      : range_(range),
        size_(std::clamp(ends, kCellsLeast, kCells)),
        per_cell_(static_cast<double>(size_) / (range.high - range.low)) {
    const double step = (range.high - range.low) / static_cast<double>(size_);
    for (std::size_t k = 0; k < size_; ++k) {
      edges_[k] = range.low + static_cast<double>(k) * step;
      bent_[k] = risen_[k] = 0;
    }
    edges_[size_] = range.high;
  }

  void add(const Part& part) {
    const double end = part.low + part.width;
    const std::size_t from = cell(part.low), to = cell(end);
    if (from == to) {
      if (from < size_) risen_[from] += part.weight;
      return;
    }
    const double slope = part.weight / part.width;
    turn(from, part.low, slope);
    turn(to, end, -slope);
  }

  /// The cell in which so much of the weight is reached.
  Range at(double wanted) const {
    double below = range_.below, slope = range_.slope;
    std::size_t k = 0;
    for (; k + 1 < size_; ++k) {
      const double next = below + slope * (edges_[k + 1] - edges_[k]) + risen_[k];
      if (next >= wanted) break;
      below = next;
      slope += bent_[k];
    }
    return {edges_[k], edges_[k + 1], below, slope};
  }

 private:
  /// size_ where it is none of them.
  std::size_t cell(double value) const {
    if (!(value >= range_.low && value < range_.high)) return size_;
    // Of a range too narrow for numbers, it may be infinite or none.
    const double place = (value - range_.low) * per_cell_;
    std::size_t k =
        place > 0 ? static_cast<std::size_t>(std::min(place, static_cast<double>(size_ - 1))) : 0;
    if (value < edges_[k]) --k;
    if (value >= edges_[k + 1]) ++k;
    return k;
  }
  void turn(std::size_t k, double value, double slope) {
    if (k == size_) return;
    bent_[k] += slope;
    risen_[k] += slope * (edges_[k + 1] - value);
  }

  static constexpr std::size_t kCellsLeast = 16, kCells = 256;

  Range range_;
  std::size_t size_;
  double per_cell_;
  std::array<double, kCells> bent_, risen_;
  std::array<double, kCells + 1> edges_;
};

Percentiles UniformMixture::percentiles(double mean, double floor,
                                        const WhichPercentiles& which) const {
  if (size_ == 0) return {};
  if (!(most_ - least_ > 0)) return {mean, mean, mean, mean};
  Cells cells({least_, most_, 0, 0}, size_);
  for (std::size_t i = 0; i < size_; ++i) cells.add(parts_[i]);
  floor = mean > floor && this->mean() > floor ? floor : 0;
  const double scale = this->mean() > floor ? (mean - floor) / (this->mean() - floor) : 1;
  const auto find = [&](double p) {
    const double value = quantile(p * weight_, cells.at(p * weight_));
    return floor + (value > floor ? scale : std::min(1.0, scale)) * (value - floor);
  };
  Percentiles out;
  if (which.p50) out.p50 = find(0.5);
  if (which.p90) out.p90 = std::max(out.p50, find(0.9));
  if (which.p95) out.p95 = std::max(out.p90, find(0.95));
  if (which.p99) out.p99 = std::max(out.p95, find(0.99));
  return out;
}

double UniformMixture::quantile(double wanted, Range range) const {
  // Cut again and again, until few ends are left.
  constexpr std::size_t kFew = 12;
  constexpr double kEnough = 1e-13;
  // Each cuts it to a sixteenth at least, unless numbers are too far apart there.
  constexpr int kCutsMost = 24;
  std::array<std::uint16_t, kMost> inside;
  std::size_t count = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    inside[count] = static_cast<std::uint16_t>(i);
    count += range.has_end_of(parts_[i]) ? 1 : 0;
  }
  for (int cut = 0;
       cut < kCutsMost && count > kFew && range.high - range.low > kEnough * range.high; ++cut) {
    Cells cells(range, count);
    for (std::size_t i = 0; i < count; ++i) cells.add(parts_[inside[i]]);
    range = cells.at(wanted);
    const std::size_t before = count;
    count = 0;
    for (std::size_t i = 0; i < before; ++i) {
      const std::uint16_t part = inside[i];
      inside[count] = part;
      count += range.has_end_of(parts_[part]) ? 1 : 0;
    }
  }
  struct End {
    double value, slope;
  };
  std::array<End, 2 * kFew> ends;
  std::size_t size = 0;
  const auto turn = [&](double value, double slope) {
    if (!(value >= range.low && value < range.high)) return;
    std::size_t k = size++;
    for (; k > 0 && ends[k - 1].value > value; --k) ends[k] = ends[k - 1];
    ends[k] = {value, slope};
  };
  for (std::size_t i = 0; i < std::min(count, kFew); ++i) {
    const Part& part = parts_[inside[i]];
    turn(part.low, part.weight / part.width);
    turn(part.low + part.width, -part.weight / part.width);
  }
  double value = range.low, below = range.below, slope = range.slope;
  for (std::size_t k = 0; k <= size; ++k) {
    const double next = k < size ? ends[k].value : range.high;
    const double at_next = below + slope * (next - value);
    if (at_next >= wanted && slope > 0) return std::min(next, value + (wanted - below) / slope);
    value = next;
    below = at_next;
    if (k < size) slope += ends[k].slope;
  }
  return range.high;
}

}  // namespace tailrace::queueing
