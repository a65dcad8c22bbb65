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
#include "autoscaler/plan.h"
#include "autoscaler/scenario.h"
#include "tailrace/core/check.h"
#include "tailrace/core/text.h"

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
    const auto all = simulated_scenario().segments();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].steady) least = std::min(least, goodput[i]);
    }
    return least;
  }
};

Score score(const Scenario& scenario, const Result<autoscaler::FleetRun>& run) {
  TAILRACE_CHECK(run.has_value());
  Score out;
  for (const Segment& s : scenario.segments()) {
    out.goodput.push_back(run->goodput(kTargets, s.from_s, s.to_s));
  }
  out.whole = run->goodput(kTargets, 0, scenario.duration_s());
  const Clairvoyant least = clairvoyant(scenario);
  out.replicas = run->engine_s() / least.engine_s;
  double cost = 0;
  for (std::size_t v = 0; v < scenario.kinds.size(); ++v) {
    cost += scenario.kinds[v].cost * run->totals.engine_s[v];
  }
  out.cost = cost / least.cost_s;
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
                fleet, PodAutoscaler(metric, target, {1, 1}, {kFirstMax, kPodsMax}));
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

int print_scenario(const Scenario& scenario, std::uint64_t seeds) {
  int missed = 0;
  line("| seed | base | ramp | plateau | fall | lull | whole | replica-seconds | cost |");
  line("|---|---|---|---|---|---|---|---|---|");
  const Contender ours = by_settings("tailrace", settings_text(), false);
  Score worst;
  worst.goodput.assign(scenario.segments().size(), 1);
  worst.whole = 1;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const Score s = score(scenario, ours.run(scenario.fleet(seed)));
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
  const Scenario& scenario = simulated_scenario();
  for (const double rate : {scenario.base_rate, scenario.peak_rate}) {
    std::string changes;
    double worst = 1;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      Mix mix = cheapest_mix(scenario, rate);
      mix.second = std::max(1, mix.second);
      const auto run = ours.run(scenario.constant_fleet(rate, kConstantSeconds, mix, seed));
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
  const Scenario& scenario = simulated_scenario();
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
      const Score s = score(scenario, who.run(scenario.fleet(seed)));
      whole += s.whole, replicas += s.replicas, cost += s.cost;
      steady = std::min(steady, s.steady());
    }
    const auto n = static_cast<double>(seeds);
    line(fmt::format("| {} | {:.2f} % | {:.2f} % | {:.3f} | {:.3f} |", who.name, 100 * whole / n,
                     100 * steady, replicas / n, cost / n));
  }
}

void print_table(const Scenario& scenario) {
  for (int first = 0; first <= kFirstMax; ++first) {
    std::string row = "      {";
    for (int second = 0; second <= kSecondMax; ++second) {
      const double rate = measure_largest_rate(scenario, {first, second});
      row += fmt::format("{}{:.2f}", second == 0 ? "" : ", ", rate);
    }
    line(row + "},");
  }
}

int run(int argc, char** argv) {
  CLI::App app{"The fixed scenario of the autoscaler, in simulation"};
  std::uint64_t seeds = 10;
  bool table = false, real = false;
  app.add_option("--seeds", seeds, "How many runs of each")->capture_default_str();
  app.add_flag("--table", table, "Measure what each mix of replicas carries, and nothing else");
  app.add_flag("--real", real, "The scenario of real processes instead, no other autoscalers");
  std::string requests_file;
  double warm_up_s = 0;
  std::uint64_t seed = 1;
  app.add_option("--plan", requests_file,
                 "Write the requests of the scenario of real processes there, and print the rest");
  app.add_option("--warm-up", warm_up_s, "With --plan: seconds of the base load before");
  app.add_option("--seed", seed, "With --plan: of the requests")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (!requests_file.empty()) {
    const auto written =
        core::write_file_atomically(requests_file, plan_requests(real_scenario(), warm_up_s, seed));
    TAILRACE_CHECK(written.has_value());
    fmt::print("{}", plan_json(real_scenario()));
    return 0;
  }
  if (table) {
    print_table(real ? real_scenario() : simulated_scenario());
    return 0;
  }
  if (real) return print_scenario(real_scenario(), seeds) == 0 ? 0 : 1;
  line(preface());
  int missed = print_scenario(simulated_scenario(), seeds);
  missed += print_constant(seeds);
  print_others(std::min<std::uint64_t>(seeds, 3));
  return missed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tailrace::scenario

int main(int argc, char** argv) {
  return tailrace::scenario::run(argc, argv);
}
