// What do length predictions buy a queue, on real prompts?
//
// A predictor learns the first half of public prompts with known answer lengths. Then a queue of 32
// slots at 1.5 times its capacity is served in the order of its predictions, while it goes on
// learning, and compared with arrival order and with the true lengths. The control permutes the
// lengths among the prompts: whatever looks like skill there is not. How good the predictions are
// in themselves, `tailrace evaluate` says. Without the data it says so and ends.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tailrace/core/rng.h"
#include "tailrace/evaluate/baselines.h"
#include "tailrace/evaluate/rows.h"

namespace {

using namespace tailrace;
using evaluate::Row;
using predict::Predictor;

constexpr std::int64_t kCap = 2048;

// ---- data ---------------------------------------------------------------------------------------

std::filesystem::path data_folder() {
  const char* shared = std::getenv("TAILRACE_SHARED");
  const std::filesystem::path root = shared != nullptr ? shared : TAILRACE_SOURCE_DIR "/../shared";
  return root / "data";
}

double length_of(const Row& row) {
  return static_cast<double>(std::max(row.truth.length, Tokens(1)).count());
}

/// The same number of rows of each collection, each prompt once, all asked of one model with one
/// limit.
std::vector<Row> balanced(Rng rng) {
  constexpr std::size_t kRowsOfEach = 850;
  std::vector<Row> all;
  evaluate::ReadOptions options;
  options.cap = Tokens(kCap);
  for (const char* name : {"arena_hard", "gpteacher", "oasst_model_eval"}) {
    auto set = evaluate::read_rows((data_folder() / name).string(), options);
    if (!set) {
      std::printf("skipped: %s (set TAILRACE_SHARED)\n", set.error().message.c_str());
      std::exit(0);
    }
    evaluate::shuffle(set->rows, rng.fork(name));
    std::set<std::uint64_t> seen;
    for (Row& row : set->rows) {
      if (seen.size() == kRowsOfEach) break;
      if (!seen.insert(row.features.prompt_fingerprint).second) continue;
      row.features.model = "served-model";
      row.features.cap = Tokens(kCap);
      row.features.cap_is_explicit = false;
      row.features.system_fingerprint = 0;
      row.truth.censored = row.truth.length == Tokens(kCap);
      all.push_back(std::move(row));
    }
  }
  evaluate::shuffle(all, rng.fork("all"));
  return all;
}

std::vector<Row> permuted(std::vector<Row> rows, Rng rng) {
  for (std::size_t i = rows.size(); i > 1; --i) {
    std::swap(rows[i - 1].truth, rows[rng.below(i)].truth);
  }
  return rows;
}

/// Of this thread, so that a busy machine does not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// ---- queue --------------------------------------------------------------------------------------

/// Mean of (completion − arrival) / length over jobs served by 32 slots at 1.5 times their
/// capacity; one token a step, no preemption. `key(i)` places job i when it arrives, `done(i)`
/// hears its end in time.
template <class Key, class Done>
double mean_per_token_latency(const std::vector<Row>& jobs, std::uint64_t seed, Key key,
                              Done done) {
  constexpr std::size_t kSlots = 32;
  constexpr double kLoad = 1.5;
  double mean = 0;
  for (const auto& job : jobs) mean += length_of(job) / static_cast<double>(jobs.size());
  Rng rng(seed);
  std::vector<double> arrival(jobs.size());
  double t = 0;
  for (double& a : arrival) a = t += rng.exponential() * mean / (kSlots * kLoad);

  std::set<std::pair<double, std::size_t>> running;  // by end
  std::set<std::pair<double, std::size_t>> waiting;  // by key, then arrival
  std::size_t next = 0;
  double sum = 0;
  while (next < jobs.size() || !running.empty()) {
    const bool ends =
        next == jobs.size() || (!running.empty() && running.begin()->first <= arrival[next]);
    const double now = ends ? running.begin()->first : arrival[next];
    if (ends) {
      const std::size_t job = running.begin()->second;
      running.erase(running.begin());
      sum += (now - arrival[job]) / length_of(jobs[job]);
      done(job);
    } else {
      waiting.emplace(key(next), next);
      ++next;
    }
    while (running.size() < kSlots && !waiting.empty()) {
      const std::size_t job = waiting.begin()->second;
      waiting.erase(waiting.begin());
      running.emplace(now + length_of(jobs[job]), job);
    }
  }
  return sum / static_cast<double>(jobs.size());
}

double tie_score(const length::LengthLaw& law) {
  const auto moments = law.capped_moments_fast(static_cast<double>(kCap));
  constexpr double kBeta = 0.5;  // a long queue
  return moments.mean + kBeta * moments.cvar;
}

struct Gain {
  double ratio = 1;  // arrival order / this order
  double share = 0;  // of the logarithmic gain of the true order
};

/// The predictor goes on learning while the queue runs: from each answer when it ends, in the order
/// that it brought about itself. A law that is not calibrated counts as long as the cap, so those
/// jobs keep their order of arrival.
template <class Score>
Gain queue_gain(const std::string& image, Predictor& predictor, const std::vector<Row>& jobs,
                Score score) {
  const auto nothing = [](std::size_t) {};
  std::vector<double> ratios;
  std::vector<double> shares;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    if (!predictor.load(image)) std::abort();
    const double fcfs = mean_per_token_latency(
        jobs, seed, [](std::size_t i) { return static_cast<double>(i); }, nothing);
    const double ideal = mean_per_token_latency(
        jobs, seed, [&](std::size_t i) { return length_of(jobs[i]); }, nothing);
    const double ours = mean_per_token_latency(
        jobs, seed,
        [&](std::size_t i) {
          const auto said = predictor.predict(std::span(&jobs[i].features, 1)).front();
          return said.calibrated ? score(said.law) : 10.0 * kCap;
        },
        [&](std::size_t i) { predictor.observe(jobs[i].features, jobs[i].truth); });
    ratios.push_back(fcfs / ours);
    shares.push_back(std::log(fcfs / ours) / std::log(fcfs / ideal));
  }
  std::sort(ratios.begin(), ratios.end());
  std::sort(shares.begin(), shares.end());
  return {ratios[2], shares[2]};
}

// ---- report -------------------------------------------------------------------------------------

void report(const char* name, const std::vector<Row>& rows) {
  const auto predictor = evaluate::make_contestant(*evaluate::find_contestant(name), rows);
  const auto half = static_cast<std::ptrdiff_t>(rows.size() / 2);
  double predict_s = 0;
  double learn_s = 0;
  for (auto row = rows.begin(); row != rows.begin() + half; ++row) {
    const double start_s = cpu_seconds();
    predictor->predict(std::span(&row->features, 1));
    const double predicted_s = cpu_seconds();
    predictor->observe(row->features, row->truth);
    learn_s += cpu_seconds() - predicted_s;
    predict_s += predicted_s - start_s;
  }
  const std::string image = predictor->save();
  const std::vector<Row> jobs(rows.begin() + half, rows.end());
  const Gain tie = queue_gain(image, *predictor, jobs, tie_score);
  const Gain median = queue_gain(image, *predictor, jobs,
                                 [](const length::LengthLaw& law) { return law.median(); });
  const double us = 1e6 / static_cast<double>(half);
  std::printf("  %-14s  %5.2f %5.2f  %5.2f %5.2f  %5.1f %5.1f\n", name, tie.ratio, tie.share,
              median.ratio, median.share, us * predict_s, us * learn_s);
}

void compare(const char* title, const std::vector<Row>& rows) {
  std::printf("%s: %zu prompts, the last half queued\n", title, rows.size());
  std::printf("  %-14s  %5s %5s  %5s %5s  %5s %5s\n", "predictor", "tie x", "share", "med x",
              "share", "pr us", "ob us");
  for (const char* name : {"global", "prompt-length", "prior", "online"}) report(name, rows);
}

}  // namespace

int main() {
  const Rng rng(20);
  const auto rows = balanced(rng);
  compare("real lengths", rows);
  compare("lengths permuted among the prompts", permuted(rows, rng.fork("permute")));
  return 0;
}
