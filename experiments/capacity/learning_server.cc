#include "capacity/learning_server.h"

#include <algorithm>
#include <cmath>

#include "tailrace/core/check.h"
#include "tailrace/core/rng.h"
#include "tailrace/simulate/simulation.h"

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

class Segments final : public simulate::Workload {
 public:
  Segments(std::span<const Segment> segments, std::int64_t longest, const Rng& rng)
      : segments_(segments),
        longest_(longest),
        gaps_(rng.fork("gaps")),
        inputs_(rng.fork("inputs")),
        outputs_(rng.fork("outputs")) {}

  Result<bool> next(simulate::Request& out) override {
    // A Poisson process has no memory: a gap that leaves its segment begins anew in the next one.
    for (; current_ < segments_.size(); ++current_) {
      const Segment& segment = segments_[current_];
      const double end = begin_s_ + segment.seconds;
      if (segment.rate_per_s > 0) {
        now_s_ += gaps_.exponential() / segment.rate_per_s;
        if (now_s_ < end) {
          const Shape& shape = segment.shape;
          out = {};
          out.id = made_++;
          out.arrival = MonoTime(from_seconds(now_s_));
          out.prompt = draw(shape.input, shape.input_cv, inputs_);
          out.output = draw(shape.output, shape.output_cv, outputs_);
          // What no engine could hold would be refused, and not be seen in any mean.
          out.prompt = std::min(out.prompt, Tokens(longest_ / 2));
          out.output = std::min(out.output, Tokens(longest_ / 2));
          out.cap = out.output;
          return true;
        }
      }
      begin_s_ = now_s_ = end;
    }
    return false;
  }

 private:
  std::span<const Segment> segments_;
  std::int64_t longest_;
  Rng gaps_, inputs_, outputs_;
  std::size_t current_ = 0;
  double begin_s_ = 0, now_s_ = 0;
  std::uint64_t made_ = 0;
};

/// Sums over one segment.
struct Sums {
  double begin_s = 0, end_s = 0;
  double arrived = 0, finished = 0, first_tokens = 0, waiting = 0;
  double input = 0, output = 0, input_squares = 0, output_squares = 0;
  double ttft_s = 0, gap_s = 0, gaps = 0, running_s = 0;
};

class Book {
 public:
  explicit Book(std::span<const Segment> segments) {
    double at = 0;
    for (const Segment& segment : segments) {
      sums_.push_back({.begin_s = at, .end_s = at + segment.seconds});
      at += segment.seconds;
    }
  }

  void add(const simulate::RequestRecord& record) {
    TAILRACE_CHECK(record.end == simulate::End::kCompleted);
    const double arrival = seconds(record.arrival);
    const double admitted = seconds(*record.admitted);
    const double first = seconds(*record.first_token);
    const double finished = seconds(*record.finished);
    const auto input = static_cast<double>(record.prompt.count());
    const auto output = static_cast<double>(record.output.count());
    at(arrival, [](Sums& s) { ++s.arrived; });
    at(first, [&](Sums& s) {
      ++s.first_tokens;
      s.ttft_s += first - arrival;
    });
    at(finished, [&](Sums& s) {
      ++s.finished;
      s.input += input;
      s.output += output;
      s.input_squares += input * input;
      s.output_squares += output * output;
    });
    for (std::size_t i = index(arrival); i < sums_.size() && sums_[i].begin_s < finished; ++i) {
      Sums& s = sums_[i];
      s.running_s += overlap(s, admitted, finished);
      // Its gaps, spread evenly over the time from its first to its last token.
      if (output > 1) {
        const double stretch = overlap(s, first, finished);
        s.gap_s += stretch;
        s.gaps += (output - 1) * stretch / (finished - first);
      }
      if (arrival < s.end_s && admitted >= s.end_s) ++s.waiting;
    }
  }

  std::vector<tune::Observation> observations() const {
    std::vector<tune::Observation> all;
    for (const Sums& s : sums_) {
      const double span = s.end_s - s.begin_s;
      tune::Observation o;
      o.time_s = s.end_s;
      o.rate_per_s = s.arrived / span;
      o.running = s.running_s / span;
      o.requests = s.finished;
      o.waiting = s.waiting;
      if (s.finished > 0) {
        o.input_tokens = s.input / s.finished;
        o.output_tokens = s.output / s.finished;
        o.input_cv = cv(s.input, s.input_squares, s.finished);
        o.output_cv = cv(s.output, s.output_squares, s.finished);
      }
      if (s.first_tokens > 0) o.ttft_ms = 1e3 * s.ttft_s / s.first_tokens;
      if (s.gaps > 0) o.itl_ms = 1e3 * s.gap_s / s.gaps;
      all.push_back(o);
    }
    return all;
  }

 private:
  static double seconds(MonoTime time) { return to_seconds(time); }
  static double overlap(const Sums& s, double from, double to) {
    return std::max(0.0, std::min(to, s.end_s) - std::max(from, s.begin_s));
  }
  static double cv(double sum, double squares, double count) {
    const double mean = sum / count;
    return std::sqrt(std::max(0.0, squares / count - mean * mean)) / mean;
  }
  std::size_t index(double at_s) const {
    const auto after = std::upper_bound(sums_.begin(), sums_.end(), at_s,
                                        [](double t, const Sums& s) { return t < s.end_s; });
    return static_cast<std::size_t>(after - sums_.begin());
  }
  template <class Change>
  void at(double at_s, const Change& change) {
    const std::size_t i = index(at_s);
    if (i < sums_.size()) change(sums_[i]);
  }

  std::vector<Sums> sums_;
};

}  // namespace

queueing::Workload Shape::at(double rate_per_s) const {
  return queueing::Workload::of(rate_per_s, input, output, input_cv, output_cv);
}

std::vector<tune::Observation> serve(const engine::EngineConfig& engine,
                                     std::span<const Segment> segments, std::uint64_t seed) {
  simulate::RunSpec spec;
  spec.fleet.engine = engine;
  spec.seed = seed;
  Book book(segments);
  const std::int64_t longest =
      std::min(engine.max_model_len, engine.usable_blocks() * engine.block_tokens);
  Segments workload(segments, longest, Rng(seed));
  const auto totals = simulate::run(
      spec, workload, [&](const simulate::RequestRecord& record) { book.add(record); });
  TAILRACE_CHECK(totals.has_value());
  return book.observations();
}

const tune::Observation& SteadyServer::at(double rate_per_s, const Shape& shape,
                                          std::uint64_t repeat) {
  const auto [it, is_new] = known_.try_emplace(Key(rate_per_s, shape.key(), repeat));
  if (is_new) {
    const queueing::Latency expected =
        queueing::latency_unchecked(model_of(engine_), shape.at(rate_per_s), {});
    // Long enough for a few generations of requests to have come and gone.
    const double warm_up_s =
        std::max(0.2 * requests_ / rate_per_s, 5e-3 * expected.e2e_ms.value_or(0));
    const Segment segments[] = {{rate_per_s, shape, warm_up_s},
                                {rate_per_s, shape, requests_ / rate_per_s}};
    it->second = serve(engine_, segments, 1000 * seed_ + repeat)[1];
    it->second.requests = 60 * *it->second.rate_per_s;
  }
  return it->second;
}

queueing::ServiceModel model_of(const engine::EngineConfig& engine) {
  queueing::ServiceModel model;
  model.iteration = {.alpha_ms = engine.cost.alpha_ms,
                     .beta_ms = engine.cost.beta_ms,
                     .gamma_ms = engine.cost.gamma_ms,
                     .knee_tokens = engine.cost.knee_tokens,
                     .per_request_ms = engine.cost.per_request_ms};
  model.limits.max_num_seqs = engine.max_num_seqs;
  model.limits.max_batched_tokens = engine.max_batched_tokens;
  model.limits.kv_tokens = engine.usable_blocks() * engine.block_tokens;
  return model;
}

}  // namespace tailrace::accuracy
