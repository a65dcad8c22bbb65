#include "tune/windowed_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "tailrace/core/rng.h"

namespace tailrace::tune {
namespace {

constexpr double kRateWidth = 0.05, kLengthWidth = 0.1;  ///< of logarithms
constexpr double kCvWidth = 0.25, kHitWidth = 0.1;
constexpr double kOldWeightMost = 9;  ///< in units of the new row's

constexpr double kIntervalDefault_s = 60;  ///< where only the rate is known
constexpr double kIntervalMost_s = 3600;
constexpr double kTimeMost_s = 1e15;
constexpr double kResidenceShareMost = 1e6;  ///< times may lie as close together as numbers can
constexpr double kRequestsMost = 1e6;
constexpr double kMillisLeast = 1e-4, kMillisMost = 1e8;
constexpr double kRunningMost = 1e6;
/// Where none is given, and where the logarithm of what was measured is no longer a normal.
constexpr double kPerSequenceError = 0.1, kPerSequenceErrorMost = 0.3;
constexpr double kPerSequenceLeast = 1e-9;
/// Of the gap, that all of the batch add to it: below 1, and as much again for noise.
constexpr double kPerBatchMost = 2;
constexpr double kRateVarianceMost = 4;

/// Of the slots or of the memory: nobody can say how long the line behind a full batch is.
constexpr double kFull = 0.97;
/// TTFT beyond this many times what iterations and the own prompt explain is a line.
constexpr double kUnexplained = 4;
constexpr double kLineTtft = 2;  ///< times TTFT at 0.9 of the largest rate, beyond that rate

constexpr std::int64_t kForgetPodAfter = 100;  ///< cycles

/// Everything but the time. Unknown sorts below everything; NaN compares by its bits.
std::array<std::uint64_t, 26> content(const Observation& o) {
  const std::optional<double>* fields[] = {&o.rate_per_s,
                                           &o.input_tokens,
                                           &o.output_tokens,
                                           &o.ttft_ms,
                                           &o.itl_ms,
                                           &o.running,
                                           &o.requests,
                                           &o.output_cv,
                                           &o.input_cv,
                                           &o.prefix_hit,
                                           &o.waiting,
                                           &o.itl_per_sequence_ms,
                                           &o.itl_per_sequence_error};
  std::array<std::uint64_t, 26> out{};
  std::size_t i = 0;
  for (const auto* field : fields) {
    out[i++] = field->has_value() ? 1 : 0;
    out[i++] = field->has_value() ? std::bit_cast<std::uint64_t>(**field) : 0;
  }
  return out;
}

std::uint64_t fingerprint(const Observation& o) {
  const auto words = content(o);
  return stable_hash({reinterpret_cast<const char*>(words.data()), sizeof(words)});
}

std::optional<double> known(const std::optional<double>& value, double least, double most) {
  return value && *value >= least && *value <= most ? value : std::nullopt;
}

std::optional<std::string> out_of_range(const Observation& o) {
  if (auto why = unusable(o)) return why;
  if (!(std::abs(o.time_s) <= kTimeMost_s)) return fmt::format("time_s is {}", o.time_s);
  if (const auto ok = queueing::check(workload_of(o)); !ok) return ok.error().message;
  for (const auto& [name, value] : {std::pair{"ttft_ms", *o.ttft_ms}, {"itl_ms", *o.itl_ms}}) {
    if (value >= kMillisLeast && value <= kMillisMost) continue;
    return fmt::format("{} is {}", name, value);
  }
  if (o.requests && *o.requests == 0) return "no request was completed";
  return std::nullopt;
}

double interval_of(const Observation& o, const PodReport* last) {
  if (last == nullptr) return kIntervalDefault_s;
  const double since = o.time_s - last->time_s;
  return since > 0 && since <= kIntervalMost_s ? since : kIntervalDefault_s;
}

double requests_of(const Observation& o, double interval_s) {
  if (const auto given = known(o.requests, 1e-9, 1e12)) {
    return std::clamp(*given, 1.0, kRequestsMost);
  }
  return std::clamp(*o.rate_per_s * interval_s, 1.0, kRequestsMost);
}

double square(double x) {
  return x * x;
}

/// Decode steps of a request, at least 0.
double decodes(const queueing::ServiceModel& model, const queueing::Workload& w) {
  return model.iterations == queueing::Iterations::kOutputPlusOne ? w.output_mean
                                                                  : w.output_mean - 1;
}

/// A line in front of the batch grows or hides behind a limit: latencies then tell how long it has
/// grown, not how fast the engine is.
bool saturated(const Observation& o, const Row& row, const queueing::ServiceModel& model,
               const WindowedState& state, const PodReport* last) {
  const queueing::Workload& w = row.workload;
  const double lambda = w.rate_per_s * 1e-3;
  const double ttft = std::exp(row.seen[0]), itl = std::exp(row.seen[1]);
  if (const auto waiting = known(o.waiting, 0, 1e12)) {
    // Some wait for the running iteration to end; more, and more than last time, are a line.
    const double usual = 3 + 4 * lambda * itl;
    if (*waiting > usual && (last == nullptr || *waiting > last->waiting)) return true;
    if (*waiting > 4 * usual) return true;
  }
  // Little's law: these many are in the system, whatever the parameters.
  const double inside = lambda * (ttft + decodes(model, w) * itl);
  if (inside >= kFull * static_cast<double>(model.limits.max_num_seqs)) return true;
  const double context = inside * (w.input_mean + 0.5 * w.output_mean);
  if (model.limits.kv_tokens > 0 &&
      context >= kFull * static_cast<double>(model.limits.kv_tokens)) {
    return true;
  }
  // What is not iterations is prompts, and those alone would take all of the time.
  if (lambda * (ttft - 3 * itl) >= 1) return true;

  if (!state.parameters) return false;
  const auto iteration = iteration_of(*state.parameters, model.iteration.knee_tokens);
  const double own = (iteration.beta_ms + iteration.gamma_ms) * w.input_mean;
  const Logs here = predict(model, *state.parameters, w);
  if (ttft > kUnexplained * std::max(std::exp(here[0]), 3 * itl + 2 * own)) return true;
  queueing::ServiceModel at = model;
  at.iteration = iteration;
  const double largest = latency_unchecked(at, w, queueing::Detail::kMeans).max_rate_per_s;
  if (!(w.rate_per_s >= largest)) return false;
  queueing::Workload below = w;
  below.rate_per_s = 0.9 * largest;
  return row.seen[0] > predict(model, *state.parameters, below)[0] + std::log(kLineTtft);
}

/// Does memory hold as much as one request of these lengths?
bool one_fits(queueing::ServiceModel model, queueing::Workload w) {
  if (model.limits.kv_tokens == 0) return true;
  model.iteration.alpha_ms = 1;  // any: it is about tokens
  w.rate_per_s = 0;
  const auto at = latency_unchecked(model, w, queueing::Detail::kMeans);
  return at.stable || at.binding != queueing::Binding::kKvTokens;
}

/// What an interval shows began, in part, in the one before.
void note_unsteadiness(const PodReport* last, double carried, Row& row) {
  row.rate_variance = std::min(kRateVarianceMost, (1 + carried) / row.requests);
  if (last == nullptr || !(last->rate_per_s > 0)) return;
  const double change = std::log(row.workload.rate_per_s / last->rate_per_s);
  row.rate_variance = std::min(kRateVarianceMost, row.rate_variance + square(carried * change));
}

double context(const queueing::Workload& w) {
  return w.input_mean + 0.5 * w.output_mean;
}

/// Takes what one more sequence adds to a gap, or says why not. `before`: lengths of the cycle
/// before, if there was one.
std::optional<std::string> take_pace(const Observation& o, const queueing::ServiceModel& model,
                                     const std::optional<queueing::Workload>& before, Row& row) {
  if (!o.itl_per_sequence_ms) return std::nullopt;
  // More than all of the gap is noise, however sure of itself, and so is what the whole batch, by
  // Little's law, would make far more than the gap of.
  const double batch = 1e-3 * row.workload.rate_per_s * decodes(model, row.workload) * *o.itl_ms;
  const double most_ms = *o.itl_ms * std::min(1.0, kPerBatchMost / batch);
  const double per_sequence = *o.itl_per_sequence_ms;
  if (!(per_sequence >= kPerSequenceLeast && per_sequence <= most_ms)) {
    return fmt::format("itl_per_sequence_ms is {:.4g}, which cannot be: not used", per_sequence);
  }
  double error = o.itl_per_sequence_error.value_or(kPerSequenceError);
  if (!(error >= 0 && error <= kPerSequenceErrorMost)) {
    return fmt::format(
        "itl_per_sequence_error is {:.4g}, and more than {} of it or less than 0 is not used",
        error, kPerSequenceErrorMost);
  }
  // It is measured over longer than a cycle: where lengths have just changed, it is of the old ones
  // too.
  if (before) error = std::hypot(error, std::log(context(row.workload) / context(*before)));
  if (!(error <= kPerSequenceErrorMost)) {
    return "itl_per_sequence_ms is not used: lengths have just changed";
  }
  row.known[kPerSequence] = true;
  row.seen[kPerSequence] = std::log(per_sequence);
  row.per_sequence_error = error;
  return std::nullopt;
}

Row row_of(const Observation& o, const PodReport* last, const queueing::ServiceModel& model,
           std::int64_t cycle, double& residence_share) {
  Row row;
  row.workload = workload_of(o);
  row.seen = {std::log(*o.ttft_ms), std::log(*o.itl_ms), 0, 0};
  if (const auto running = known(o.running, 1e-6, kRunningMost)) {
    row.known[kRunning] = true;
    row.seen[kRunning] = std::log(*running);
  }
  const double interval_s = interval_of(o, last);
  row.requests = requests_of(o, interval_s);
  row.cycle = cycle;
  const double residence_s = 1e-3 * (*o.ttft_ms + decodes(model, row.workload) * *o.itl_ms);
  residence_share = std::min(residence_s / interval_s, kResidenceShareMost);
  note_unsteadiness(last, std::min(1.0, residence_share), row);
  return row;
}

using Key = std::array<double, 6>;
Key key_of(const queueing::Workload& w, double width) {
  const auto cell = [&](double value, double step) { return std::floor(value / (step * width)); };
  return {cell(std::log(w.rate_per_s), kRateWidth),
          cell(std::log(w.input_mean), kLengthWidth),
          cell(std::log(w.output_mean), kLengthWidth),
          cell(w.input_cv(), kCvWidth),
          cell(w.output_cv(), kCvWidth),
          cell(w.prefix_hit, kHitWidth)};
}

/// What a row's means are worth, its age and the model's form aside.
double worth(const Row& row) {
  return 1 / (4e-4 / row.reports + 0.04 / row.requests + 0.04 * row.rate_variance) / row.discount;
}

queueing::Workload mix(const queueing::Workload& a, const queueing::Workload& b, double share) {
  // As a sum of parts: x + share · (y − x) would lose a small y beside an x of little share.
  const auto at = [&](double x, double y) { return (1 - share) * x + share * y; };
  return {.rate_per_s = at(a.rate_per_s, b.rate_per_s),
          .input_mean = at(a.input_mean, b.input_mean),
          .input_second_moment = at(a.input_second_moment, b.input_second_moment),
          .output_mean = at(a.output_mean, b.output_mean),
          .output_second_moment = at(a.output_second_moment, b.output_second_moment),
          .cross_moment = at(a.cross_moment, b.cross_moment),
          .prefix_hit = at(a.prefix_hit, b.prefix_hit)};
}

void forget_old_pods(WindowedState& state) {
  std::erase_if(state.pods, [&](const auto& entry) {
    return state.cycle - entry.second.cycle > kForgetPodAfter;
  });
  while (state.pods.size() > kPodsMax) {
    state.pods.erase(std::min_element(
        state.pods.begin(), state.pods.end(),
        [](const auto& a, const auto& b) { return a.second.cycle < b.second.cycle; }));
  }
}

std::string describe(const std::vector<std::pair<std::string, int>>& left_out) {
  std::string out;
  for (const auto& [why, count] : left_out) {
    out += out.empty() ? "" : "; ";
    out += count == 1 ? why : fmt::format("{} ({} times)", why, count);
  }
  return out;
}

}  // namespace

Intake take_in(std::span<const Observation> cycle, const queueing::ServiceModel& model,
               WindowedState& state) {
  Intake out;
  if (cycle.empty()) {
    out.why = "no pod reported";
    return out;
  }
  // By content, so that the order in which pods are listed decides nothing.
  std::vector<const Observation*> order;
  order.reserve(cycle.size());
  for (const Observation& o : cycle) order.push_back(&o);
  std::sort(order.begin(), order.end(), [](const Observation* a, const Observation* b) {
    if (a->pod != b->pod) return a->pod < b->pod;
    return content(*a) < content(*b);
  });

  std::vector<std::pair<std::string, int>> left_out;
  const auto leave_out = [&](std::string why) {
    constexpr std::size_t kReasonsMost = 4;
    for (auto& [known_why, count] : left_out) {
      if (known_why == why) {
        ++count;
        return;
      }
    }
    if (left_out.size() < kReasonsMost) left_out.emplace_back(std::move(why), 1);
  };
  double rate = 0, share = 0, counted = 0;
  queueing::Workload mean;
  for (const Observation* o : order) {
    if (auto why = out_of_range(*o)) {
      leave_out(std::move(*why));
      continue;
    }
    const std::uint64_t pod = stable_hash(o->pod);
    const auto known_pod = state.pods.find(pod);
    const PodReport* last = known_pod == state.pods.end() ? nullptr : &known_pod->second;
    double residence = 0;
    Row row = row_of(*o, last, model, state.cycle, residence);
    if (auto why = take_pace(*o, model, state.latest, row)) leave_out(std::move(*why));
    share += residence;
    ++counted;
    rate += row.workload.rate_per_s;
    mean = mix(mean, row.workload, row.workload.rate_per_s / rate);
    const std::uint64_t print = fingerprint(*o);
    const bool stale = last != nullptr && last->cycle < state.cycle &&
                       (last->fingerprint == print || !(o->time_s > last->time_s));
    const bool full = saturated(*o, row, model, state, last);
    const double newest = last == nullptr ? o->time_s : std::max(o->time_s, last->time_s);
    state.pods[pod] = {print, state.cycle, newest, known(o->waiting, 0, 1e12).value_or(0),
                       row.workload.rate_per_s};
    if (stale) {
      leave_out("stale: a time or numbers that this pod has reported before");
    } else if (!one_fits(model, row.workload)) {
      leave_out(
          fmt::format("no request fits: {:.4g} prompt and {:.4g} answer tokens exceed the {} "
                      "that memory is said to hold (kv-tokens); give what the engine has, or "
                      "0 for no limit",
                      row.workload.input_mean, row.workload.output_mean, model.limits.kv_tokens));
    } else if (full) {
      leave_out("saturated: a line grows, which tells nothing about the engine");
    } else {
      out.rows.push_back(row);
    }
  }
  forget_old_pods(state);
  if (rate > 0) out.latest = mean;
  if (counted > 0) state.residence_share = share / counted;
  for (double width = 1; out.rows.size() > kRowsInCycle; width *= 2) {
    std::vector<Row> merged;
    for (Row& row : out.rows) merge_into(merged, std::move(row), width);
    out.rows = std::move(merged);
  }
  out.why = describe(left_out);
  return out;
}

void merge_into(std::vector<Row>& rows, Row row, double width) {
  const Key key = key_of(row.workload, width);
  const auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& other) {
    return key_of(other.workload, width) == key;
  });
  if (same == rows.end()) {
    rows.push_back(std::move(row));
    return;
  }
  Row& old = *same;
  const double fresh = worth(row);
  const double kept = std::min(worth(old), kOldWeightMost * fresh);
  const double remains = kept / worth(old);
  const double share = fresh / (kept + fresh);
  old.workload = mix(old.workload, row.workload, share);
  if (row.known[kPerSequence]) {
    // Windows of one meter overlap, so errors do not average out as independent ones would.
    const double by = old.known[kPerSequence] ? share : 1;
    old.per_sequence_error += by * (row.per_sequence_error - old.per_sequence_error);
  }
  for (std::size_t m = 0; m < kOutputs; ++m) {
    if (!row.known[m]) continue;
    const double by = old.known[m] ? share : 1;
    old.seen[m] += by * (row.seen[m] - old.seen[m]);
    old.known[m] = true;
  }
  old.reports = old.reports * std::min(1.0, remains) + row.reports;
  old.requests = std::min(kRequestsMost, old.requests * std::min(1.0, remains) + row.requests);
  old.discount += share * (row.discount - old.discount);
  old.rate_variance = square(1 - share) * old.rate_variance + square(share) * row.rate_variance;
  old.cycle = std::max(old.cycle, row.cycle);
  old.predicted = old.derived = false;
}

void keep_what_tells_most(std::vector<Row>& rows, const Matrix3& covariance, std::int64_t now,
                          std::size_t most) {
  while (rows.size() > most) {
    std::size_t least = 0;
    double least_told = HUGE_VAL;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      double told = 0;
      for (std::size_t m = 0; m < kOutputs; ++m) {
        if (!rows[i].known[m]) continue;
        told += rows[i].derivative[m].dot(covariance * rows[i].derivative[m]) /
                row_variance(rows[i], m, now);
      }
      if (told < least_told) {
        least_told = told;
        least = i;
      }
    }
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(least));
  }
}

Spread spread_of(std::span<const Row> rows) {
  const auto range = [&](auto value) {
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (const Row& row : rows) {
      low = std::min(low, std::log(value(row.workload)));
      high = std::max(high, std::log(value(row.workload)));
    }
    return rows.empty() ? 0 : high - low;
  };
  return {.rate = range([](const queueing::Workload& w) { return w.rate_per_s; }),
          .lengths = std::max(range([](const queueing::Workload& w) { return w.input_mean; }),
                              range([](const queueing::Workload& w) { return w.output_mean; }))};
}

}  // namespace tailrace::tune
