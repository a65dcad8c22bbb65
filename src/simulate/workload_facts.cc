#include <algorithm>
#include <cmath>
#include <map>

#include "tailrace/simulate/results.h"

namespace tailrace::simulate {
namespace {

/// A class may be off by so much for the sake of keeping equal lengths together.
constexpr double kSplitShare = 0.01;

/// Counts of whole lengths. Beyond 65,536 each bin holds a two-hundredth of its length, so that
/// memory stays bounded whatever a trace says.
std::int64_t bin_of(std::int64_t length) {
  if (length <= 65'536) return length;
  std::int64_t step = 1;
  while (length / step > 512) step *= 2;
  return length / step * step;
}

class LengthCounts {
 public:
  void add(std::int64_t length) {
    ++counts_[bin_of(length)];
    ++n_;
  }
  /// The least length that a share of at least `p` does not exceed.
  std::int64_t quantile(double p) const {
    const double wanted = p * static_cast<double>(n_);
    double seen = 0;
    for (const auto& [length, count] : counts_) {
      seen += static_cast<double>(count);
      if (seen >= wanted) return length;
    }
    return counts_.empty() ? 0 : counts_.rbegin()->first;
  }
  /// Where the share `p` of the shortest ends. A length that many have is split.
  WorkloadFacts::ClassEnd class_end(double p) const {
    const auto n = static_cast<double>(n_);
    double before = 0;
    for (const auto& [length, count] : counts_) {
      const auto here = static_cast<double>(count);
      if (before + here >= p * n) {
        return {length, here > kSplitShare * n ? (p * n - before) / here : 1};
      }
      before += here;
    }
    return {};
  }
  double most_common() const {
    std::uint64_t most = 0;
    for (const auto& [length, count] : counts_) most = std::max(most, count);
    return n_ > 0 ? static_cast<double>(most) / static_cast<double>(n_) : 0;
  }
  std::vector<std::pair<std::int64_t, std::uint64_t>> by_half_octave() const {
    std::vector<std::pair<std::int64_t, std::uint64_t>> bins;
    for (const auto& [length, count] : counts_) {
      const std::int64_t least = HeatCounts::least_of(HeatCounts::row_of(length));
      if (bins.empty() || bins.back().first != least) bins.emplace_back(least, 0);
      bins.back().second += count;
    }
    return bins;
  }

 private:
  std::map<std::int64_t, std::uint64_t> counts_;
  std::uint64_t n_ = 0;
};

}  // namespace

std::size_t WorkloadFacts::class_of(std::int64_t length, std::uint64_t id) const {
  const std::int64_t bin = bin_of(length);
  // Multiples of the golden ratio: any stretch of ids is spread evenly over 0 to 1.
  const double place = static_cast<double>((id * 0x9E3779B97F4A7C15U) >> 11) * 0x1p-53;
  std::size_t i = 0;
  for (; i < class_ends.size(); ++i) {
    const ClassEnd& end = class_ends[i];
    if (bin < end.length || (bin == end.length && place < end.share)) break;
  }
  return i;
}

Result<WorkloadFacts> describe_workload(const RunSpec& spec) {
  auto workload = make_workload(spec.workload, Rng(spec.seed));
  if (!workload) return fail(workload.error());
  WorkloadFacts facts;
  LengthCounts lengths;
  double sum = 0;
  std::uint64_t at_cap = 0;
  Request request;
  while (true) {
    auto more = (*workload)->next(request);
    if (!more) return fail(more.error());
    if (!*more) break;
    if (spec.horizon_s && to_seconds(request.arrival) > *spec.horizon_s) break;
    if (facts.requests++ == 0) facts.first_arrival = request.arrival;
    facts.last_arrival = request.arrival;
    lengths.add(request.output.count());
    sum += static_cast<double>(request.output.count());
    facts.longest = std::max(facts.longest, request.output.count());
    if (request.output == request.cap) ++at_cap;
    if (!request.truth) {
      facts.log_length.add(std::log(static_cast<double>(request.output.count())));
    } else if (const length::LogT* law = request.truth->as_log_t()) {
      facts.mu.add(law->mu);
      facts.log_sigma.add(std::log(law->sigma));
    }
  }
  facts.dropped = (*workload)->dropped();
  if (facts.requests == 0) return facts;
  const auto n = static_cast<double>(facts.requests);
  const double span = to_seconds(facts.last_arrival - facts.first_arrival);
  if (span > 0) facts.rate = (n - 1) / span;
  facts.mean_length = sum / n;
  facts.p10 = static_cast<double>(lengths.quantile(0.1));
  facts.p50 = static_cast<double>(lengths.quantile(0.5));
  facts.p90 = static_cast<double>(lengths.quantile(0.9));
  facts.p99 = static_cast<double>(lengths.quantile(0.99));
  facts.at_cap = static_cast<double>(at_cap) / n;
  facts.most_common = lengths.most_common();
  facts.class_ends = {lengths.class_end(0.25), lengths.class_end(0.5), lengths.class_end(0.75),
                      lengths.class_end(0.95)};
  facts.histogram = lengths.by_half_octave();
  return facts;
}

}  // namespace tailrace::simulate
