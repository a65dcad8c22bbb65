// Prints docs/autoscaler-scenario.md: the fixed scenario under the autoscaler and under others.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "autoscaler/clairvoyant.h"
#include "autoscaler/laws.h"
#include "autoscaler/scenario.h"
#include "tailrace/core/check.h"

namespace tailrace::scenario {
namespace {

constexpr double kSteadyMin = 0.99, kWholeMin = 0.95, kReplicasMax = 1.25;
constexpr int kChangesMax = 1;
constexpr std::int64_t kPodsMax = 10;  ///< of tp8 under an HPA
constexpr double kConstantSeconds = 2'400, kConstantFrom = 600;

struct Score {
  std::vector<double> goodput;  ///< of each segment
  double whole = 0, replicas = 0, cost = 0;

  double steady() const {
    double least = 1;
    const auto all = segments();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].steady) least = std::min(least, goodput[i]);
    }
    return least;
  }
};

Score score(const Result<autoscaler::FleetRun>& run) {
  TAILRACE_CHECK(run.has_value());
  Score out;
  for (const Segment& s : segments()) {
    out.goodput.push_back(run->goodput(kTargets, s.from_s, s.to_s));
  }
  out.whole = run->goodput(kTargets, 0, duration_s());
  out.replicas = run->engine_s() / clairvoyant_engine_s(profile(), duration_s());
  const auto kinds = variants(0, 0);
  double cost = 0;
  for (std::size_t v = 0; v < kinds.size(); ++v) cost += kinds[v].cost * run->totals.engine_s[v];
  out.cost = cost / clairvoyant_cost_s(profile(), duration_s());
  return out;
}

std::int64_t total(const std::vector<std::int64_t>& of) {
  return std::accumulate(of.begin(), of.end(), std::int64_t{0});
}

int changes_of_direction(const autoscaler::FleetRun& run) {
  int changes = 0;
  std::int64_t direction = 0;
  for (std::size_t i = 1; i < run.cycles.size(); ++i) {
    const std::int64_t change = total(run.cycles[i].wanted) - total(run.cycles[i - 1].wanted);
    if (change == 0 || run.cycles[i].time_s <= kConstantFrom) continue;
    if (direction != 0 && (change > 0) != (direction > 0)) ++changes;
    direction = change;
  }
  return changes;
}

struct Contender {
  std::string name;
  std::function<Result<autoscaler::FleetRun>(const autoscaler::SimulatedFleet&)> run;
};

Contender by_settings(const std::string& name, const std::string& text, bool published) {
  auto config = settings(text);
  if (published) config.optimizer.shrink = capacity::ShrinkRule::kPublished;
  return {name, [config](const autoscaler::SimulatedFleet& fleet) {
            return autoscaler::run_fleet(fleet, config);
          }};
}

Contender by_pods(const std::string& name, PodAutoscaler::Metric metric, double target) {
  return {name, [=](const autoscaler::SimulatedFleet& fleet) {
            // Kubernetes adds to each variant by itself, up to a limit of its own.
            return autoscaler::run_fleet(
                fleet, PodAutoscaler(metric, target, {1, 1}, {kTp4Max, kPodsMax}));
          }};
}

std::vector<Contender> others() {
  return {by_settings("published analyzer", published_text(), true),
          by_pods("HPA, 50 requests in each replica", PodAutoscaler::Metric::kConcurrency, 50),
          by_pods("HPA, 40 requests in each replica", PodAutoscaler::Metric::kConcurrency, 40),
          by_pods("KEDA, 5 waiting for each replica", PodAutoscaler::Metric::kQueue, 5)};
}

void line(const std::string& text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

int print_scenario(std::uint64_t seeds) {
  int missed = 0;
  line("| seed | base | ramp | plateau | fall | lull | whole | replica-seconds | cost |");
  line("|---|---|---|---|---|---|---|---|---|");
  const Contender ours = by_settings("tailrace", settings_text(), false);
  Score worst;
  worst.goodput.assign(segments().size(), 1);
  worst.whole = 1;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const Score s = score(ours.run(fleet(seed)));
    std::string row = fmt::format("| {} |", seed);
    for (std::size_t i = 0; i < s.goodput.size(); ++i) {
      row += fmt::format(" {:.2f} |", 100 * s.goodput[i]);
      worst.goodput[i] = std::min(worst.goodput[i], s.goodput[i]);
    }
    worst.whole = std::min(worst.whole, s.whole);
    worst.replicas = std::max(worst.replicas, s.replicas);
    line(row + fmt::format(" {:.2f} | {:.3f} | {:.3f} |", 100 * s.whole, s.replicas, s.cost));
  }
  line("");
  const auto limit = [&](bool holds, const std::string& text) {
    line(fmt::format("- {}: {}", text, holds ? "holds" : "**missed**"));
    missed += holds ? 0 : 1;
  };
  limit(worst.steady() >= kSteadyMin, fmt::format("steady segments at least {:g} %, worst {:.2f} %",
                                                  100 * kSteadyMin, 100 * worst.steady()));
  limit(worst.whole >= kWholeMin, fmt::format("the whole at least {:g} %, worst {:.2f} %",
                                              100 * kWholeMin, 100 * worst.whole));
  limit(worst.replicas <= kReplicasMax,
        fmt::format("replica-seconds at most {:g} times the clairvoyant's, worst {:.3f}",
                    kReplicasMax, worst.replicas));
  return missed;
}

int print_constant(std::uint64_t seeds) {
  line("\n## Constant load\n");
  line(
      "30 minutes after ten of beginning. A change of direction is an increase that follows a "
      "decrease, or the other way round, of the sum over both variants.\n");
  line("| requests/s | changes of direction, by seed | goodput, worst |");
  line("|---|---|---|");
  const Contender ours = by_settings("tailrace", settings_text(), false);
  int most = 0;
  for (const double rate : {kBaseRate, kPeakRate}) {
    std::string changes;
    double worst = 1;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      const Mix mix = cheapest_mix(rate);
      const auto run =
          ours.run(constant_fleet(rate, kConstantSeconds, mix.tp4, std::max(1, mix.tp8), seed));
      TAILRACE_CHECK(run.has_value());
      const int n = changes_of_direction(*run);
      most = std::max(most, n);
      changes += fmt::format("{}{}", changes.empty() ? "" : ", ", n);
      worst = std::min(worst, run->goodput(kTargets, kConstantFrom, kConstantSeconds));
    }
    line(fmt::format("| {:g} | {} | {:.2f} % |", rate, changes, 100 * worst));
  }
  line(fmt::format("\n- at most {} change of direction in 30 minutes: {}", kChangesMax,
                   most <= kChangesMax ? "holds" : "**missed**"));
  return most <= kChangesMax ? 0 : 1;
}

void print_others(std::uint64_t seeds) {
  line("\n## Others on the same load\n");
  line(
      "Means over the first three seeds; \"steady\" is the worst steady segment of the worst "
      "seed.\n");
  line("| who | whole | steady | replica-seconds | cost |");
  line("|---|---|---|---|---|");
  auto all = others();
  all.insert(all.begin(), by_settings("tailrace", settings_text(), false));
  for (const Contender& who : all) {
    double whole = 0, steady = 1, replicas = 0, cost = 0;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      const Score s = score(who.run(fleet(seed)));
      whole += s.whole, replicas += s.replicas, cost += s.cost;
      steady = std::min(steady, s.steady());
    }
    const auto n = static_cast<double>(seeds);
    line(fmt::format("| {} | {:.2f} % | {:.2f} % | {:.3f} | {:.3f} |", who.name, 100 * whole / n,
                     100 * steady, replicas / n, cost / n));
  }
}

void print_table() {
  for (int tp4 = 0; tp4 <= kTp4Max; ++tp4) {
    std::string row = "      {";
    for (int tp8 = 0; tp8 <= kTp8Max; ++tp8) {
      row += fmt::format("{}{:.2f}", tp8 == 0 ? "" : ", ", measure_largest_rate({tp4, tp8}));
    }
    line(row + "},");
  }
}

int run(int argc, char** argv) {
  CLI::App app{"The fixed scenario of the autoscaler, in simulation"};
  std::uint64_t seeds = 10;
  bool table = false;
  app.add_option("--seeds", seeds, "How many runs of each")->capture_default_str();
  app.add_flag("--table", table, "Measure what each mix of replicas carries, and nothing else");
  CLI11_PARSE(app, argc, argv);
  if (table) {
    print_table();
    return 0;
  }
  line(preface());
  int missed = print_scenario(seeds);
  missed += print_constant(seeds);
  print_others(std::min<std::uint64_t>(seeds, 3));
  return missed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tailrace::scenario

int main(int argc, char** argv) {
  return tailrace::scenario::run(argc, argv);
}
