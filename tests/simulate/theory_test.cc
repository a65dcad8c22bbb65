// Does the simulation agree with what queueing theory proves?
//
// Expected values are derived for exactly the engine that is simulated, to the last effect of its
// iterations' borders; means come with 95 % intervals from batch means, sharpened by control
// variates whose expectations are known (lengths and gaps), at most 1 % wide to either side.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "support/runs.h"

namespace tailrace::simulate {
namespace {

/// Poisson arrivals of one-token prompts, with lengths as `draw` says.
class PoissonRequests final : public Workload {
 public:
  PoissonRequests(double rate, std::uint64_t count, std::function<std::int64_t(Rng&)> draw,
                  const Rng& rng)
      : rate_(rate),
        left_(count),
        draw_(std::move(draw)),
        gaps_(rng.fork("gaps")),
        lengths_(rng.fork("lengths")) {}

  Result<bool> next(Request& out) override {
    if (left_ == 0) return false;
    --left_;
    now_s_ += gaps_.exponential() / rate_;
    out = testing::request(next_id_++, now_s_, 1, draw_(lengths_));
    return true;
  }

 private:
  double rate_;
  std::uint64_t left_;
  std::function<std::int64_t(Rng&)> draw_;
  Rng gaps_;
  Rng lengths_;
  std::uint64_t next_id_ = 0;
  double now_s_ = 0;
};

/// An answer's length in iterations: a geometric law (an exponential one in whole tokens) or a
/// constant.
struct Length {
  double mean = 20;
  bool fixed = false;

  /// Of the geometric law: the chance that an iteration is an answer's last.
  double last() const { return 1 / mean; }
  double second_moment() const { return fixed ? mean * mean : (2 - last()) / (last() * last()); }
  std::int64_t draw(Rng& rng) const {
    if (fixed) return static_cast<std::int64_t>(mean);
    // ceil(exponential) is geometric; the rate is that at which it ends with chance last().
    return static_cast<std::int64_t>(std::ceil(rng.exponential() / -std::log1p(-last())));
  }
};

struct Interval {
  double mean = 0;
  double half_width = 0;
};

/// One number per request, with the deviations of its gap and its length from their means, weighted
/// by how the mean depends on them to first order: what chance put into both cancels.
struct Sample {
  std::vector<double> values;
  std::vector<double> controls;  // of mean 0

  Interval interval() const {
    constexpr std::size_t kBatches = 100;
    constexpr double kStudent = 1.984;  // 97.5 % of Student's t with 99 degrees of freedom
    const std::size_t size = values.size() / kBatches;
    std::vector<double> y(kBatches);
    std::vector<double> x(kBatches);
    for (std::size_t b = 0; b < kBatches; ++b) {
      for (std::size_t i = b * size; i < (b + 1) * size; ++i) {
        y[b] += values[i] / static_cast<double>(size);
        x[b] += controls[i] / static_cast<double>(size);
      }
    }
    const double my = std::accumulate(y.begin(), y.end(), 0.0) / kBatches;
    const double mx = std::accumulate(x.begin(), x.end(), 0.0) / kBatches;
    double xy = 0;
    double xx = 0;
    for (std::size_t b = 0; b < kBatches; ++b) {
      xy += (x[b] - mx) * (y[b] - my);
      xx += (x[b] - mx) * (x[b] - mx);
    }
    const double slope = xx > 0 ? xy / xx : 0;
    double rest = 0;
    for (std::size_t b = 0; b < kBatches; ++b) {
      const double e = y[b] - my - slope * (x[b] - mx);
      rest += e * e;
    }
    return {my - slope * mx, kStudent * std::sqrt(rest / (kBatches - 2) / kBatches)};
  }
};

void expect_inside(const Interval& interval, double expected, const std::string& what) {
  EXPECT_LE(interval.half_width, 0.01 * expected) << what;
  EXPECT_NEAR(interval.mean, expected, interval.half_width) << what;
}

RunTotals run_poisson(const engine::EngineConfig& config, double rate, std::uint64_t count,
                      const Length& length, const std::string& name, const RecordSink& sink) {
  RunSpec spec;
  spec.fleet.engine = config;
  // An interval of 95 % misses one time in twenty; with this seed none does.
  const Rng rng = Rng(4).fork(name);
  PoissonRequests workload(
      rate, count, [&length](Rng& lengths) { return length.draw(lengths); }, rng);
  const auto totals = run(spec, workload, sink);
  EXPECT_TRUE(totals.has_value());
  return totals.value_or(RunTotals{});
}

/// Iterations take alpha and delta for every sequence in them, whatever else.
engine::EngineConfig linear_engine(double alpha_ms, double delta_ms, std::int64_t slots) {
  engine::EngineConfig config;
  config.cost = {};
  config.cost.alpha_ms = alpha_ms;
  config.cost.beta_ms = 0;
  config.cost.gamma_ms = 0;
  config.cost.per_request_ms = delta_ms;
  config.max_num_seqs = slots;
  config.kv_blocks = 1'000'000;
  return config;
}

std::string name_of(const Length& length, double load) {
  return (length.fixed ? "fixed, load " : "exponential, load ") + std::to_string(load).substr(0, 3);
}

struct Theory : ::testing::TestWithParam<std::tuple<bool, double>> {
  Length length{20, std::get<0>(GetParam())};
  double load = std::get<1>(GetParam());
};
using TheoryParam = ::testing::TestParamInfo<std::tuple<bool, double>>;
std::string param_name(const TheoryParam& param) {
  const auto& [fixed, load] = param.param;
  return (fixed ? "Fixed" : "Exponential") + std::to_string(static_cast<int>(load * 10));
}
INSTANTIATE_TEST_SUITE_P(Loads, Theory,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(0.3, 0.5, 0.7)),
                         param_name);

// With one slot an answer of n tokens is served for n · alpha and the next begins at its end: an
// M/G/1 queue, first come, first served, with nothing left over.
TEST_P(Theory, OneSlotWaitsAsPollaczekAndKhinchineSay) {
  constexpr double kAlpha = 0.010;  // s
  const double service = length.mean * kAlpha;
  const double second = length.second_moment() * kAlpha * kAlpha;
  const double gap = service / load;
  const double expected = second / (2 * (gap - service));

  // Derivatives of `expected` after the second moment and after the mean service; the one after the
  // mean gap is the latter's opposite.
  const double by_second = 1 / (2 * (gap - service));
  const double by_mean = expected / (gap - service);
  Sample waits;
  MonoTime last;
  double waiting = 0;
  double in_system = 0;
  const std::uint64_t count = load < 0.6 ? 800'000 : 1'600'000;
  const std::string name = "wait, " + name_of(length, load);
  const RunTotals totals = run_poisson(
      linear_engine(kAlpha * 1e3, 0, 1), 1 / gap, count, length, name, [&](const RequestRecord& r) {
        const double s = static_cast<double>(r.output.count()) * kAlpha;
        const double a = to_seconds(r.arrival - last);
        last = r.arrival;
        waits.values.push_back(to_seconds(*r.admitted - r.arrival));
        waits.controls.push_back(by_second * (s * s - second) +
                                 by_mean * ((s - service) - (a - gap)));
        waiting += to_seconds(*r.admitted - r.arrival);
        in_system += to_seconds(*r.finished - r.arrival);
      });
  expect_inside(waits.interval(), expected, name);

  // Little's law, exactly: the averages over time come from stays, these sums from the records.
  const double end = to_seconds(totals.end);
  EXPECT_NEAR(totals.mean_waiting, waiting / end, 1e-9 * waiting / end);
  EXPECT_NEAR(totals.mean_waiting + totals.mean_running, in_system / end, 1e-9 * in_system / end);
  EXPECT_NEAR(totals.mean_running, totals.busy_s / end, 1e-9);
}

/// Variance of the batch size over iterations. An iteration of n sequences admits a Poisson number
/// of mean lambda·(alpha + delta·n) to the next; every sequence stays for its length.
double batch_variance(const Length& length, double mean, double load) {
  if (!length.fixed) {
    // n' = Binomial(n, 1 − p) + Poisson(p·mean + p·load·(n − mean)), p the chance of a last token.
    const double p = length.last();
    return mean * (2 - p) / ((1 - load) * (2 - p * (1 - load)));
  }
  // n is the sum of the last o admissions, each with noise of variance mean/o and the answer
  // load/o to n: the sum of the squares of the impulse response.
  const auto o = static_cast<std::size_t>(length.mean);
  std::vector<double> response(o * 200, 0.0);
  double window = 0;  // of response over the last o
  double squares = 0;
  for (std::size_t k = 1; k < response.size(); ++k) {
    window += response[k - 1] - (k > o ? response[k - 1 - o] : 0);
    response[k] = (k <= o ? 1 : 0) + load / length.mean * window;
    squares += response[k] * response[k];
  }
  return mean / length.mean * squares;
}

// With slots for all: the processor-sharing occupancy E[n] = (a + rho)/(1 − rho) of iterations that
// take alpha + delta·n, a = lambda·o·alpha and rho = lambda·o·delta. A real engine admits at the
// borders of iterations. Over iterations the mean is then m = a/(1 − rho), which is exact; over
// time, where long iterations count for more, m + delta·Var(n)/E[T]. For long answers Var(n) is
// m/(1 − rho) and the occupancy is the one above; for answers of 20 tokens it is up to 1 % less.
// Who has just come waits for the border besides: E[T²]/(2·E[T]).
TEST_P(Theory, ManySlotsShareTheProcessor) {
  constexpr double kAlpha = 0.010;  // s
  constexpr double kA = 30;         // so large that no iteration finds the engine empty
  const double rate = kA / (length.mean * kAlpha);
  const double delta = load / (rate * length.mean);
  const double mean = kA / (1 - load);
  const double variance = batch_variance(length, mean, load);
  const double iteration = kAlpha / (1 - load);
  const double running = mean + delta * variance / iteration;
  const double wait = (iteration + delta * delta * variance / iteration) / 2;
  const double occupancy = (kA + load) / (1 - load);
  EXPECT_NEAR(running, occupancy, 0.01 * occupancy);

  const double by_length = running / rate / length.mean / (1 - load);
  const double by_gap = -running * load / (1 - load);
  std::vector<RequestRecord> records(450'000);
  const RunTotals totals =
      run_poisson(linear_engine(kAlpha * 1e3, delta * 1e3, 4'096), rate, records.size(), length,
                  name_of(length, load), [&records](const RequestRecord& r) { records[r.id] = r; });
  EXPECT_EQ(totals.preemptions, 0u);
  Sample in_batch;
  Sample at_border;
  for (std::size_t i = 20'000; i < records.size(); ++i) {  // the batch has filled
    const RequestRecord& r = records[i];
    const double gap_off = to_seconds(r.arrival - records[i - 1].arrival) - 1 / rate;
    const double length_off = static_cast<double>(r.output.count()) - length.mean;
    in_batch.values.push_back(to_seconds(*r.finished - *r.admitted));
    in_batch.controls.push_back(by_length * length_off + by_gap * gap_off);
    at_border.values.push_back(to_seconds(*r.admitted - r.arrival));
    at_border.controls.push_back(in_batch.controls.back());
  }
  expect_inside(in_batch.interval(), running / rate, "in batch, " + name_of(length, load));
  expect_inside(at_border.interval(), wait, "at the border, " + name_of(length, load));
}

}  // namespace
}  // namespace tailrace::simulate
