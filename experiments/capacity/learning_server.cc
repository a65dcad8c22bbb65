#include "capacity/learning_server.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tailrace/core/check.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/token_pace.h"
#include "tailrace/engine/batch_engine.h"
#include "tailrace/simulate/latency_oracle.h"

namespace tailrace::accuracy {
namespace {

/// One kind of length: fixed, or log-normal of the given mean and coefficient of variation.
Tokens draw(double mean, double cv, Rng& rng) {
  double value = mean;
  if (cv > 0) {
    const double variance = std::log1p(cv * cv);
    value = std::exp(std::log(mean) - variance / 2 + std::sqrt(variance) * rng.normal());
  }
  return Tokens(std::max<std::int64_t>(1, static_cast<std::int64_t>(std::llround(value))));
}

/// Poisson arrivals, one segment after the other.
class Arrivals {
 public:
  Arrivals(std::span<const Segment> segments, std::int64_t longest, const Rng& rng)
      : segments_(segments),
        longest_(longest),
        gaps_(rng.fork("gaps")),
        inputs_(rng.fork("inputs")),
        outputs_(rng.fork("outputs")) {
    step();
  }

  /// Nothing after the last.
  const std::optional<MonoTime>& time() const { return time_; }
  engine::SequenceSpec take() {
    const engine::SequenceSpec out = next_;
    step();
    return out;
  }

 private:
  void step() {
    time_.reset();
    // A Poisson process has no memory: a gap that leaves its segment begins anew in the next one.
    for (; current_ < segments_.size(); ++current_) {
      const Segment& segment = segments_[current_];
      const double end = begin_s_ + segment.seconds;
      if (segment.rate_per_s > 0) {
        now_s_ += gaps_.exponential() / segment.rate_per_s;
        if (now_s_ < end) {
          const Shape& shape = segment.shape;
          // What no engine could hold would be refused, and not be seen in any mean.
          next_ = {.id = engine::SequenceId(made_++),
                   .prompt_tokens =
                       std::min(draw(shape.input, shape.input_cv, inputs_), Tokens(longest_ / 2)),
                   .output_tokens = std::min(draw(shape.output, shape.output_cv, outputs_),
                                             Tokens(longest_ / 2))};
          time_ = MonoTime(from_seconds(now_s_));
          return;
        }
      }
      begin_s_ = now_s_ = end;
    }
  }

  std::span<const Segment> segments_;
  std::int64_t longest_;
  Rng gaps_, inputs_, outputs_;
  std::size_t current_ = 0;
  double begin_s_ = 0, now_s_ = 0;
  std::uint64_t made_ = 0;
  std::optional<MonoTime> time_;
  engine::SequenceSpec next_;
};

/// Sums over one segment, and what the engine was like at its end.
struct Sums {
  double begin_s = 0, end_s = 0;
  double arrived = 0, finished = 0, first_tokens = 0, waiting = 0;
  double input = 0, output = 0, input_squares = 0, output_squares = 0;
  double ttft_s = 0, gap_s = 0, gaps = 0, running_s = 0;
  std::optional<TokenPace> pace = std::nullopt;

  tune::Observation observation() const {
    const double span = end_s - begin_s;
    tune::Observation o;
    o.time_s = end_s;
    o.rate_per_s = arrived / span;
    o.running = running_s / span;
    o.requests = finished;
    o.waiting = waiting;
    if (finished > 0) {
      o.input_tokens = input / finished;
      o.output_tokens = output / finished;
      o.input_cv = cv(input, input_squares, finished);
      o.output_cv = cv(output, output_squares, finished);
    }
    if (first_tokens > 0) o.ttft_ms = 1e3 * ttft_s / first_tokens;
    if (gaps > 0) o.itl_ms = 1e3 * gap_s / gaps;
    if (pace && pace->per_stream_ms > 0) {
      o.itl_per_sequence_ms = pace->per_stream_ms;
      o.itl_per_sequence_error = pace->error_ms / pace->per_stream_ms;
    }
    return o;
  }

 private:
  static double cv(double sum, double squares, double count) {
    const double mean = sum / count;
    return std::sqrt(std::max(0.0, squares / count - mean * mean)) / mean;
  }
};

/// Runs one engine and keeps the books of its segments. What comes after the last is not counted.
class Server {
 public:
  Server(const engine::EngineConfig& engine, std::span<const Segment> segments,
         Duration pace_window, std::uint64_t seed)
      : engine_(engine),
        arrivals_(segments,
                  std::min(engine.max_model_len, engine.usable_blocks() * engine.block_tokens),
                  Rng(seed)),
        pace_(pace_window) {
    double at = 0;
    for (const Segment& segment : segments) {
      sums_.push_back({.begin_s = at, .end_s = at + segment.seconds});
      at += segment.seconds;
    }
  }

  std::vector<tune::Observation> run() {
    MonoTime now;
    while (current_ < sums_.size()) {
      take_until(now);
      const auto iteration = engine_.begin_iteration(now);
      if (!iteration) {
        if (!arrivals_.time()) break;
        now = *arrivals_.time();
        continue;
      }
      const std::size_t running = engine_.state().running;
      take_until(iteration->ends);
      settle(iteration->ends);
      for_parts(now, iteration->ends, [&](Sums& sums, double seconds) {
        sums.running_s += static_cast<double>(running) * seconds;
      });
      count(engine_.end_iteration(), iteration->ends, iteration->ends - now);
      now = iteration->ends;
    }
    settle(MonoTime::max());
    std::vector<tune::Observation> out;
    for (const Sums& sums : sums_) out.push_back(sums.observation());
    return out;
  }

 private:
  struct Life {
    MonoTime arrival, last_token;
    double input = 0, output = 0;
  };

  void take_until(MonoTime now) {
    while (arrivals_.time() && *arrivals_.time() <= now) {
      const MonoTime at = *arrivals_.time();
      settle(at);
      const engine::SequenceSpec sequence = arrivals_.take();
      lives_.push_back({at, at, static_cast<double>(sequence.prompt_tokens.count()),
                        static_cast<double>(sequence.output_tokens.count())});
      TAILRACE_CHECK(engine_.add(sequence, at).has_value());
      if (current_ < sums_.size()) ++sums_[current_].arrived;
    }
  }

  /// Closes the segments that have ended by `now`.
  void settle(MonoTime now) {
    for (; current_ < sums_.size() && sums_[current_].end_s <= to_seconds(now); ++current_) {
      Sums& sums = sums_[current_];
      sums.waiting = static_cast<double>(engine_.state().waiting);
      sums.pace = pace_.at(MonoTime(from_seconds(sums.end_s)));
    }
  }

  template <class Add>
  void for_parts(MonoTime from, MonoTime to, const Add& add) {
    const double begin = to_seconds(from), end = to_seconds(to);
    auto sums = std::upper_bound(sums_.begin(), sums_.end(), begin,
                                 [](double t, const Sums& s) { return t < s.end_s; });
    for (; sums != sums_.end() && sums->begin_s < end; ++sums) {
      add(*sums, std::min(end, sums->end_s) - std::max(begin, sums->begin_s));
    }
  }

  void count(const std::vector<engine::TokenEvent>& tokens, MonoTime at, Duration lasted) {
    const auto firsts = static_cast<std::uint64_t>(
        std::count_if(tokens.begin(), tokens.end(),
                      [](const engine::TokenEvent& e) { return e.generated == Tokens(1); }));
    const std::uint64_t decoding = tokens.size() - firsts;
    if (decoding > 0) pace_.iteration(at, lasted, decoding);
    for (std::uint64_t i = 0; i < firsts; ++i) pace_.first_token(at, decoding);
    Sums unused;
    Sums& sums = current_ < sums_.size() ? sums_[current_] : unused;
    for (const engine::TokenEvent& token : tokens) {
      Life& life = lives_[token.id.count()];
      if (token.generated == Tokens(1)) {
        ++sums.first_tokens;
        sums.ttft_s += to_seconds(at - life.arrival);
      } else {
        ++sums.gaps;
        sums.gap_s += to_seconds(at - life.last_token);
      }
      life.last_token = at;
      if (!token.finished) continue;
      ++sums.finished;
      sums.input += life.input;
      sums.output += life.output;
      sums.input_squares += life.input * life.input;
      sums.output_squares += life.output * life.output;
    }
  }

  engine::BatchEngine engine_;
  Arrivals arrivals_;
  TokenPaceMeter pace_;
  std::vector<Sums> sums_;
  std::size_t current_ = 0;
  std::vector<Life> lives_;
};

}  // namespace

queueing::Workload Shape::at(double rate_per_s) const {
  return queueing::Workload::of(rate_per_s, input, output, input_cv, output_cv);
}

std::vector<tune::Observation> serve(const engine::EngineConfig& engine,
                                     std::span<const Segment> segments, Duration pace_window,
                                     std::uint64_t seed) {
  return Server(engine, segments, pace_window, seed).run();
}

const tune::Observation& SteadyServer::at(double rate_per_s, const Shape& shape,
                                          std::uint64_t repeat) {
  const auto [it, is_new] = known_.try_emplace(Key(rate_per_s, shape.key(), repeat));
  if (is_new) {
    const queueing::Latency expected =
        queueing::latency_unchecked(simulate::service_model_of(engine_), shape.at(rate_per_s), {});
    // Long enough for a few generations of requests to have come and gone.
    const double warm_up_s =
        std::max(0.2 * requests_ / rate_per_s, 5e-3 * expected.e2e_ms.value_or(0));
    const Segment segments[] = {{rate_per_s, shape, warm_up_s},
                                {rate_per_s, shape, requests_ / rate_per_s}};
    it->second =
        serve(engine_, segments, from_seconds(segments[1].seconds), 1000 * seed_ + repeat)[1];
    it->second.requests = 60 * *it->second.rate_per_s;
  }
  return it->second;
}

}  // namespace tailrace::accuracy
