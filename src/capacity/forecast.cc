#include "tailrace/capacity/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tailrace::capacity {
namespace {

constexpr std::size_t kSamplesMax = 16;
constexpr std::size_t kSamplesMin = 3;  ///< of a line
constexpr double kMemorySeconds = 240;  ///< a trend is no older
constexpr double kGapSeconds = 300;     ///< after it everything begins anew
constexpr double kRateMax = 1e9, kWindowMax = 86'400;
/// A cycle counts for no more than so many times the largest of the last ones.
constexpr double kOutlierFactor = 4;
constexpr std::size_t kOutlierSamples = 4;
/// A line that its newest sample, or its newest two together, leave by more is not theirs.
constexpr double kOffMax = 2.5;
/// A slope of fewer standard errors is chance.
constexpr double kSlopeMin = 2;
/// Nobody foresees more than this times what there is.
constexpr double kGrowthMax = 2;

/// Of a count: what none at all may have been by chance is one.
double variance_of(double rate, double length_s) {
  return std::max(rate, 1 / length_s) / length_s;
}

}  // namespace

void DemandHistory::add(double now_s, const Arrivals& arrivals) {
  if (!(arrivals.per_s >= 0 && arrivals.per_s <= kRateMax)) return;
  if (!(arrivals.window_s > 0 && arrivals.window_s <= kWindowMax)) return;
  if (!memory_.samples.empty() && !(now_s > memory_.now_s)) return;
  if (!memory_.samples.empty() && now_s - memory_.now_s > kGapSeconds) memory_.samples.clear();
  const double since_s = memory_.samples.empty() ? arrivals.window_s : now_s - memory_.now_s;
  Sample sample{now_s - arrivals.window_s / 2, arrivals.per_s,
                std::min(arrivals.window_s, since_s)};
  memory_.cut.clear();
  if (!memory_.samples.empty()) {
    double largest = 0;
    for (std::size_t i = memory_.samples.size() - std::min(memory_.samples.size(), kOutlierSamples);
         i < memory_.samples.size(); ++i) {
      largest = std::max(largest, memory_.samples[i].rate);
    }
    const double most = kOutlierFactor * std::max(largest, 1 / sample.length_s) +
                        3 * std::sqrt(variance_of(largest, sample.length_s));
    if (sample.rate > most) {
      memory_.cut = fmt::format(
          "{:.4g} requests/s arrived, {:.3g} times as many as lately: counted as {:.4g} until it "
          "shows again",
          sample.rate, sample.rate / std::max(largest, 1e-9), most);
      sample.rate = most;
    }
  }
  memory_.now_s = now_s;
  memory_.samples.push_back(sample);
  while (memory_.samples.size() > kSamplesMax ||
         (memory_.samples.size() > 1 && memory_.samples.front().at_s < now_s - kMemorySeconds)) {
    memory_.samples.pop_front();
  }
}

std::optional<DemandHistory::Line> DemandHistory::line_through(std::size_t samples) const {
  const auto first = memory_.samples.end() - static_cast<std::ptrdiff_t>(samples);
  double length = 0, time = 0, requests = 0;
  for (auto s = first; s != memory_.samples.end(); ++s) {
    length += s->length_s;
    time += s->length_s * s->at_s;
    requests += s->length_s * s->rate;
  }
  Line line;
  line.at_s = time / length;
  line.rate = requests / length;
  double squares = 0, cross = 0;
  for (auto s = first; s != memory_.samples.end(); ++s) {
    const double off_s = s->at_s - line.at_s;
    squares += s->length_s * off_s * off_s;
    cross += s->length_s * off_s * s->rate;
  }
  if (!(squares > 0)) return std::nullopt;
  line.slope = cross / squares;
  // What is left, in standard deviations of counts.
  double chi_square = 0;
  std::deque<double> last;
  for (auto s = first; s != memory_.samples.end(); ++s) {
    const double expected = std::max(0.0, line.rate + line.slope * (s->at_s - line.at_s));
    const double off = (s->rate - expected) / std::sqrt(variance_of(expected, s->length_s));
    chi_square += off * off;
    last.push_back(off);
    if (last.size() > 2) last.pop_front();
  }
  const double both = (last.front() + last.back()) / std::sqrt(2.0);
  if (std::abs(both) > kOffMax || std::abs(last.back()) > kOffMax + 0.5) return std::nullopt;
  // Arrivals in bursts vary by more than chance.
  const double spread = std::max(1.0, chi_square / static_cast<double>(samples - 2));
  line.rate_variance = spread * variance_of(line.rate, length);
  line.slope_variance = spread * std::max(line.rate, 1 / length) / squares;
  return line;
}

DemandHistory::Line DemandHistory::line() const {
  for (std::size_t n = memory_.samples.size(); n >= kSamplesMin; --n) {
    if (const auto found = line_through(n)) return *found;
  }
  // The newest alone: a step, or the beginning.
  const Sample& last = memory_.samples.back();
  Line line;
  line.at_s = last.at_s;
  line.rate = last.rate;
  line.rate_variance = variance_of(last.rate, last.length_s);
  return line;
}

std::optional<Forecast> DemandHistory::ahead(double horizon_s, double margin_sd) const {
  if (memory_.samples.empty()) return std::nullopt;
  Line line = this->line();
  // The part of the slope that is not chance.
  double kept = 0;
  if (line.slope != 0) {
    kept =
        std::max(0.0, 1 - kSlopeMin * kSlopeMin * line.slope_variance / (line.slope * line.slope));
  }
  Forecast out;
  // A replica ordered now has been there for a cycle when the next order can be.
  out.horizon_s = horizon_s + memory_.samples.back().length_s;
  const double far_s = memory_.now_s + out.horizon_s - line.at_s;
  out.now = std::max(0.0, line.rate + kept * line.slope * (memory_.now_s - line.at_s));
  out.ahead = std::max(0.0, line.rate + kept * line.slope * far_s);
  out.note = memory_.cut;
  if (out.ahead > kGrowthMax * out.now) {
    out.note += fmt::format("{}{:.4g} requests/s foreseen, bounded to {:g} times the present",
                            out.note.empty() ? "" : "; ", out.ahead, kGrowthMax);
    out.ahead = kGrowthMax * out.now;
  }
  out.sd = std::sqrt(line.rate_variance + kept * far_s * far_s * line.slope_variance);
  out.demand = std::max(out.now, out.ahead) + margin_sd * out.sd;
  return out;
}

}  // namespace tailrace::capacity
