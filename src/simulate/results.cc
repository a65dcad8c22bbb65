#include "tailrace/simulate/results.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "tailrace/report/rank_agreement.h"
#include "tailrace/report/summary.h"

namespace tailrace::simulate {
namespace {

constexpr std::size_t kPairsMax = 32'768;
constexpr double kStarvedTimes = 10;
constexpr double kOverloadedShare = 0.02;
constexpr double kOverloadedDeviations = 3;

std::optional<double> per(double amount, double of) {
  return of > 0 ? std::optional<double>(amount / of) : std::nullopt;
}

bool all_same(const std::vector<double>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

}  // namespace

void SpreadCounter::add(double value) {
  sum_ += value;
  sketch_.add(value);
  const auto count = sketch_.count();
  if (count <= kExactMax) {
    exact_.push_back(value);
  } else if (count == kExactMax + 1) {
    exact_ = {};
  }
}

std::optional<Spread> SpreadCounter::spread() const {
  const auto rough = sketch_.summary();
  if (!rough) return std::nullopt;
  Spread spread{rough->count, sum_ / static_cast<double>(rough->count), 0, 0, 0, 0, rough->max};
  if (exact_.empty()) {
    spread.p50 = rough->p50;
    spread.p90 = rough->p90;
    spread.p99 = rough->p99;
    spread.p999 = sketch_.quantile(0.999);
    return spread;
  }
  std::vector<double> sorted = exact_;
  std::sort(sorted.begin(), sorted.end());
  spread.p50 = report::percentile(sorted, 0.5);
  spread.p90 = report::percentile(sorted, 0.9);
  spread.p99 = report::percentile(sorted, 0.99);
  spread.p999 = report::percentile(sorted, 0.999);
  return spread;
}

std::size_t HeatCounts::row_of(std::int64_t length) {
  if (length <= 1) return 0;
  std::size_t octave = 0;
  while ((length >> (octave + 1)) > 0) ++octave;
  const bool upper = length >= (std::int64_t{3} << octave) / 2;
  return std::min(kRows - 1, 2 * octave - (upper ? 0 : 1));
}

std::int64_t HeatCounts::least_of(std::size_t row) {
  if (row == 0) return 1;
  const std::size_t octave = (row + 1) / 2;
  return row % 2 == 1 ? std::int64_t{1} << octave : (std::int64_t{3} << octave) / 2;
}

void HeatCounts::widen() {
  for (std::size_t row = 0; row < kRows; ++row) {
    auto* cells = &counts_[row * kColumns];
    for (std::size_t c = 0; c < kColumns; ++c) {
      const std::uint64_t sum = 2 * c < kColumns ? cells[2 * c] + cells[2 * c + 1] : 0;
      cells[c] = sum;
    }
  }
  width_ *= 2;
}

void HeatCounts::add(std::int64_t length, double seconds) {
  // Beyond this no run is: a loop that cannot be long.
  const double at = std::clamp(seconds, 0.0, 1e12);
  while (at >= width_ * static_cast<double>(kColumns)) widen();
  ++counts_[row_of(length) * kColumns + static_cast<std::size_t>(at / width_)];
}

void HeatCounts::widen_to(double seconds) {
  while (width_ < seconds) widen();
}

void HeatCounts::merge(const HeatCounts& other) {
  HeatCounts theirs = other;
  widen_to(theirs.width_);
  theirs.widen_to(width_);
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += theirs.counts_[i];
}

double alone_s(const engine::EngineConfig& engine, Tokens prompt, Tokens output) {
  // The prompt in chunks, then one token an iteration. The cost is linear in the context, so all
  // decoding iterations together cost as many times the one at their mean context.
  double seconds = 0;
  std::int64_t chunk_max = engine.max_batched_tokens;
  if (engine.long_prefill_tokens > 0) chunk_max = std::min(chunk_max, engine.long_prefill_tokens);
  const std::int64_t whole = prompt.count() / chunk_max;
  const std::int64_t rest = prompt.count() % chunk_max;
  if (whole > 0) {
    const Tokens context((whole + 1) * chunk_max / 2);
    seconds +=
        static_cast<double>(whole) * to_seconds(engine.cost.of(Tokens(chunk_max), context, 1));
  }
  if (rest > 0) seconds += to_seconds(engine.cost.of(Tokens(rest), prompt, 1));
  const std::int64_t steps = output.count() - 1;
  if (steps > 0) {
    const Tokens context(prompt.count() + (steps + 1) / 2);
    seconds += static_cast<double>(steps) * to_seconds(engine.cost.of(Tokens(1), context, 1));
  }
  return seconds;
}

RunRecorder::RunRecorder(const RunSpec& spec, const WorkloadFacts& facts, double warm_up,
                         const Slo& slo)
    : engine_(spec.fleet.engine),
      engines_(spec.fleet.engines),
      facts_(facts),
      first_measured_(static_cast<std::uint64_t>(warm_up * static_cast<double>(facts.requests))),
      slo_(slo) {}

bool RunRecorder::meets_slo(double ttft, double per_token, std::optional<double> itl) const {
  if (slo_.ttft && ttft > to_seconds(*slo_.ttft)) return false;
  if (slo_.per_token && per_token > to_seconds(*slo_.per_token)) return false;
  return !slo_.itl || !itl || *itl <= to_seconds(*slo_.itl);
}

void RunRecorder::add(const RequestRecord& record) {
  if (record.id >= first_measured_) ++offered_measured_;
  if (record.predicted_median) ++foretold_;
  if (record.end == End::kCompleted) add_completed(record);
}

void RunRecorder::add_completed(const RequestRecord& record) {
  ++completed_;
  if (10 * completed_ >= 3 * facts_.requests && !seconds_to_30_percent_) {
    seconds_to_30_percent_ = to_seconds(*record.finished);
  }
  if (record.preemptions > 0) ++preempted_;
  needed_tokens_ += record.prompt.count() - record.cached.count() + record.output.count() - 1;
  const double finished = to_seconds(*record.finished);
  heat_.add(record.output.count(), finished);
  if (record.id < first_measured_) return;
  ++measured_;
  const double arrival = to_seconds(record.arrival);
  const double tokens = static_cast<double>(record.output.count());
  const double ttft = to_seconds(*record.first_token - record.arrival);
  const double e2e = to_seconds(*record.finished - record.arrival);
  const double wait = to_seconds(*record.admitted - record.arrival);
  const double served = finished - arrival - wait;
  std::optional<double> itl;
  if (tokens > 1) itl = to_seconds(*record.finished - *record.first_token) / (tokens - 1);
  ttft_.add(ttft);
  e2e_.add(e2e);
  per_token_.add(e2e / tokens);
  wait_.add(wait);
  if (itl) itl_.add(*itl);
  if (meets_slo(ttft, e2e / tokens, itl)) ++good_;
  if (wait > kStarvedTimes * served) ++starved_;
  ClassSums& sums = classes_[facts_.class_of(record.output.count(), record.id)];
  ++sums.count;
  sums.e2e += e2e;
  sums.wait += wait;
  sums.ttft += ttft;
  sums.slow_down += e2e / alone_s(engine_, record.prompt, record.output);
  add_prediction(record);
}

void RunRecorder::add_prediction(const RequestRecord& record) {
  if (record.predicted_place) {
    ++placed_;
    if (record.output < record.cap) ++placed_whole_;
    within_50_ += record.predicted_place->within(0.25, 0.75);
    within_90_ += record.predicted_place->within(0.05, 0.95);
  }
  if (!record.predicted_median || record.id % stride_ != 0) return;
  predicted_.push_back(*record.predicted_median);
  realised_.push_back(static_cast<double>(record.output.count()));
  ids_.push_back(record.id);
  if (ids_.size() < kPairsMax) return;
  // Too many: every other one is enough.
  stride_ *= 2;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    if (ids_[i] % stride_ != 0) continue;
    predicted_[kept] = predicted_[i];
    realised_[kept] = realised_[i];
    ids_[kept++] = ids_[i];
  }
  predicted_.resize(kept);
  realised_.resize(kept);
  ids_.resize(kept);
}

RunResult RunRecorder::result(const RunTotals& totals) const {
  RunResult r;
  r.totals = totals;
  r.measured = measured_;
  r.foretold = foretold_;
  r.ttft = ttft_.spread();
  r.e2e = e2e_.spread();
  r.per_token = per_token_.spread();
  r.wait = wait_.spread();
  r.itl = itl_.spread();
  const double seconds = to_seconds(totals.end);
  const auto offered = static_cast<double>(totals.offered);
  if (totals.offered > 0) r.seconds = seconds;
  r.requests_per_s = per(static_cast<double>(totals.completed), seconds);
  r.output_tokens_per_s = per(static_cast<double>(totals.output_tokens), seconds);
  r.computed_tokens_per_s = per(static_cast<double>(totals.computed_tokens), seconds);
  r.preemptions_per_request = per(static_cast<double>(totals.preemptions), offered);
  r.waiting_at_last = per(static_cast<double>(totals.waiting_at_last), offered);
  r.refused = per(static_cast<double>(totals.refused), offered);
  r.unfinished = per(static_cast<double>(totals.unfinished), offered);
  r.overloaded = r.waiting_at_last && *r.waiting_at_last > kOverloadedShare &&
                 *r.waiting_at_last > kOverloadedDeviations / std::sqrt(offered);
  r.preempted_share = per(static_cast<double>(preempted_), static_cast<double>(completed_));
  if (totals.unfinished == 0 && totals.offered > 0) {
    r.recomputed_tokens = static_cast<double>(totals.computed_tokens - needed_tokens_);
  }
  r.utilisation = per(totals.busy_s, seconds * engines_);
  if (seconds > 0) r.kv_share = totals.mean_kv_share;
  if (slo_.any() && offered_measured_ > 0) {
    r.goodput = static_cast<double>(good_) / static_cast<double>(offered_measured_);
  }
  r.rate = facts_.rate;
  r.seconds_to_30_percent = seconds_to_30_percent_;
  r.starved = per(static_cast<double>(starved_), static_cast<double>(measured_));
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    const ClassSums& sums = classes_[i];
    if (sums.count == 0) continue;
    const auto n = static_cast<double>(sums.count);
    r.classes[i] = {sums.count, sums.e2e / n, sums.wait / n, sums.ttft / n, sums.slow_down / n};
  }
  if (!all_same(predicted_) && !all_same(realised_)) {
    r.tau = report::order_agreement(predicted_, realised_).tau_b;
  }
  if (placed_whole_ > 0) {
    r.within_50 = within_50_ / static_cast<double>(placed_);
    r.within_90 = within_90_ / static_cast<double>(placed_);
  }
  return r;
}

}  // namespace tailrace::simulate
