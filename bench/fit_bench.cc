// How many prompts' lengths are fitted a second, by family and sample size?
//
// Checks first that the fits recover the law that drew the samples, and prints no time where they
// do not. CPU time of one thread. Usage: fit_bench [--json]
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "tailrace/core/rng.h"
#include "tailrace/length/fit.h"

namespace {

using namespace tailrace;
using namespace tailrace::length;

constexpr double kMu = 5.2, kSigma = 0.6;
constexpr double kCap = 1024;
constexpr int kBatches = 5;

struct Task {
  std::string name;
  std::vector<Family> families;
  FitOptions options;
};

double cpu_s() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Whole tokens from a log-t law, cut at the cap where `cut`.
std::vector<LengthSample> samples(int count, int n, bool cut, Rng rng) {
  std::vector<LengthSample> out;
  for (int i = 0; i < count; ++i) {
    LengthSample sample{std::to_string(i), {}, {}};
    if (cut) sample.cap = kCap;
    for (int j = 0; j < n; ++j) {
      const double length = std::max(1.0, std::ceil(std::exp(kMu + kSigma * rng.student_t(3.5))));
      sample.lengths.push_back(cut ? std::min(length, kCap) : length);
    }
    out.push_back(std::move(sample));
  }
  return out;
}

/// The mean over the samples of the fitted mu and sigma is the law's, within a few parts in a
/// hundred (whole tokens, and the bias of a small sample).
bool recovers_the_law(const std::vector<LengthSample>& all) {
  double mu = 0, sigma = 0;
  for (const LengthSample& sample : all) {
    const auto fit = fit_family(Family::kLogT, sample);
    if (!fit || !fit->law) return false;
    mu += fit->law->as_log_t()->mu;
    sigma += fit->law->as_log_t()->sigma;
  }
  const auto count = static_cast<double>(all.size());
  return std::fabs(mu / count - kMu) < 0.03 && std::fabs(sigma / count - kSigma) < 0.05;
}

/// Prompts a second: the median over batches.
double prompts_per_s(const Task& task, const std::vector<LengthSample>& all) {
  std::vector<double> rates;
  for (int batch = 0; batch < kBatches; ++batch) {
    const double start = cpu_s();
    for (const LengthSample& sample : all) {
      if (!fit_families(task.families, sample, task.options)) return 0;
    }
    rates.push_back(static_cast<double>(all.size()) / (cpu_s() - start));
  }
  return median(std::move(rates));
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  if (argc > 1 && !json) {
    fmt::print(stderr, "fit_bench: unknown argument {}; give --json or nothing\n", argv[1]);
    return 2;
  }
  FitOptions free_nu;
  free_nu.nu.reset();
  const std::vector<Family> closed = {Family::kLogT,    Family::kLogNormal,   Family::kGamma,
                                      Family::kWeibull, Family::kExponential, Family::kLomax};
  std::vector<Task> tasks;
  for (const Family family : closed)
    tasks.push_back({std::string(family_name(family)), {family}, {}});
  tasks.push_back({"all six", closed, {}});
  tasks.push_back({"log-t, nu free", {Family::kLogT}, free_nu});
  tasks.push_back({"mixture", {Family::kMixture}, {}});

  const Rng rng(20260402);
  const std::vector<int> sizes = {20, 100, 1000};
  std::vector<std::vector<LengthSample>> sets;  // two for each size: open, and cut at the cap
  for (const int n : sizes) {
    for (const bool cut : {false, true}) {
      sets.push_back(samples(std::max(20, 4000 / n), n, cut, rng.fork(std::to_string(n))));
      if (recovers_the_law(sets.back())) continue;
      fmt::print(stderr, "fit_bench: {} samples of {} do not give back their law\n",
                 sets.back().size(), n);
      return 1;
    }
  }
  if (!json) {
    fmt::print(
        "prompts fitted a second, one thread      n = 20           n = 100          n = 1000\n");
    fmt::print(
        "(whole tokens; cut: cap {:.0f})        open      cut     open      cut     open      "
        "cut\n",
        kCap);
  }
  std::string document;
  for (const Task& task : tasks) {
    std::string line;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const double rate = prompts_per_s(task, sets[i]);
      line += fmt::format(" {:>8.0f}", rate);
      document += fmt::format("{}\"{}, n {}{}\":{:.0f}", document.empty() ? "" : ",", task.name,
                              sizes[i / 2], i % 2 == 0 ? "" : ", cut", rate);
    }
    if (!json) fmt::print("{:<28}{}\n", task.name, line);
  }
  if (json) fmt::print("{{{}}}\n", document);
  return 0;
}
