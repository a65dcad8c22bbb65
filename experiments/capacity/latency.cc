// The latency formulas against the emulated engine: means and percentiles, capacity, stability.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "capacity/latency_cases.h"
#include "capacity/sections.h"
#include "tailrace/core/check.h"
#include "tailrace/simulate/latency_oracle.h"

namespace tailrace::accuracy {
namespace {

using queueing::Detail;
using queueing::Latency;
using queueing::Mode;
using queueing::OutOfRange;
using queueing::ServiceModel;
using queueing::Workload;

constexpr double kMeanLimit = 5, kPercentileLimit = 15, kCapacityLimit = 5;  // %
constexpr double kFlaggedShare = 0.2;
/// Not the oracle's, whose requests would come at the same times.
constexpr std::uint64_t kReferenceSeed = 11;
constexpr std::array kLoads{0.3, 0.5, 0.67, 0.8, 0.9};
constexpr std::array kOverloads{1.02, 1.05, 1.2};
constexpr std::array kModes{Mode::kClosedForm, Mode::kChain, Mode::kCorrected};

double percent(double model, double truth) {
  return 100 * (model / truth - 1);
}

std::string cell(std::optional<double> model, double truth) {
  return model ? fmt::format("{:+.1f}", percent(*model, truth)) : "–";
}

std::string law_of(const Case& c) {
  return c.law == Law::kFixed ? "fixed" : "log-t";
}

/// The largest error so far, what it was of, and how often the limit was missed.
struct Worst {
  double limit = 0, error = 0;
  std::string where = "nothing";
  int count = 0, missed = 0;

  void see(double model, double truth, const std::string& of) {
    const double e = percent(model, truth);
    ++count;
    if (!(std::abs(e) <= limit)) ++missed;
    if (!(std::abs(e) <= std::abs(error))) error = e, where = of;
  }
  std::string said() const {
    return fmt::format("worst {:+.1f} % ({}); {} of {} beyond {:.0f} %", error, where, missed,
                       count, limit);
  }
};

Latency ask(const ServiceModel& model, const Workload& workload) {
  auto out = queueing::latency(
      model, workload, model.mode == Mode::kCorrected ? Detail::kPercentiles : Detail::kMeans);
  TAILRACE_CHECK(out.has_value());
  return *out;
}

class LatencySection {
 public:
  LatencySection(std::FILE* out, bool quick)
      : out_(out), quick_(quick), oracle_(simulate::make_latency_oracle()) {}

  int print() {
    line("## Latency and capacity of one replica\n");
    line(
        "The three models of `queueing` against the emulated engine of the simulator (Poisson "
        "arrivals, first come first served), at the same iteration times: what is measured is the "
        "error of the queueing mathematics alone. Models get the moments of the lengths that the "
        "engine meets; the published modes use the means. log-t: ν 3.5, σ 0.75, cut at 16 times "
        "the mean, CV 1.81. Rates are shares of the largest rate, which is measured on an engine "
        "that never runs out of requests. Without a word about it, the token budget and memory "
        "are unlimited, a request takes one iteration more than tokens (the published "
        "semantics), and 256 sequences fit into the batch. Presets have their own limits, and "
        "their knee.\n");
    print_grid();
    print_capacity();
    print_stability();
    return missed_;
  }

 private:
  void line(std::string_view text) { fmt::print(out_, "{}\n", text); }

  void limit_line(const std::string& what, const Worst& worst) {
    line(fmt::format("- {}: {}", what, worst.said()));
    missed_ += worst.missed;
  }

  Latency with_oracle(ServiceModel model, const Workload& workload) const {
    model.oracle = oracle_;
    return ask(model, workload);
  }

  void print_grid() {
    line("### Means and percentiles\n");
    line(
        "Milliseconds and errors in %. TTFT and ITL of the simulator with their standard errors; "
        "P90 and P99 are of single requests' TTFT and of single gaps between tokens; the latter "
        "may lie "
        "on either side of a step between iterations with and without prompts, and no limit is set "
        "for them. \"oracle\": the corrected model says that it is out of range, "
        "and these are the errors of its answer with the simulator as its oracle "
        "(up to a million requests of another seed), which is what counts for the limits.\n");
    line(
        "| replica | lengths | load | TTFT | P90 | P99 | ITL | its P90 | its P99 | closed form "
        "TTFT "
        "/ ITL | chain TTFT / ITL | corrected TTFT / P90 / P99, ITL / P90 / P99 | oracle |");
    line("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    Worst ttft{.limit = kMeanLimit}, itl{.limit = kMeanLimit};
    Worst p90{.limit = kPercentileLimit}, p99{.limit = kPercentileLimit};
    Worst gap_p90{.limit = kPercentileLimit}, gap_p99{.limit = kPercentileLimit};
    std::vector<Case> cases = grid_cases();
    if (quick_) cases = {cases[4], cases[5], cases[14]};
    int flagged = 0, cells = 0;
    for (const Case& c : cases) {
      const double limit = largest_rate(c, quick_ ? 20'000 : 200'000).value;
      for (const double load : kLoads) {
        const bool varies = load > 0.85 || (c.law == Law::kLogT && load > 0.6);
        const std::size_t requests = quick_        ? 60'000
                                     : load > 0.85 ? 4'000'000
                                     : varies      ? 1'000'000
                                                   : 300'000;
        simulate::ReplicaSpec spec = replica_of(c, kReferenceSeed, requests);
        spec.rate_per_s = load * limit;
        const Workload w = workload_of(c, spec.rate_per_s);
        const Latency formula = ask(model_of(c, Mode::kCorrected), w);
        spec.begin_with = static_cast<std::int64_t>(formula.concurrency.value_or(0));
        const auto run = simulate::run_replica(spec);
        TAILRACE_CHECK(run.has_value());
        const Latency closed = ask(model_of(c, Mode::kClosedForm), w);
        const Latency chain = ask(model_of(c, Mode::kChain), w);
        const auto errors = [&](const Latency& a) {
          using queueing::Percentiles;
          const auto of = [](const std::optional<Percentiles>& p, double Percentiles::* at) {
            return p ? std::optional((*p).*at) : std::nullopt;
          };
          const auto p = a.ttft_percentiles_ms, gap = a.itl_percentiles_ms;
          return fmt::format("{} / {} / {}, {} / {} / {}", cell(a.ttft_ms, run->ttft_ms),
                             cell(of(p, &Percentiles::p90), run->ttft_percentiles_ms.p90),
                             cell(of(p, &Percentiles::p99), run->ttft_percentiles_ms.p99),
                             cell(a.itl_ms, run->itl_ms),
                             cell(of(gap, &Percentiles::p90), run->itl_percentiles_ms.p90),
                             cell(of(gap, &Percentiles::p99), run->itl_percentiles_ms.p99));
        };
        Latency answer = formula;
        std::string oracle;
        if (formula.out_of_range != OutOfRange::kNone || !formula.stable) {
          answer = with_oracle(model_of(c, Mode::kCorrected), w);
          oracle = fmt::format("{}: {}", to_string(formula.out_of_range), errors(answer));
          ++flagged;
        }
        ++cells;
        line(fmt::format(
            "| {} | {} | {:.2f} | {:.1f} ± {:.1f} | {:.0f} | {:.0f} | {:.2f} ± {:.2f} | {:.1f} | "
            "{:.1f} | {} / {} | {} / {} | {} | {} |",
            c.name, law_of(c), load, run->ttft_ms, run->ttft_error_ms, run->ttft_percentiles_ms.p90,
            run->ttft_percentiles_ms.p99, run->itl_ms, run->itl_error_ms,
            run->itl_percentiles_ms.p90, run->itl_percentiles_ms.p99,
            cell(closed.ttft_ms, run->ttft_ms), cell(closed.itl_ms, run->itl_ms),
            cell(chain.ttft_ms, run->ttft_ms), cell(chain.itl_ms, run->itl_ms), errors(formula),
            oracle));
        const std::string where = fmt::format("{}, {}, load {:.2f}", c.name, law_of(c), load);
        ttft.see(answer.ttft_ms.value_or(0), run->ttft_ms, where);
        itl.see(answer.itl_ms.value_or(0), run->itl_ms, where);
        const auto p = answer.ttft_percentiles_ms.value_or(queueing::Percentiles{});
        p90.see(p.p90, run->ttft_percentiles_ms.p90, where);
        p99.see(p.p99, run->ttft_percentiles_ms.p99, where);
        const auto gap = answer.itl_percentiles_ms.value_or(queueing::Percentiles{});
        gap_p90.see(gap.p90, run->itl_percentiles_ms.p90, where);
        gap_p99.see(gap.p99, run->itl_percentiles_ms.p99, where);
      }
    }
    line("\nCorrected model, with the oracle where it is out of range:\n");
    limit_line("mean TTFT", ttft);
    limit_line("mean ITL", itl);
    limit_line("P90 of TTFT", p90);
    limit_line("P99 of TTFT", p99);
    line(fmt::format("- P90 of single gaps: {}", gap_p90.said()));
    line(fmt::format("- P99 of single gaps: {}", gap_p99.said()));
    line(fmt::format("- out of range: {} of {} cells\n", flagged, cells));
  }

  std::optional<double> rate_of(const Case& c, const ServiceModel& model, OutOfRange* reason) {
    queueing::Targets targets;
    targets.ttft_ms = c.ttft_target_ms;
    targets.itl_ms = c.itl_target_ms;
    const auto sizing = queueing::size(model, workload_of(c, 0), targets);
    TAILRACE_CHECK(sizing.has_value());
    if (reason != nullptr) *reason = sizing->out_of_range;
    return sizing->reachable ? std::optional(sizing->rate_per_s) : std::nullopt;
  }

  void print_capacity() {
    line("### Capacity under targets for mean TTFT and mean ITL\n");
    line(fmt::format(
        "λ\\* is the largest rate at which both means keep their targets: found on the simulator "
        "with the same {} requests at every rate, mean and standard error over {} seeds. Errors "
        "in % of it. Out of range is a rate that what its latencies may be off by could move by "
        "more "
        "than 4 %. The oracle knows of lengths no more than the formula, their moments, and takes "
        "answers as the formula's percentiles do, as log-t of 3.5 degrees of freedom, cut at 16 "
        "times their mean: here the truth. Where memory binds, answers of another family with the "
        "same moments would move λ\\* by several percent.\n",
        quick_ ? "40,000" : "200,000", quick_ ? 1 : 2));
    line(
        "| replica | lengths | TTFT, ITL | λ\\* | share of the largest rate | closed form | chain "
        "| corrected | out of range | with oracle |");
    line("|---|---|---|---|---|---|---|---|---|---|");
    Worst formula_all{.limit = kCapacityLimit}, answers{.limit = kCapacityLimit};
    std::vector<Case> cases = capacity_cases();
    if (quick_) cases = {cases[0], cases[1]};
    int flagged = 0;
    for (const Case& c : cases) {
      const double limit = largest_rate(c, quick_ ? 20'000 : 200'000).value;
      const Measured truth = capacity(c, limit, quick_ ? 1 : 2, quick_ ? 40'000 : 200'000);
      OutOfRange reason = OutOfRange::kNone;
      std::array<std::optional<double>, kModes.size()> rates;
      for (std::size_t m = 0; m < kModes.size(); ++m) {
        rates[m] = rate_of(c, model_of(c, kModes[m]), &reason);
      }
      const std::string where =
          fmt::format("{}, {}, {}/{} ms", c.name, law_of(c), c.ttft_target_ms, c.itl_target_ms);
      std::string with;
      double answer = rates[2].value_or(0);
      if (reason != OutOfRange::kNone) {
        ++flagged;
        ServiceModel model = model_of(c, Mode::kCorrected);
        model.oracle = oracle_;
        answer = rate_of(c, model, nullptr).value_or(0);
        with = cell(answer, truth.value);
      } else {
        formula_all.see(answer, truth.value, where);
      }
      answers.see(answer, truth.value, where);
      line(fmt::format("| {} | {} | {}, {} | {:.3f} ± {:.3f} | {:.2f} | {} | {} | {} | {} | {} |",
                       c.name, law_of(c), c.ttft_target_ms, c.itl_target_ms, truth.value,
                       truth.error, truth.value / limit, cell(rates[0], truth.value),
                       cell(rates[1], truth.value), cell(rates[2], truth.value), to_string(reason),
                       with));
    }
    line("\nCorrected model:\n");
    line(fmt::format("- where it is in range: {}", formula_all.said()));
    limit_line("with the oracle where it is not", answers);
    const auto most = static_cast<int>(kFlaggedShare * static_cast<double>(cases.size()));
    line(fmt::format("- out of range: {} of {} rows; at most {} may be\n", flagged, cases.size(),
                     most));
    if (flagged > most) ++missed_;
  }

  void print_stability() {
    line("### Stability\n");
    line(
        "The largest rate, measured, and the models' own, in % of it. Then who calls rates above "
        "it stable: the simulator's line grows there, by about the share of the requests that "
        "is too much, shown at 1.05 for the last of 60,000 requests.\n");
    line(
        "| replica | lengths | largest rate | closed form | chain | corrected | waiting at 1.05 | "
        "closed form says stable at | chain at | corrected at |");
    line("|---|---|---|---|---|---|---|---|---|---|");
    std::vector<Case> cases = grid_cases();
    for (const Case& c : capacity_cases()) {
      if (c.own) cases.push_back(c);
    }
    if (quick_) cases = {cases[4], cases[5]};
    Worst limits{.limit = kCapacityLimit};
    int wrong = 0, asked = 0, not_growing = 0;
    for (const Case& c : cases) {
      const Measured limit = largest_rate(c, quick_ ? 20'000 : 200'000);
      std::array<std::string, kModes.size()> errors, stable_at;
      for (std::size_t m = 0; m < kModes.size(); ++m) {
        const Latency at = ask(model_of(c, kModes[m]), workload_of(c, 0.5 * limit.value));
        errors[m] = cell(at.max_rate_per_s, limit.value);
        for (const double times : kOverloads) {
          const Workload w = workload_of(c, times * limit.value);
          // Of a formula that says that it is out of range the oracle is asked.
          const Latency over = kModes[m] == Mode::kCorrected
                                   ? with_oracle(model_of(c, kModes[m]), w)
                                   : ask(model_of(c, kModes[m]), w);
          if (over.stable) {
            stable_at[m] += fmt::format("{}{:.2f}", stable_at[m].empty() ? "" : ", ", times);
          }
          if (kModes[m] != Mode::kCorrected) continue;
          ++asked;
          if (over.stable) ++wrong;
        }
        if (kModes[m] == Mode::kCorrected) {
          limits.see(at.max_rate_per_s, limit.value, fmt::format("{}, {}", c.name, law_of(c)));
        }
      }
      simulate::ReplicaSpec spec = replica_of(c, 7, quick_ ? 20'000 : 60'000);
      spec.rate_per_s = 1.05 * limit.value;
      spec.begin_with = std::min<std::int64_t>(c.limits.max_num_seqs, 2000);
      const auto run = simulate::run_replica(spec);
      TAILRACE_CHECK(run.has_value());
      if (c.limits.max_num_seqs <= 1024 &&
          static_cast<double>(run->waiting_end) < 0.01 * static_cast<double>(spec.requests_max)) {
        ++not_growing;
      }
      line(fmt::format("| {} | {} | {:.3f} ± {:.3f} | {} | {} | {} | {} | {} | {} | {} |", c.name,
                       law_of(c), limit.value, limit.error, errors[0], errors[1], errors[2],
                       run->waiting_end, stable_at[0], stable_at[1], stable_at[2]));
    }
    line(
        fmt::format("\n- corrected says stable at {} of {} rates above the largest", wrong, asked));
    line(fmt::format("- its own largest rate: {}", limits.said()));
    line(fmt::format(
        "- the simulator's line does not grow at 1.05 on {} of {} replicas with a cap: answers of "
        "one length that begin together end together, and an engine that never runs out of them, "
        "as the largest rate is measured, does less than one whose requests come at random\n",
        not_growing, cases.size()));
    missed_ += wrong;
  }

  std::FILE* out_;
  bool quick_;
  std::shared_ptr<const queueing::LatencyOracle> oracle_;
  int missed_ = 0;
};

}  // namespace

int print_latency(std::FILE* out, const Options& options) {
  return LatencySection(out, options.quick).print();
}

}  // namespace tailrace::accuracy
