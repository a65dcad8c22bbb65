#include "schedule/start_ranks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tailrace/length/residual_table.h"

namespace tailrace::schedule {
namespace {

constexpr double kNu = 3.5;
constexpr Tokens kLargestQuantum{64};  // each of its tokens costs a survival a node

/// Equally spaced nodes of one coordinate.
struct Axis {
  double first = 0;
  double step = 1;
  std::size_t nodes = 2;

  double at(std::size_t i) const { return first + step * static_cast<double>(i); }
  bool holds(double x) const { return x >= first && x <= at(nodes - 1); }
};

constexpr Axis kMu{2, 0.125, 81};
constexpr Axis kLogSigma{-3, 0.125, 33};
constexpr Axis kLogCap{4.125, 0.125, 79};

struct Place {
  std::size_t node = 0;
  double share = 0;  // of the next node
};

Place place_on(const Axis& axis, double x) {
  const double steps = (x - axis.first) / axis.step;
  const auto node = std::min(static_cast<std::size_t>(steps), axis.nodes - 2);
  return {node, steps - static_cast<double>(node)};
}

}  // namespace

std::optional<double> StartRanks::find(const length::LengthLaw& law, Tokens cap) {
  static_assert(kLogCap.nodes == kCaps);
  const length::LogT* log_t = law.as_log_t();
  if (log_t == nullptr || log_t->nu != kNu || quantum_ > kLargestQuantum) return std::nullopt;
  const double log_sigma = std::log(log_t->sigma);
  const double log_cap = std::log(static_cast<double>(cap.count()));
  if (!kMu.holds(log_t->mu) || !kLogSigma.holds(log_sigma) || !kLogCap.holds(log_cap)) {
    return std::nullopt;
  }
  const Place m = place_on(kMu, log_t->mu);
  const Place s = place_on(kLogSigma, log_sigma);
  const Place c = place_on(kLogCap, log_cap);
  double one_quantum = 0;
  double longer = 0;
  for (std::size_t i = 0; i < 8; ++i) {  // the corners of the cell
    const std::size_t dm = i & 1, ds = (i >> 1) & 1, dc = i >> 2;
    const double share = (dm == 1 ? m.share : 1 - m.share) * (ds == 1 ? s.share : 1 - s.share) *
                         (dc == 1 ? c.share : 1 - c.share);
    const Node& corner = node(m.node + dm, s.node + ds, c.node + dc);
    one_quantum += share * static_cast<double>(corner.one_quantum);
    longer += share * static_cast<double>(corner.longer);
  }
  return std::exp(std::min(one_quantum, longer));
}

const StartRanks::Node& StartRanks::node(std::size_t mu, std::size_t sigma, std::size_t cap) {
  constexpr float kNotYet = std::numeric_limits<float>::quiet_NaN();
  std::vector<Node>& slice = by_cap_[cap];
  if (slice.empty()) slice.assign(kMu.nodes * kLogSigma.nodes, Node{kNotYet, kNotYet});
  Node& kept = slice[sigma * kMu.nodes + mu];
  if (std::isnan(kept.longer)) kept = compute(mu, sigma, cap);
  return kept;
}

StartRanks::Node StartRanks::compute(std::size_t mu, std::size_t sigma, std::size_t cap) const {
  const auto law = length::LengthLaw::log_t(kMu.at(mu), std::exp(kLogSigma.at(sigma)), kNu).value();
  const Tokens tokens{std::llround(std::exp(kLogCap.at(cap)))};
  const Tokens quantum = std::min(quantum_, tokens);
  double served = 1;
  for (std::int64_t k = 1; k < quantum.count(); ++k) served += law.survival(static_cast<double>(k));
  const double ended = quantum < tokens ? law.cdf(static_cast<double>(quantum.count())) : 1;
  const Tokens half_median{std::llround(0.5 * std::exp(kMu.at(mu)))};
  const length::ResidualTable table(law, tokens, std::max(quantum_, half_median));
  return {static_cast<float>(std::log(served / ended)),
          static_cast<float>(std::log(table.gittins_rank(Tokens{0})))};
}

}  // namespace tailrace::schedule
