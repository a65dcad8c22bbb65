#include "simulate/length_tables.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <tuple>
#include <utility>

#include "tailrace/core/check.h"
#include "tailrace/length/length_law.h"

namespace tailrace::simulate {
namespace {

using length::LengthLaw;

constexpr std::size_t kRows = 16'384;
constexpr double kMost = 1e12;  // tokens; what a table holds
constexpr double kSpreadMax = 8;
constexpr int kHalvings = 40;
/// Of answers, as the formula's percentiles take them: log-t with such degrees of freedom, cut at
/// so many times their mean, up to this coefficient of variation.
constexpr double kNu = 3.5, kCutTimes = 16, kLogTCvMax = 3;

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<double> quantiles(const LengthLaw& law) {
  std::vector<double> values(kRows);
  for (std::size_t k = 0; k < kRows; ++k) {
    values[k] = law.quantile((static_cast<double>(k) + 0.5) / static_cast<double>(kRows));
  }
  return values;
}

/// As many rounded up as makes the mean.
std::vector<std::int64_t> fixed(double mean) {
  const double whole = std::floor(std::clamp(mean, 1.0, kMost));
  std::vector<std::int64_t> table(kRows, static_cast<std::int64_t>(whole));
  const auto up = static_cast<std::ptrdiff_t>(
      std::lround(std::clamp(mean - whole, 0.0, 1.0) * static_cast<double>(kRows)));
  for (auto row = table.end() - up; row != table.end(); ++row) ++*row;
  if (table.front() == table.back()) table.resize(1);
  return table;
}

std::vector<std::int64_t> rounded(const std::vector<double>& shape, double scale, double most) {
  std::vector<std::int64_t> table(shape.size());
  for (std::size_t k = 0; k < shape.size(); ++k) {
    table[k] = std::llround(std::clamp(shape[k] * scale, 1.0, std::min(most, kMost)));
  }
  return table;
}

/// `shape` in whole tokens, scaled so that the mean is `mean` after rounding and cutting.
std::vector<std::int64_t> scaled(const std::vector<double>& shape, double mean, double most) {
  if (mean <= 1) return fixed(1);
  double scale = mean / mean_of(shape);
  std::vector<std::int64_t> table;
  for (int round = 0; round < kHalvings; ++round) {
    table = rounded(shape, scale, most);
    const double now = std::accumulate(table.begin(), table.end(), 0.0,
                                       [](double sum, std::int64_t row) {
                                         return sum + static_cast<double>(row);
                                       }) /
                       static_cast<double>(table.size());
    if (std::abs(now - mean) <= 1e-4 * mean) break;
    scale *= mean / now;
  }
  return table;
}

/// Quantiles of a standard normal, or of a t law of kNu degrees of freedom.
std::vector<double> standard(bool normal) {
  std::vector<double> z =
      quantiles(normal ? *LengthLaw::log_normal(0, 1) : *LengthLaw::log_t(0, 1, kNu));
  for (double& value : z) value = std::log(value);
  return z;
}

/// exp(s · z), cut at `most_times` its mean, of which s makes that coefficient of variation. A
/// table's tail ends: its own spread is searched for, not the law's.
std::vector<double> shape_of(const std::vector<double>& z, double cv2, double most_times) {
  std::vector<double> shape(z.size());
  const auto n = static_cast<double>(z.size());
  const auto spread = [&](double s) {
    for (std::size_t k = 0; k < z.size(); ++k) shape[k] = std::exp(s * z[k]);
    // The cut lowers the mean, and that the cut: the tail is cut until neither moves.
    double mean = mean_of(shape);
    for (int round = 0; round < kHalvings && shape.back() > 1.0001 * most_times * mean; ++round) {
      for (auto row = shape.rbegin(); row != shape.rend() && *row > most_times * mean; ++row) {
        *row = most_times * mean;
      }
      mean = mean_of(shape);
    }
    double second = 0;
    for (const double value : shape) second += value * value;
    return second / (n * mean * mean) - 1;
  };
  double low = 0, high = kSpreadMax;
  for (int step = 0; step < kHalvings; ++step) {
    const double middle = (low + high) / 2;
    (spread(middle) < cv2 ? low : high) = middle;
  }
  spread(low);
  return shape;
}

std::vector<std::int64_t> log_normal_table(double mean, double second_moment) {
  static const std::vector<double> kNormal = standard(true);
  const double cv2 = second_moment / (mean * mean) - 1;
  if (!(cv2 > 1e-9)) return fixed(mean);
  return scaled(shape_of(kNormal, cv2, HUGE_VAL), mean, kMost);
}

std::vector<std::int64_t> answer_table(double mean, double second_moment) {
  static const std::vector<double> kT = standard(false);
  const double cv2 = second_moment / (mean * mean) - 1;
  if (!(cv2 > 1e-9)) return fixed(mean);
  if (cv2 > kLogTCvMax * kLogTCvMax) return log_normal_table(mean, second_moment);
  return scaled(shape_of(kT, cv2, kCutTimes), mean, kCutTimes * mean);
}

double variance_of_log(double mean, double second_moment) {
  return mean > 0 && second_moment > mean * mean ? std::log(second_moment / (mean * mean)) : 0;
}

}  // namespace

queueing::Workload LengthTables::workload(double rate_per_s, double prefix_hit) const {
  const auto moments = [](const std::vector<std::int64_t>& table) {
    double first = 0, second = 0;
    for (const std::int64_t row : table) {
      const auto x = static_cast<double>(row);
      first += x;
      second += x * x;
    }
    const auto n = static_cast<double>(table.size());
    return std::pair(first / n, second / n);
  };
  queueing::Workload w;
  w.rate_per_s = rate_per_s;
  w.prefix_hit = prefix_hit;
  std::tie(w.input_mean, w.input_second_moment) = moments(prompts);
  std::tie(w.output_mean, w.output_second_moment) = moments(outputs);
  w.cross_moment = w.input_mean * w.output_mean;
  if (correlation != 0) {
    const double spread = std::sqrt(variance_of_log(w.input_mean, w.input_second_moment) *
                                    variance_of_log(w.output_mean, w.output_second_moment));
    w.cross_moment *= std::exp(correlation * spread);
  }
  return w;
}

LengthTables tables_for(const queueing::Workload& w) {
  LengthTables tables;
  tables.prompts =
      log_normal_table(std::max(1.0, w.input_mean), std::max(1.0, w.input_second_moment));
  tables.outputs = answer_table(w.output_mean, w.output_second_moment);
  const double spread = std::sqrt(variance_of_log(w.input_mean, w.input_second_moment) *
                                  variance_of_log(w.output_mean, w.output_second_moment));
  const double product = w.input_mean * w.output_mean;
  if (spread > 1e-6 && product > 0 && w.cross_moment > 0) {
    tables.correlation = std::clamp(std::log(w.cross_moment / product) / spread, -1.0, 1.0);
  }
  return tables;
}

std::vector<std::int64_t> log_t_table(double mean, double nu, double sigma, double most_times) {
  const auto law = LengthLaw::log_t(0, sigma, nu);
  TAILRACE_CHECK(law.has_value());
  return scaled(quantiles(*law), mean, mean * most_times);
}

LengthPasses::LengthPasses(const LengthTables& tables, const Rng& rng)
    : tables_(tables), rng_(rng) {
  TAILRACE_CHECK(!tables.prompts.empty() && !tables.outputs.empty());
  pass_.resize(std::max(tables.prompts.size(), tables.outputs.size()));
  at_ = pass_.size();
}

Lengths LengthPasses::next() {
  if (at_ == pass_.size()) shuffle();
  return pass_[at_++];
}

/// A row's place in its table is the rank of a normal variable, of this pass's or of all that are
/// possible; prompt and answer have correlated ones.
void LengthPasses::shuffle() {
  at_ = 0;
  const std::size_t n = pass_.size();
  const double along = tables_.correlation, across = std::sqrt(1 - along * along);
  if (!tables_.in_turn) {
    const auto row = [&](double normal, const std::vector<std::int64_t>& table) {
      const double share = std::erfc(-normal * std::numbers::sqrt2 / 2) / 2;
      const auto at = static_cast<std::size_t>(share * static_cast<double>(table.size()));
      return table[std::min(at, table.size() - 1)];
    };
    for (Lengths& one : pass_) {
      const double a = rng_.normal(), b = rng_.normal();
      one = {row(a, tables_.prompts), row(along * a + across * b, tables_.outputs)};
    }
    return;
  }
  std::vector<std::pair<double, std::size_t>> first(n), second(n);
  for (std::size_t k = 0; k < n; ++k) {
    const double a = rng_.normal(), b = rng_.normal();
    first[k] = {a, k};
    second[k] = {along * a + across * b, k};
  }
  const auto deal = [&](auto& ranks, const std::vector<std::int64_t>& table, auto member) {
    if (table.size() > 1) std::sort(ranks.begin(), ranks.end());
    for (std::size_t rank = 0; rank < n; ++rank) {
      pass_[ranks[rank].second].*member = table[rank * table.size() / n];
    }
  };
  deal(first, tables_.prompts, &Lengths::prompt);
  deal(second, tables_.outputs, &Lengths::output);
}

}  // namespace tailrace::simulate
