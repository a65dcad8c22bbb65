// The section on learning: how fast, how near, how honest about it, and what must not teach.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "capacity/learning_injection.h"
#include "capacity/learning_runs.h"
#include "capacity/learning_twins.h"
#include "capacity/sections.h"

namespace tailrace::accuracy {
namespace {

constexpr double kHeld = 0.85;
constexpr std::array<const char*, 3> kMarks = {"3 cycles", "10 cycles", "all"};

/// Largest error of lambda* that is allowed after 3, 10 and all cycles.
std::array<double, 3> limits(const Pattern& pattern) {
  return {0.30, 0.15, pattern.varies ? 0.05 : 0.15};
}

std::string percent(std::optional<double> value) {
  if (!value) return "none";
  char text[32];
  std::snprintf(text, sizeof text, "%+.1f %%", 100 * *value);
  return text;
}

struct Worst {
  int runs = 0, missed = 0;
  std::array<std::optional<double>, 3> error;  ///< the largest; empty: no answer
  std::array<int, 3> covered{}, intervals{};

  void add(const Score& score, const Pattern& pattern) {
    ++runs;
    const auto allowed = limits(pattern);
    for (std::size_t mark = 0; mark < allowed.size(); ++mark) {
      const auto found = score.error[mark];
      if (!found || std::fabs(*found) > allowed[mark]) ++missed;
      // No answer is the worst.
      if (runs == 1 || (error[mark] && (!found || std::fabs(*found) > std::fabs(*error[mark])))) {
        error[mark] = found;
      }
      // A run without an interval holds nothing.
      ++intervals[mark];
      if (score.covered[mark].value_or(false)) ++covered[mark];
    }
  }
};

struct Setting {
  Feed feed;
  Columns columns;
  std::vector<std::uint64_t> seeds;

  /// Whether limits are set for it.
  bool counts() const { return columns == Columns::kAll && feed != Feed::kInterval; }
};

struct Coverage {
  std::array<int, 3> covered{}, intervals{};

  template <class Runs>
  void add(const Runs& runs) {
    for (std::size_t m = 0; m < covered.size(); ++m) {
      covered[m] += runs.covered[m];
      intervals[m] += runs.intervals[m];
    }
  }
};

/// Returns at how many marks the interval holds the truth too rarely.
int print_coverage(std::FILE* out, const std::vector<Feeder>& feeders,
                   const std::vector<Coverage>& coverage) {
  std::fprintf(
      out,
      "### Does the interval hold the truth?\n\nRuns whose reported interval (90 %%) does; "
      "limit 85 %% of all runs at each mark.\n\n| server | runs | %s | %s | %s "
      "|\n|---|---|---|---|---|\n",
      kMarks[0], kMarks[1], kMarks[2]);
  Coverage total;
  const auto line = [&](const char* name, const Coverage& c) {
    std::fprintf(out, "| %s | %d |", name, c.intervals[0]);
    for (std::size_t m = 0; m < c.covered.size(); ++m) {
      std::fprintf(out, " %.1f %% |", 100.0 * c.covered[m] / c.intervals[m]);
    }
    std::fprintf(out, "\n");
  };
  for (std::size_t f = 0; f < feeders.size(); ++f) {
    line(feeders[f].subject().name.c_str(), coverage[f]);
    total.add(coverage[f]);
  }
  line("all", total);
  std::fprintf(out, "\n");
  int missed = 0;
  for (std::size_t m = 0; m < 3; ++m) missed += total.covered[m] < kHeld * total.intervals[m];
  return missed;
}

std::string mark(const std::optional<double>& error, double allowed) {
  std::string text = percent(error);
  if (!error || std::fabs(*error) > allowed) text = "**" + text + "**";
  return text;
}

}  // namespace

int print_learning(std::FILE* out, const Options& options) {
  int missed = 0;
  const double requests = options.quick ? 1'000 : 20'000;
  std::vector<Setting> settings = {
      {Feed::kSteady, Columns::kAll, {1}},
      {Feed::kSteady, Columns::kBare, {1}},
      {Feed::kNoise, Columns::kAll, {1, 2, 3, 4, 5}},
      {Feed::kNoise, Columns::kBare, {1, 2, 3, 4, 5}},
      {Feed::kInterval, Columns::kAll, {1, 2, 3}},
  };
  if (options.quick) {
    for (Setting& setting : settings) setting.seeds.resize(1);
  }
  std::fprintf(
      out,
      "## Learning from a cold start\n\n"
      "The server is the emulated engine. lambda\\* is the rate that one replica takes under the "
      "TTFT and ITL that the true model has at 0.8 of its maximum rate; errors are of the "
      "estimate's lambda\\* against the truth's, both by the corrected formula. Limits: 30 %% "
      "after "
      "3 cycles, 15 %% after 10, 5 %% at the end (15 %% where the load never changes). Beyond a "
      "limit: **bold**. Each cell is the worst of its runs. All columns: with what one more "
      "sequence adds to a gap between tokens, as the gateway measures it, which 3 %% noise is on "
      "too. Without it, and where a minute holds too few requests to measure it, nothing shows the "
      "granite sample's gamma, eight times that of real engines, before its load has varied: those "
      "two kinds of runs are there for comparison, and do not count as missed.\n\n");
  auto subjects = learning_subjects();
  if (options.quick) subjects.resize(2);
  std::vector<Feeder> feeders;
  for (const Subject& subject : subjects) feeders.emplace_back(subject, requests);

  std::vector<Coverage> coverage(feeders.size());
  for (const Setting& setting : settings) {
    std::fprintf(
        out, "### %s, %s\n\n", std::string(to_string(setting.feed)).c_str(),
        setting.columns == Columns::kAll ? "all columns" : "rate, lengths, TTFT and ITL only");
    std::fprintf(out,
                 "| server | load | runs | %s | %s | %s | in the interval | width | accepted | "
                 "identified | kalman, all | accepted "
                 "|\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
                 kMarks[0], kMarks[1], kMarks[2]);
    int table_missed = 0;
    for (std::size_t f = 0; f < feeders.size(); ++f) {
      Feeder& feeder = feeders[f];
      const Subject& subject = feeder.subject();
      for (const Pattern& pattern : learning_patterns(subject)) {
        // Nobody can know a tail that is not reported.
        if (setting.columns == Columns::kBare && pattern.needs_moments) continue;
        Worst worst, published;
        double width = 0;
        int accepted = 0, cycles = 0, identified = 0, published_accepted = 0;
        for (const std::uint64_t seed : setting.seeds) {
          const auto fed = feeder.feed(pattern, setting.feed, setting.columns, seed);
          const Score s = score(subject, fed, pattern, tune::EstimatorKind::kWindowed);
          worst.add(s, pattern);
          const Score k = score(subject, fed, pattern, tune::EstimatorKind::kKalman);
          published.add(k, pattern);
          published_accepted += k.accepted;
          width += s.width[2] / static_cast<double>(setting.seeds.size());
          accepted += s.accepted;
          cycles += s.cycles;
          identified += s.identified ? 1 : 0;
        }
        const auto allowed = limits(pattern);
        std::fprintf(
            out, "| %s | %s | %d | %s | %s | %s | %d, %d, %d | %.2f | %d/%d | %d | %s | %d/%d |\n",
            subject.name.c_str(), pattern.name.c_str(), worst.runs,
            mark(worst.error[0], allowed[0]).c_str(), mark(worst.error[1], allowed[1]).c_str(),
            mark(worst.error[2], allowed[2]).c_str(), worst.covered[0], worst.covered[1],
            worst.covered[2], width, accepted, cycles, identified,
            percent(published.error[2]).c_str(), published_accepted, cycles);
        table_missed += worst.missed;
        coverage[f].add(worst);
      }
    }
    std::fprintf(out, "\nBeyond their limit: %d%s.\n\n", table_missed,
                 setting.counts() ? "" : " (not counted)");
    if (setting.counts()) missed += table_missed;
  }
  print_twins(out, subjects);
  missed += print_coverage(out, feeders, coverage);
  missed += print_injection(out, feeders, options);
  return missed;
}

}  // namespace tailrace::accuracy
