// How fast are the length law's answers, and how exact are the fast paths?
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
#include "tailrace/length/residual_table.h"
#include "tailrace/length/tie_score.h"

namespace {

using namespace tailrace;
using namespace tailrace::length;
using Clock = std::chrono::steady_clock;

constexpr double kAllowedError = 1e-5;
constexpr double kAllowedTableError = 1e-3;  // of ResidualTable and of E[1/L]
constexpr int kTables = 32;       // as many answers as TIE runs at a time; their tables stay cached
constexpr int kManyTables = 256;  // a large engine's, asked in random order
constexpr int kCheckedAges = 20'000;
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

// ---- E[1/L] and the ratio -----------------------------------------------------------------------

struct InverseFigures {
  double error = 0, ns = 0, exact_ns = 0, ratio_ns = 0;
};

Tokens whole(double cap) {
  return Tokens{static_cast<std::int64_t>(cap)};
}

InverseFigures measure_inverse(const std::vector<Query>& queries) {
  InverseFigures figures;
  std::vector<Query> served;  // the table's range begins at sigma 0.03
  for (const Query& q : queries) {
    if (q.law.as_log_t()->sigma >= 0.03) served.push_back(q);
  }
  for (int i = 0; i < 2'000; ++i) {
    const Query& q = served[static_cast<std::size_t>(i)];
    const double exact = q.law.mean_inverse(whole(q.cap));
    figures.error =
        std::max(figures.error, std::fabs(q.law.mean_inverse_fast(whole(q.cap)) / exact - 1));
  }
  figures.exact_ns = time_per_call_ns(
      served, 500, 1, [](const Query& q) { return q.law.mean_inverse(whole(q.cap)); });
  figures.ns = time_per_call_ns(served, 200'000, kBatch, [](const Query& q) {
    return q.law.mean_inverse_fast(whole(q.cap));
  });
  figures.ratio_ns = time_per_call_ns(
      served, 200'000, kBatch, [](const Query& q) { return q.law.ratio_index_fast(whole(q.cap)); });
  return figures;
}

// ---- what is left of running answers ------------------------------------------------------------

struct ResidualFigures {
  double mean_error = 0, rank_error = 0;
  double build_us = 0, bytes = 0;
  double survival_ns = 0, mean_ns = 0, rank_ns = 0, quantile_ns = 0;
  double exact_mean_ns = 0, exact_rank_ns = 0, exact_quantile_ns = 0;
};

struct Running {
  std::size_t job = 0;
  Tokens age{0};
};

/// Random log-t laws with caps of 2,048 to 131,072 tokens, at ages that half of the answers reach.
ResidualFigures measure_residual(int jobs, Rng& rng) {
  ResidualFigures figures;
  std::vector<LengthLaw> laws;
  std::vector<Tokens> caps;
  std::vector<ResidualTable> tables;
  std::vector<double> build_us, bytes;
  for (int i = 0; i < jobs; ++i) {
    laws.push_back(
        LengthLaw::log_t(3 + 5 * rng.uniform(), 0.03 * std::pow(100, rng.uniform())).value());
    caps.push_back(Tokens{std::int64_t{2048} << rng.below(7)});
    const auto start = Clock::now();
    tables.emplace_back(laws.back(), caps.back(), kScoreQuantum);
    build_us.push_back(ns_since(start) / 1e3);
    bytes.push_back(static_cast<double>(tables.back().bytes()));
  }
  figures.build_us = median(build_us);
  figures.bytes = median(bytes);

  std::vector<Running> running;
  for (int i = 0; i < kTimedQueries; ++i) {
    const std::size_t job = rng.below(static_cast<std::uint64_t>(jobs));
    const auto cap = static_cast<double>(caps[job].count());
    const double reached = std::min(cap, 2 * laws[job].quantile(0.02 + 0.97 * rng.uniform()));
    running.push_back({job, whole(std::min(cap - 1, reached * rng.uniform()))});
  }
  for (int i = 0; i < kCheckedAges; ++i) {
    const auto [job, age] = running[static_cast<std::size_t>(i)];
    const double mean = laws[job].mean_residual(age, caps[job]);
    figures.mean_error =
        std::max(figures.mean_error, std::fabs(tables[job].mean_residual(age) / mean - 1));
    if (i % 10 != 0) continue;
    const double rank = laws[job].gittins_rank(age, caps[job], kScoreQuantum);
    figures.rank_error =
        std::max(figures.rank_error, std::fabs(tables[job].gittins_rank(age) / rank - 1));
  }

  const auto time = [&](int count, int batch, auto&& call) {
    std::vector<double> times;
    for (int at = 0; at + batch <= count; at += batch) {
      const auto start = Clock::now();
      for (int i = at; i < at + batch; ++i) sink += call(running[static_cast<std::size_t>(i)]);
      times.push_back(ns_since(start) / batch);
    }
    return median(std::move(times));
  };
  const auto fast = [&](auto&& ask) {
    return time(kTimedQueries, kBatch, [&](const Running& r) { return ask(tables[r.job], r.age); });
  };
  figures.survival_ns = fast([](const auto& t, Tokens age) { return t.survival(age); });
  figures.mean_ns = fast([](const auto& t, Tokens age) { return t.mean_residual(age); });
  figures.rank_ns = fast([](const auto& t, Tokens age) { return t.gittins_rank(age); });
  figures.quantile_ns = fast([](const auto& t, Tokens age) {
    return static_cast<double>(t.residual_quantile(0.9, age).count());
  });
  const auto exact = [&](auto&& ask) {
    return time(1'000, 1, [&](const Running& r) { return ask(laws[r.job], r.age, caps[r.job]); });
  };
  figures.exact_mean_ns =
      exact([](const auto& law, Tokens age, Tokens cap) { return law.mean_residual(age, cap); });
  figures.exact_rank_ns = exact([](const auto& law, Tokens age, Tokens cap) {
    return law.gittins_rank(age, cap, kScoreQuantum);
  });
  figures.exact_quantile_ns = exact([](const auto& law, Tokens age, Tokens cap) {
    return static_cast<double>(law.residual_quantile(0.9, age, cap).count());
  });
  return figures;
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
  const InverseFigures inverse = measure_inverse(queries);
  const ResidualFigures residual = measure_residual(kTables, rng);
  const double rank_of_many_ns = measure_residual(kManyTables, rng).rank_ns;
  if (!(std::max({inverse.error, residual.mean_error, residual.rank_error}) <=
        kAllowedTableError)) {
    fmt::print(stderr,
               "length_bench: off by {:.2e} in E[1/L], {:.2e} in the mean residual, {:.2e} in the "
               "Gittins rank\n",
               inverse.error, residual.mean_error, residual.rank_error);
    return 1;
  }
  const double ratio = monte_carlo_ns / table_ns;

  if (json) {
    fmt::print(
        "{{\"table_error_mean\":{},\"table_error_cvar\":{},\"table_error_score\":{},"
        "\"table_bytes\":{},\"table_build_ms\":{},\"table_ns\":{},\"quadrature_ns\":{},"
        "\"monte_carlo_ns\":{},\"monte_carlo_over_table\":{},",
        errors.mean, errors.cvar, errors.score, table.bytes(), build_ms, table_ns, quadrature_ns,
        monte_carlo_ns, ratio);
    fmt::print(
        "\"mean_inverse_error\":{},\"mean_inverse_ns\":{},\"mean_inverse_fast_ns\":{},"
        "\"ratio_fast_ns\":{},",
        inverse.error, inverse.exact_ns, inverse.ns, inverse.ratio_ns);
    fmt::print(
        "\"residual_error_mean\":{},\"residual_error_rank\":{},\"residual_build_us\":{},"
        "\"residual_bytes\":{},\"residual_survival_ns\":{},\"residual_mean_ns\":{},"
        "\"residual_rank_ns\":{},\"residual_quantile_ns\":{},\"residual_mean_exact_ns\":{},"
        "\"gittins_ns\":{},\"residual_quantile_exact_ns\":{}}}\n",
        residual.mean_error, residual.rank_error, residual.build_us, residual.bytes,
        residual.survival_ns, residual.mean_ns, residual.rank_ns, residual.quantile_ns,
        residual.exact_mean_ns, residual.exact_rank_ns, residual.exact_quantile_ns);
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
    fmt::print("E[1/L]           {:>12.1f} ns   tables, off by {:.1e} at most\n", inverse.ns,
               inverse.error);
    fmt::print("                 {:>12.1f} ns   exact\n", inverse.exact_ns);
    fmt::print("E[L]/E[1/L]      {:>12.1f} ns   tables\n", inverse.ratio_ns);
    fmt::print(
        "\n{} residual tables, quantum {}, at {} random ages: off by {:.1e} in the mean, {:.1e} in "
        "the rank\n",
        kTables, kScoreQuantum.count(), kTimedQueries, residual.mean_error, residual.rank_error);
    fmt::print("one table        {:>12.1f} µs   to build, {:.0f} bytes (medians)\n",
               residual.build_us, residual.bytes);
    fmt::print("survival         {:>12.1f} ns\n", residual.survival_ns);
    fmt::print("mean residual    {:>12.1f} ns   exact path {:.0f} ns\n", residual.mean_ns,
               residual.exact_mean_ns);
    fmt::print("Gittins rank     {:>12.1f} ns   exact path {:.0f} ns\n", residual.rank_ns,
               residual.exact_rank_ns);
    fmt::print("                 {:>12.1f} ns   among {} tables\n", rank_of_many_ns, kManyTables);
    fmt::print("quantile 0.9     {:>12.1f} ns   exact path {:.0f} ns\n", residual.quantile_ns,
               residual.exact_quantile_ns);
  }
  return std::isfinite(sink) ? 0 : 1;
}
