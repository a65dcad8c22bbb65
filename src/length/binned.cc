#include "tailrace/length/binned.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace tailrace::length {
namespace {

// From this token count on the sums over 1/k² and 1/k³ follow their asymptotic series to the last
// digit.
constexpr std::int64_t kAsymptotic = 32;

/// The sum of 1/k over from < k ≤ to.
double harmonic(std::int64_t from, std::int64_t to) {
  double sum = 0;
  while (from < to && (from < kAsymptotic || to - from <= 8)) {
    sum += 1 / static_cast<double>(++from);
  }
  if (from == to) return sum;
  // The digamma function about the middle between two counts: ln m + 1/(24 m²) − …
  const double a = static_cast<double>(from) + 0.5;
  const double b = static_cast<double>(to) + 0.5;
  const auto beyond_log = [](double m) {
    const double r = 1 / (m * m);
    return r * (1.0 / 24 - r * (7.0 / 960 - r * 31.0 / 8064));
  };
  return sum + std::log1p((b - a) / a) + (beyond_log(b) - beyond_log(a));
}

/// The sum of (1/(k − 1)² − 1/k²)/k over k > from ≥ kAsymptotic.
double inverse_of_tail(std::int64_t from) {
  const double r = 1 / static_cast<double>(from);
  return r * r * r *
         (2.0 / 3 -
          r * (1.0 / 4 +
               r * (1.0 / 30 - r * (1.0 / 12 + r * (1.0 / 42 - r * (1.0 / 12 + r / 30))))));
}

/// The sum of 1/k² over from ≤ k < to, from ≥ kAsymptotic.
double inverse_squares(std::int64_t from, std::int64_t to) {
  const double a = static_cast<double>(from);
  const double b = static_cast<double>(to);
  const double width = b - a;
  const auto beyond = [](double x) {
    const double r = 1 / (x * x);
    return r / x * (1.0 / 6 - r * (1.0 / 30 - r / 42));
  };
  return width / a / b + 0.5 * width / a / b * (a + b) / a / b + (beyond(a) - beyond(b));
}

}  // namespace

Binned::Binned(std::span<const double> edges, std::span<const double> masses)
    : edges_(edges.begin(), edges.end()) {
  const std::size_t n = edges.size();
  double total = 0;
  for (const double mass : masses) total += mass;
  survival_.resize(n);
  cdf_.resize(n);
  area_.resize(n);
  inverse_.resize(n);
  // Each from its own end, so that small probabilities keep their digits.
  double beyond = masses[n];
  for (std::size_t i = n; i-- > 0;) {
    survival_[i] = std::min(1.0, beyond / total);
    beyond += masses[i];
  }
  double within = 0;
  double area = 0;
  for (std::size_t i = 0; i < n; ++i) {
    within += masses[i];
    cdf_[i] = std::min(1.0, within / total);
    area += (edges_[i] - lower_edge(i)) * 0.5 * (alive_before(i) + survival_[i]);
    area_[i] = area;
  }
  constexpr double kLargestCount = 0x1p62;
  std::int64_t at = 0;
  double inverse = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto last = static_cast<std::int64_t>(std::min(edges_[i], kLargestCount));
    while (at < last) {
      const std::int64_t to = linear_until(at, last);
      inverse += inverse_sum(at, to);
      at = to;
    }
    inverse_[i] = inverse;
  }
}

double Binned::mass(std::size_t bin) const {
  if (bin == edges_.size()) return survival_.back();
  const double before = bin == 0 ? 0 : cdf_[bin - 1];
  return before < 0.5 ? cdf_[bin] - before : survival_[bin - 1] - survival_[bin];
}

double Binned::hazard(std::size_t bin) const {
  const double alive = alive_before(bin);
  return alive > 0 ? mass(bin) / alive : 1;
}

std::size_t Binned::bin_of(double tokens) const {
  return static_cast<std::size_t>(std::lower_bound(edges_.begin(), edges_.end(), tokens) -
                                  edges_.begin());
}

double Binned::survival(double tokens) const {
  if (!(tokens > 0)) return 1;
  const std::size_t i = bin_of(tokens);
  if (i == edges_.size()) {
    const double r = edges_.back() / tokens;
    return survival_.back() * r * r;
  }
  const double share = (edges_[i] - tokens) / (edges_[i] - lower_edge(i));
  return survival_[i] + (alive_before(i) - survival_[i]) * share;
}

double Binned::cdf(double tokens) const {
  if (!(tokens > 0)) return 0;
  const std::size_t i = bin_of(tokens);
  if (i == edges_.size()) return 1 - survival(tokens);
  const double before = i == 0 ? 0 : cdf_[i - 1];
  const double share = (tokens - lower_edge(i)) / (edges_[i] - lower_edge(i));
  return before + (cdf_[i] - before) * share;
}

double Binned::density(double tokens) const {
  if (!(tokens > 0)) return 0;
  const std::size_t i = bin_of(tokens);
  if (i == edges_.size()) return 2 * survival(tokens) / tokens;
  return mass(i) / (edges_[i] - lower_edge(i));
}

double Binned::quantile(double p) const {
  const auto at = std::lower_bound(cdf_.begin(), cdf_.end(), p);
  if (p > 0.5 || at == cdf_.end()) return inverse_survival(1 - p);
  const auto i = static_cast<std::size_t>(at - cdf_.begin());
  const double before = i == 0 ? 0 : cdf_[i - 1];
  return lower_edge(i) + (edges_[i] - lower_edge(i)) * ((p - before) / (cdf_[i] - before));
}

double Binned::inverse_survival(double alive) const {
  if (alive < survival_.back()) return edges_.back() * std::sqrt(survival_.back() / alive);
  const auto at = std::lower_bound(survival_.begin(), survival_.end(), alive, std::greater<>());
  const auto i = at == survival_.end() ? survival_.size() - 1
                                       : static_cast<std::size_t>(at - survival_.begin());
  const double inside = alive_before(i) - survival_[i];
  if (!(inside > 0)) return edges_[i];
  const double share = std::clamp((alive - survival_[i]) / inside, 0.0, 1.0);
  return edges_[i] - (edges_[i] - lower_edge(i)) * share;
}

double Binned::capped_mean(double cap) const {
  const std::size_t i = bin_of(cap);
  if (i == edges_.size()) {
    const double edge = edges_.back();
    return area_.back() + survival_.back() * edge * (1 - edge / cap);
  }
  const double before = i == 0 ? 0 : area_[i - 1];
  return before + (cap - lower_edge(i)) * 0.5 * (alive_before(i) + survival(cap));
}

double Binned::tail_moment(double lo, double hi) const {
  if (!(lo > 0)) return capped_mean(hi);
  double at = lo;
  double alive = survival(lo);
  double sum = lo * alive;
  for (std::size_t i = bin_of(lo); at < hi; ++i) {
    if (i == edges_.size()) return sum + alive * at * (1 - at / hi);
    const double to = std::min(edges_[i], hi);
    const double left = to < edges_[i] ? survival(to) : survival_[i];
    sum += (to - at) * 0.5 * (alive + left);
    at = to;
    alive = left;
  }
  return sum;
}

double Binned::mean_inverse(std::int64_t cap) const {
  const std::int64_t last = cap - 1;  // the longest answer that the cap does not cut
  const auto next = std::upper_bound(edges_.begin(), edges_.end(), static_cast<double>(last));
  double sum = 0;
  std::int64_t at = 0;
  if (next != edges_.begin()) {
    sum = inverse_[static_cast<std::size_t>(next - edges_.begin()) - 1];
    at = static_cast<std::int64_t>(*(next - 1));
  }
  while (at < last) {
    const bool in_tail = static_cast<double>(at) >= edges_.back() && at >= kAsymptotic;
    const std::int64_t to = in_tail ? last : linear_until(at, last);
    sum += inverse_sum(at, to);
    at = to;
  }
  return sum + survival(static_cast<double>(last)) / static_cast<double>(cap);
}

/// The sum of P(ceil X = k)/k over from < k ≤ to, within one linear stretch or the tail.
double Binned::inverse_sum(std::int64_t from, std::int64_t to) const {
  const double lo = static_cast<double>(from);
  const double hi = static_cast<double>(to);
  if (to > from + 1 && lo >= edges_.back()) {
    const double edge = edges_.back();
    return survival_.back() * edge * edge * (inverse_of_tail(from) - inverse_of_tail(to));
  }
  const double below = cdf(lo);
  const double mass = below < 0.5 ? cdf(hi) - below : survival(lo) - survival(hi);
  return mass / (hi - lo) * harmonic(from, to);
}

std::int64_t Binned::linear_until(std::int64_t at, std::int64_t end) const {
  const auto edge = std::upper_bound(edges_.begin(), edges_.end(), static_cast<double>(at));
  if (edge == edges_.end()) {
    if (at < kAsymptotic) return at + 1;
    return end - at <= at ? end : at + at;
  }
  if (*edge >= static_cast<double>(end)) return end;
  return std::max(at + 1, static_cast<std::int64_t>(*edge));
}

double Binned::stretch_sum(std::int64_t at, std::int64_t to) const {
  const double lo = static_cast<double>(at);
  const double alive = survival(lo);
  if (to == at + 1) return alive;
  if (lo >= edges_.back()) return alive * lo * lo * inverse_squares(at, to);
  const double left = survival(static_cast<double>(to));
  return static_cast<double>(to - at) * 0.5 * (alive + left) + 0.5 * (alive - left);
}

}  // namespace tailrace::length
