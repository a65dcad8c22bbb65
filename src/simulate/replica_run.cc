#include "tailrace/simulate/replica_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "simulate/gap_counter.h"
#include "simulate/length_tables.h"
#include "tailrace/core/check.h"
#include "tailrace/core/time.h"
#include "tailrace/engine/batch_engine.h"

namespace tailrace::simulate {
namespace {

constexpr std::size_t kBatches = 20;        // of batch means
constexpr std::size_t kFewest = 100;        // requests that a mean may be made of
constexpr std::int64_t kMostSlots = 2'048;  // filled when saturated
constexpr std::size_t kMostPrefixIds = 4'096;
constexpr std::int64_t kRequestIterationsMax = 10'000'000;

/// One request's times; unset: −1.
struct Life {
  MonoTime arrival;
  std::int64_t admitted_ns = -1, first_ns = -1, finished_ns = -1;
  std::int64_t output = 1;
};

std::int64_t nanos(MonoTime t) {
  return t.time_since_epoch().count();
}

/// Sequences in the middle of their answers, as a look at a random moment finds them.
std::vector<Lengths> mid_life(LengthPasses& passes, std::int64_t count, Rng& rng) {
  std::vector<Lengths> pool(static_cast<std::size_t>(std::max<std::int64_t>(count, 1'000)) * 4);
  std::vector<double> sums(pool.size());
  double sum = 0;
  for (std::size_t k = 0; k < pool.size(); ++k) {
    pool[k] = passes.next();
    sums[k] = sum += static_cast<double>(pool[k].output);
  }
  std::vector<Lengths> out(static_cast<std::size_t>(count));
  for (Lengths& one : out) {
    // Long answers are met in proportion to their length, at any place in them.
    const auto at = std::upper_bound(sums.begin(), sums.end(), rng.uniform() * sum);
    one = pool[std::min(static_cast<std::size_t>(at - sums.begin()), pool.size() - 1)];
    const auto done = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(one.output)));
    one.prompt += done;
    one.output -= done;
  }
  return out;
}

/// Drives one engine and keeps what became of each request.
class Replica final : public engine::LifeSink {
 public:
  explicit Replica(const ReplicaSpec& spec)
      : spec_(spec),
        engine_(with_cache(spec)),
        rng_(spec.seed),
        lengths_(spec.lengths, rng_.fork("lengths")),
        hits_(rng_.fork("hits")) {
    if (spec.prefix_hit <= 0) return;
    const std::int64_t block = spec.engine.block_tokens;
    const auto most = static_cast<double>(spec.lengths.prompts.back()) * spec.prefix_hit;
    const auto blocks = static_cast<std::int64_t>(most) / block;
    tokens_per_id_ = block * (1 + blocks / static_cast<std::int64_t>(kMostPrefixIds));
  }

  /// False: no engine of this kind could hold it.
  bool add(const Lengths& lengths, MonoTime at) {
    engine::SequenceSpec sequence;
    sequence.id = engine::SequenceId(lives_.size());
    sequence.prompt_tokens = Tokens(lengths.prompt);
    sequence.output_tokens = Tokens(lengths.output);
    sequence.prefix = prefix_of(lengths.prompt);
    lives_.push_back({.arrival = at, .output = lengths.output});
    if (!engine_.add(sequence, at)) {
      lives_.pop_back();
      ++refused_;
      return false;
    }
    if (!next_) {
      next_ = std::max(at, last_end_);
      idle_ns_ += (*next_ - last_end_).count();
    }
    return true;
  }

  void advance(MonoTime until, bool stop_at_finish = false) {
    if (next_ && *next_ < until) next_ = engine_.advance(*next_, until, stop_at_finish, *this);
  }

  /// The same, one iteration after the other, and counts the gaps between tokens.
  void advance_counting(MonoTime until) {
    while (next_ && *next_ < until) {
      const MonoTime began = *next_;
      const std::int64_t decoding = decoding_;
      stopped_ = 0;
      next_ = engine_.advance(began, began + Duration{1}, false, *this);
      if (!next_) return;
      // In an iteration each of them makes a token, if the budget reaches that far.
      const std::int64_t tokens = std::min(decoding - stopped_, spec_.engine.max_batched_tokens);
      if (tokens > 0) gaps_.add((*next_ - began).count(), tokens);
      if (!sent_back_.empty()) look_who_is_back(*next_);
    }
  }

  /// Those that answer already, with their prompts and what they have said computed.
  bool begin_with(std::int64_t count) {
    Rng ages = rng_.fork("ages");
    LengthPasses own(spec_.lengths, rng_.fork("first lengths"));
    if (count <= 0) return true;
    for (const Lengths& one : mid_life(own, count, ages)) add(one, MonoTime{});
    return !lives_.empty();
  }

  void on_admitted(engine::SequenceId id, MonoTime at, Tokens) override {
    Life& life = lives_[id.count()];
    if (life.admitted_ns < 0) life.admitted_ns = nanos(at);
    if (const auto one = found_sent_back(id); one != sent_back_.end()) one->in_batch = true;
  }
  void on_first_token(engine::SequenceId id, MonoTime at) override {
    lives_[id.count()].first_ns = nanos(at);
    ++first_tokens_;
    ++decoding_;
  }
  void on_finished(engine::SequenceId id, MonoTime at) override {
    Life& life = lives_[id.count()];
    life.finished_ns = nanos(at);
    last_end_ = at;
    ++finished_;
    finished_tokens_ += life.output;
    if (const auto one = found_sent_back(id); one != sent_back_.end()) {
      gaps_.add((at - one->last_token).count(), 1);
      sent_back_.erase(one);
    } else {
      --decoding_;
    }
  }
  // Its gap lasts from its last token, made in the iteration before, until it is computed again.
  void on_preempted(engine::SequenceId id, MonoTime at, Tokens generated) override {
    if (generated == Tokens(0)) return;
    if (const auto one = found_sent_back(id); one != sent_back_.end()) {
      one->in_batch = false;
      return;
    }
    sent_back_.push_back({id, at, generated});
    --decoding_;
    ++stopped_;
  }

  /// Answer tokens so far.
  std::int64_t generated() const {
    std::int64_t tokens = finished_tokens_;
    for (const engine::SequenceView& view : engine_.running()) tokens += view.generated.count();
    return tokens;
  }

  const std::vector<Life>& lives() const { return lives_; }
  const GapCounter& gaps() const { return gaps_; }
  engine::EngineState state() const { return engine_.state(); }
  std::optional<MonoTime> next() const { return next_; }
  Lengths draw() { return lengths_.next(); }
  const Rng& rng() const { return rng_; }
  std::uint64_t first_tokens() const { return first_tokens_; }
  std::uint64_t finished() const { return finished_; }
  std::uint64_t refused() const { return refused_; }
  std::int64_t idle_ns() const { return idle_ns_; }

 private:
  /// Preempted in the middle of its answer, without a new token since.
  struct SentBack {
    engine::SequenceId id;
    MonoTime last_token;
    Tokens generated{0};
    bool in_batch = false;
  };

  std::vector<SentBack>::iterator found_sent_back(engine::SequenceId id) {
    return std::find_if(sent_back_.begin(), sent_back_.end(),
                        [id](const SentBack& one) { return one.id == id; });
  }

  void look_who_is_back(MonoTime at) {
    if (std::none_of(sent_back_.begin(), sent_back_.end(),
                     [](const SentBack& one) { return one.in_batch; })) {
      return;
    }
    for (const engine::SequenceView& view : engine_.running()) {
      const auto one = found_sent_back(view.id);
      if (one == sent_back_.end() || view.generated == one->generated) continue;
      gaps_.add((at - one->last_token).count(), 1);
      sent_back_.erase(one);
      ++decoding_;
    }
  }

  static engine::EngineConfig with_cache(const ReplicaSpec& spec) {
    engine::EngineConfig config = spec.engine;
    config.prefix_caching = spec.prefix_hit > 0;
    return config;
  }

  engine::PrefixIds prefix_of(std::int64_t prompt) {
    engine::PrefixIds out;
    if (tokens_per_id_ == 0) return out;
    out.tokens_per_id = tokens_per_id_;
    const double ids =
        static_cast<double>(prompt) * spec_.prefix_hit / static_cast<double>(tokens_per_id_);
    // Rounded up or down by chance, so that the mean is the asked share.
    auto whole = static_cast<std::uint64_t>(ids);
    if (hits_.uniform() < ids - static_cast<double>(whole)) ++whole;
    out.ids.resize(whole);
    std::iota(out.ids.begin(), out.ids.end(), std::uint64_t{1});
    return out;
  }

  const ReplicaSpec& spec_;
  engine::BatchEngine engine_;
  Rng rng_;
  LengthPasses lengths_;
  Rng hits_;
  std::int64_t tokens_per_id_ = 0;
  std::vector<Life> lives_;
  std::optional<MonoTime> next_;
  MonoTime last_end_;
  std::int64_t idle_ns_ = 0;
  std::uint64_t first_tokens_ = 0, finished_ = 0, refused_ = 0;
  std::int64_t finished_tokens_ = 0;
  std::int64_t decoding_ = 0;  ///< in the batch, with a first token and all before it computed
  std::int64_t stopped_ = 0;   ///< of them, preempted in this iteration
  std::vector<SentBack> sent_back_;
  GapCounter gaps_;
};

Result<void> check_spec(const ReplicaSpec& spec) {
  if (auto ok = spec.engine.check(); !ok) return ok;
  const LengthTables& tables = spec.lengths;
  if (tables.prompts.empty() || tables.outputs.empty() || tables.prompts.front() < 1 ||
      tables.outputs.front() < 1) {
    return fail(ErrorCode::kInvalidArgument, "lengths: a table is empty or has a length below 1");
  }
  const std::int64_t chunks = tables.prompts.back() / spec.engine.max_batched_tokens;
  if (tables.outputs.back() + chunks > kRequestIterationsMax) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("a request of {} prompt and {} answer tokens takes more than {} "
                            "iterations; that is too long to simulate",
                            tables.prompts.back(), tables.outputs.back(), kRequestIterationsMax));
  }
  return {};
}

Error too_large(const ReplicaSpec& spec) {
  return {ErrorCode::kUnsupported,
          fmt::format("requests do not fit: {} prompt and {} answer tokens into {} KV blocks of {}",
                      spec.lengths.prompts.front(), spec.lengths.outputs.front(),
                      spec.engine.usable_blocks(), spec.engine.block_tokens)};
}

/// Reorders `values`, of which there are some.
double quantile(std::vector<double>& values, double p) {
  const auto k = static_cast<std::ptrdiff_t>(p * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + k, values.end());
  return values[static_cast<std::size_t>(k)];
}

queueing::Percentiles percentiles(std::vector<double> values) {
  if (values.empty()) return {};
  const auto at = [&](double p) { return quantile(values, p); };
  return {at(0.5), at(0.9), at(0.95), at(0.99)};
}

/// Standard error of Σ top / Σ bottom over requests in order, from batches of neighbours.
double ratio_error(const std::vector<double>& top, const std::vector<double>& bottom) {
  const std::size_t each = top.size() / kBatches;
  if (each == 0) return 0;
  const double ratio = std::accumulate(top.begin(), top.end(), 0.0) /
                       std::accumulate(bottom.begin(), bottom.end(), 0.0);
  const double batch_bottom = std::accumulate(bottom.begin(), bottom.end(), 0.0) *
                              static_cast<double>(each) / static_cast<double>(bottom.size());
  double squares = 0;
  for (std::size_t b = 0; b < kBatches; ++b) {
    double off = 0;
    for (std::size_t k = b * each; k < (b + 1) * each; ++k) off += top[k] - ratio * bottom[k];
    squares += off * off;
  }
  return std::sqrt(squares / (kBatches * (kBatches - 1.0))) / batch_bottom;
}

/// Standard error of P99 of `values`, in order of arrival: how often batches of neighbours are
/// above it varies, and half of what lies between the quantiles that are so far off is as likely.
double p99_error(std::vector<double> values, double p99) {
  const std::size_t each = values.size() / kBatches;
  if (each == 0) return 0;
  double squares = 0;
  for (std::size_t b = 0; b < kBatches; ++b) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(b * each);
    const auto above = std::count_if(begin, begin + static_cast<std::ptrdiff_t>(each),
                                     [p99](double value) { return value > p99; });
    const double off = static_cast<double>(above) / static_cast<double>(each) - 0.01;
    squares += off * off;
  }
  const double share = std::sqrt(squares / (kBatches * (kBatches - 1.0)));
  return (quantile(values, std::min(1.0, 0.99 + share)) -
          quantile(values, std::max(0.5, 0.99 - share))) /
         2;
}

/// Of requests `from` to `to`, all finished.
ReplicaRun summary(const std::vector<Life>& lives, std::size_t from, std::size_t to) {
  ReplicaRun run;
  run.measured = to - from;
  const auto n = static_cast<double>(run.measured);
  std::vector<double> ttft, wait, decode, gaps, e2e, ones(run.measured, 1.0);
  double in_batch = 0;
  for (std::size_t k = from; k < to; ++k) {
    const Life& life = lives[k];
    const std::int64_t arrival = nanos(life.arrival);
    const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) * 1e-6; };
    ttft.push_back(ms(life.first_ns - arrival));
    wait.push_back(ms(life.admitted_ns - arrival));
    e2e.push_back(ms(life.finished_ns - arrival));
    decode.push_back(ms(life.finished_ns - life.first_ns));
    gaps.push_back(static_cast<double>(life.output - 1));
    in_batch += ms(life.finished_ns - life.admitted_ns);
  }
  const auto sum = [](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
  };
  const double span_ms =
      static_cast<double>(nanos(lives[to - 1].arrival) - nanos(lives[from].arrival)) * 1e-6;
  run.rate_per_s = span_ms > 0 ? (n - 1) / span_ms * 1e3 : 0;
  run.ttft_ms = sum(ttft) / n;
  run.ttft_error_ms = ratio_error(ttft, ones);
  run.wait_ms = sum(wait) / n;
  run.e2e_ms = sum(e2e) / n;
  run.e2e_error_ms = ratio_error(e2e, ones);
  if (const double all = sum(gaps); all > 0) {
    run.itl_ms = sum(decode) / all;
    run.itl_error_ms = ratio_error(decode, gaps);
  }
  run.concurrency = span_ms > 0 ? in_batch / span_ms : 0;
  run.ttft_percentiles_ms = percentiles(ttft);
  run.ttft_p99_error_ms = p99_error(std::move(ttft), run.ttft_percentiles_ms.p99);
  run.e2e_percentiles_ms = percentiles(std::move(e2e));
  return run;
}

bool precise(const ReplicaRun& run, const ReplicaSpec& spec) {
  if (spec.precision <= 0 && spec.p99_precision <= 0) return false;
  const auto within = [](double error, double value, double share) {
    return share <= 0 || error <= share * value;
  };
  return within(run.ttft_error_ms, run.ttft_ms, spec.precision) &&
         within(run.itl_error_ms, run.itl_ms, spec.precision) &&
         within(run.ttft_p99_error_ms, run.ttft_percentiles_ms.p99, spec.p99_precision);
}

}  // namespace

Result<ReplicaRun> run_replica(const ReplicaSpec& spec) {
  if (auto ok = check_spec(spec); !ok) return fail(ok.error());
  if (!(spec.rate_per_s > 0 && spec.rate_per_s <= 1e9)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("rate: {} is not a number above 0 and at most 1e9", spec.rate_per_s));
  }
  Replica replica(spec);
  Rng gaps = replica.rng().fork("gaps");
  MonoTime now;
  // Requests come once all of those are computed.
  if (!replica.begin_with(spec.begin_with)) return fail(too_large(spec));
  const std::size_t first = replica.lives().size();
  while (replica.first_tokens() < first && replica.next()) {
    now = *replica.next();
    replica.advance(now + Duration{1});
  }
  if (replica.next()) now = *replica.next();
  const std::int64_t idle_before = replica.idle_ns();
  const std::uint64_t iterations_before = replica.state().iterations;
  const MonoTime began = now;

  const std::size_t most = std::max(spec.requests_max, kFewest * 2);
  std::size_t next_look = std::clamp(spec.requests_min, kFewest * 2, most);
  // The gaps until the first fifth had come, whatever number the run will end with.
  std::vector<std::pair<std::size_t, GapCounter>> early;
  std::size_t next_early = next_look / 5;
  std::size_t done = 0;  // requests before this one have all ended
  std::size_t waiting_end = 0;
  for (std::size_t come = 0;; ++come) {
    now += from_seconds(gaps.exponential() / spec.rate_per_s);
    replica.advance_counting(now);
    if (come == next_early) {
      early.emplace_back(come, replica.gaps());
      next_early = come < most / 5 ? std::min(most / 5, come * 2) : come;
    }
    // Past the last request that counts others come all the same, until it has ended.
    if (!replica.add(replica.draw(), now) && replica.refused() > 1000 &&
        replica.lives().size() == first) {
      return fail(too_large(spec));
    }
    const std::vector<Life>& lives = replica.lives();
    if (lives.size() == first + most) waiting_end = replica.state().waiting;
    if (come % 256 != 0) continue;
    while (done + first < lives.size() && lives[done + first].finished_ns >= 0) ++done;
    const bool spent = replica.state().iterations >= spec.iterations_max || come > 4 * most;
    if (done < next_look && !spent) continue;
    const std::size_t to = std::min(done, most);
    if (to < kFewest) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("only {} requests ended within {} iterations; these requests are "
                              "too long, or the line grows",
                              done, replica.state().iterations));
    }
    ReplicaRun run = summary(lives, first + to / 5, first + to);
    if (done >= most || spent || precise(run, spec)) {
      const auto counted = std::find_if(early.rbegin(), early.rend(),
                                        [&](const auto& e) { return e.first <= to / 5; });
      run.itl_percentiles_ms = replica.gaps().percentiles_since(
          counted != early.rend() ? counted->second : GapCounter{});
      const engine::EngineState state = replica.state();
      const auto span = static_cast<double>((*replica.next() - began).count() -
                                            (replica.idle_ns() - idle_before));
      const auto iterations = static_cast<double>(state.iterations - iterations_before);
      run.iteration_ms = iterations > 0 ? span * 1e-6 / iterations : 0;
      run.preemptions = state.preemptions;
      run.refused = replica.refused();
      run.waiting_end = lives.size() < first + most ? state.waiting : waiting_end;
      return run;
    }
    next_look = std::min(most, next_look * 2);
  }
}

Result<Saturation> saturate_replica(const ReplicaSpec& asked) {
  if (auto ok = check_spec(asked); !ok) return fail(ok.error());
  ReplicaSpec spec = asked;
  spec.engine.max_num_seqs = std::min(spec.engine.max_num_seqs, kMostSlots);
  const std::int64_t slots = spec.engine.max_num_seqs;
  const queueing::Workload w = spec.lengths.workload(0);
  Replica replica(spec);
  // No more than memory holds need be in the middle of their answers.
  const double context = w.input_mean + w.output_second_moment / w.output_mean / 2;
  const double room = static_cast<double>(spec.engine.usable_blocks()) *
                      static_cast<double>(spec.engine.block_tokens);
  const auto held = static_cast<std::int64_t>(
      std::min(static_cast<double>(slots), 1 + room / std::max(1.0, context)));
  if (!replica.begin_with(held)) return fail(too_large(asked));
  const std::size_t first = replica.lives().size();
  const auto top_up = [&](std::size_t line) {
    const MonoTime at = replica.next().value_or(MonoTime{});
    for (std::size_t tries = 0;
         replica.lives().size() - replica.finished() < static_cast<std::size_t>(slots) + line &&
         tries < 1000 + line;
         ++tries) {
      replica.add(replica.draw(), at);
    }
  };
  constexpr std::size_t kLine = 64;
  const auto until_finished = [&](std::uint64_t count) {
    while (replica.finished() < count && replica.next() &&
           replica.state().iterations < spec.iterations_max) {
      top_up(kLine);
      replica.advance(MonoTime::max(), true);
    }
  };
  // Once those of the beginning have ended, nothing is left of how it began.
  until_finished(first + static_cast<std::uint64_t>(held));
  struct Mark {
    std::uint64_t finished = 0;
    std::int64_t generated = 0, computed = 0;
    MonoTime at;
  };
  const auto mark = [&] {
    return Mark{replica.finished(), replica.generated(), replica.state().computed.count(),
                replica.next().value_or(MonoTime{})};
  };
  const std::size_t each =
      std::max(spec.requests_max / kBatches, static_cast<std::size_t>(held) / 2 + 10);
  std::vector<Mark> marks{mark()};
  double running = 0;
  const std::uint64_t preempted = replica.state().preemptions;
  for (std::size_t b = 0; b < kBatches; ++b) {
    until_finished(marks.back().finished + each);
    marks.push_back(mark());
    running += static_cast<double>(replica.state().running) / kBatches;
  }
  const Mark& from = marks.front();
  const Mark& to = marks.back();
  const double seconds = to_seconds(to.at - from.at);
  if (!(seconds > 0) || to.finished - from.finished < kFewest) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("only {} requests ended within {} iterations; that is too long to "
                            "simulate",
                            to.finished, replica.state().iterations));
  }
  Saturation out;
  out.preemptions = replica.state().preemptions - preempted;
  out.running = running;
  // Who ends when is chance; how fast tokens come hardly. In the long run both say the same.
  const auto rate = [&](const Mark& a, const Mark& b) {
    return static_cast<double>(b.generated - a.generated) / w.output_mean / to_seconds(b.at - a.at);
  };
  out.rate_per_s = rate(from, to);
  double squares = 0;
  for (std::size_t b = 0; b < kBatches; ++b) {
    const double off = rate(marks[b], marks[b + 1]) - out.rate_per_s;
    squares += off * off;
  }
  out.error_per_s = std::sqrt(squares / (kBatches * (kBatches - 1.0)));
  if (asked.engine.max_num_seqs > slots && running > 0.9 * static_cast<double>(slots)) {
    // 1/rate = iterations · (alpha/slots + work per request), of which the first part shrinks.
    const double fixed_s = asked.engine.cost.alpha_ms * 1e-3 * w.output_mean;
    const double less = fixed_s * (1 / static_cast<double>(slots) -
                                   1 / static_cast<double>(asked.engine.max_num_seqs));
    const double each_s = 1 / out.rate_per_s - less;
    if (each_s > 0) out.rate_per_s = 1 / each_s;
  }
  return out;
}

}  // namespace tailrace::simulate
