// How fast are the length law's answers, and how exact is the fast path?
//
// Checks its results first and prints no time where they are wrong. Usage: length_bench [--json]
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

#include "length/moment_table.h"
#include "tailrace/core/rng.h"
#include "tailrace/length/tie_score.h"

namespace {

using namespace tailrace;
using namespace tailrace::length;
using Clock = std::chrono::steady_clock;

constexpr double kAllowedError = 1e-5;
constexpr int kTimedQueries = 1'000'000;
constexpr int kCheckedQueries = 100'000;
constexpr int kBatch = 1'000;  // queries between two readings of the clock

struct Query {
  LengthLaw law;
  double cap;
};

double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// mu 0..9, sigma 0.01..2.5 (half of them evenly on the log scale), caps 16..131072.
std::vector<Query> random_queries(int count, Rng& rng) {
  std::vector<Query> queries;
  for (int i = 0; i < count; ++i) {
    const double mu = 9 * rng.uniform();
    const double sigma =
        i % 2 == 0 ? 0.01 + 2.49 * rng.uniform() : 0.01 * std::pow(250, rng.uniform());
    const double cap = std::round(16 * std::pow(8192, rng.uniform()));
    queries.push_back({LengthLaw::log_t(mu, sigma).value(), cap});
  }
  return queries;
}

struct Errors {
  double mean = 0, cvar = 0, score = 0;
};

Errors table_errors(const std::vector<Query>& queries) {
  Errors worst;
  for (const Query& q : queries) {
    const CappedMoments fast = q.law.capped_moments_fast(q.cap);
    const double mean = q.law.capped_mean(q.cap);
    const double cvar = q.law.capped_cvar(0.9, q.cap);
    worst.mean = std::max(worst.mean, std::fabs(fast.mean / mean - 1));
    worst.cvar = std::max(worst.cvar, std::fabs(fast.cvar / cvar - 1));
    for (const double beta : {0.1, 0.5}) {
      const double exact = mean + beta * cvar;
      worst.score = std::max(worst.score, std::fabs((fast.mean + beta * fast.cvar) / exact - 1));
    }
  }
  return worst;
}

double sink = 0;  // what is computed here is used, so no compiler leaves it out

/// The median over batches of the time of one call, ns.
template <class F>
double time_per_call_ns(const std::vector<Query>& queries, int count, int batch, F&& call) {
  std::vector<double> times;
  for (int at = 0; at + batch <= count; at += batch) {
    const auto start = Clock::now();
    for (int i = at; i < at + batch; ++i) sink += call(queries[static_cast<std::size_t>(i)]);
    times.push_back(ns_since(start) / batch);
  }
  return median(std::move(times));
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  if (argc > 1 && !json) {
    fmt::print(stderr, "length_bench: unknown argument {}; give --json or nothing\n", argv[1]);
    return 2;
  }

  const auto build_start = Clock::now();
  const MomentTable table;
  const double build_ms = ns_since(build_start) / 1e6;
  LengthLaw::warm_up();

  Rng rng(20260401);
  const auto queries = random_queries(kTimedQueries, rng);
  const Errors errors = table_errors({queries.begin(), queries.begin() + kCheckedQueries});
  if (!(std::max({errors.mean, errors.cvar, errors.score}) <= kAllowedError)) {
    fmt::print(stderr, "length_bench: the table is off by mean {:.2e}, cvar {:.2e}, score {:.2e}\n",
               errors.mean, errors.cvar, errors.score);
    return 1;
  }

  const double table_ns = time_per_call_ns(queries, kTimedQueries, kBatch, [](const Query& q) {
    const CappedMoments m = q.law.capped_moments_fast(q.cap);
    return m.mean + m.cvar;
  });
  const double quadrature_ns = time_per_call_ns(queries, 50'000, kBatch, [](const Query& q) {
    return q.law.capped_mean(q.cap) + q.law.capped_cvar(0.9, q.cap);
  });
  const double monte_carlo_ns = time_per_call_ns(queries, 100, 1, [&rng](const Query& q) {
    const CappedMoments m = monte_carlo_moments(q.law, q.cap, 0.9, rng);
    return m.mean + m.cvar;
  });
  const double inverse_ns = time_per_call_ns(queries, 500, 1, [](const Query& q) {
    return q.law.mean_inverse(Tokens{static_cast<std::int64_t>(q.cap)});
  });
  const double gittins_ns = time_per_call_ns(queries, 500, 1, [](const Query& q) {
    return q.law.gittins_rank(Tokens{0}, Tokens{static_cast<std::int64_t>(q.cap)}, kScoreQuantum);
  });
  const double ratio = monte_carlo_ns / table_ns;

  if (json) {
    fmt::print(
        "{{\"table_error_mean\":{},\"table_error_cvar\":{},\"table_error_score\":{},"
        "\"table_bytes\":{},\"table_build_ms\":{},\"table_ns\":{},\"quadrature_ns\":{},"
        "\"monte_carlo_ns\":{},\"monte_carlo_over_table\":{},\"mean_inverse_ns\":{},"
        "\"gittins_ns\":{}}}\n",
        errors.mean, errors.cvar, errors.score, table.bytes(), build_ms, table_ns, quadrature_ns,
        monte_carlo_ns, ratio, inverse_ns, gittins_ns);
  } else {
    fmt::print(
        "table against quadrature, {} random laws and caps: largest relative error\n"
        "  mean {:.2e}   cvar {:.2e}   score {:.2e}   (allowed {:.0e})\n",
        kCheckedQueries, errors.mean, errors.cvar, errors.score, kAllowedError);
    fmt::print("table            {:>12} bytes, built in {:.0f} ms\n", table.bytes(), build_ms);
    fmt::print("mean and CVaR    {:>12.1f} ns   table, median of {} random queries\n", table_ns,
               kTimedQueries);
    fmt::print("                 {:>12.1f} ns   quadrature\n", quadrature_ns);
    fmt::print("                 {:>12.1f} ns   10,000 fresh draws each: {:.0f} times the table\n",
               monte_carlo_ns, ratio);
    fmt::print("E[1/L]           {:>12.1f} ns   exact\n", inverse_ns);
    fmt::print("Gittins rank     {:>12.1f} ns   exact, age 0\n", gittins_ns);
  }
  return std::isfinite(sink) ? 0 : 1;
}
