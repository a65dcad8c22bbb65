#include "capacity/learning_injection.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tailrace/core/check.h"
#include "tailrace/core/rng.h"

namespace tailrace::accuracy {
namespace {

using tune::Observation;

constexpr int kBefore = 40, kAfter = 30;
constexpr double kRequests = 20'000;
constexpr double kFollowed = 0.15;
constexpr int kFollowedWithin = 10;

bool same(const std::optional<queueing::IterationModel>& a,
          const std::optional<queueing::IterationModel>& b) {
  return a == b;
}

Subject slower(Subject subject) {
  subject.engine.cost.alpha_ms *= 2;
  return subject;
}

}  // namespace

Doubling::Doubling(const Subject& subject)
    : subject_(subject),
      before_(subject),
      after_(slower(subject)),
      servers_{SteadyServer(subject.engine, kRequests, 1),
               SteadyServer(slower(subject).engine, kRequests, 1)} {}

Followed Doubling::follow(bool varying, Columns columns, double noise, std::uint64_t seed) {
  Rng rng = Rng(seed).fork("noise");
  auto estimator = tune::make_estimator(tune_config(subject_, tune::EstimatorKind::kWindowed));
  TAILRACE_CHECK(estimator.has_value());
  const double truth = *after_.rate(after_.model.iteration, subject_.shape);
  Followed out;
  for (int i = 0; i < kBefore + kAfter; ++i) {
    const double share = varying ? 0.1 + 0.5 * (i % 10) / 9 : 0.3;
    SteadyServer& server = servers_[i < kBefore ? 0 : 1];
    Observation o = server.at(share * before_.max_rate_per_s, subject_.shape,
                              static_cast<std::uint64_t>(varying ? 0 : i % 10));
    o.time_s = 60.0 * (i + 1);
    o.pod = "pod-0";
    o.ttft_ms = *o.ttft_ms * std::exp(noise * rng.normal());
    o.itl_ms = *o.itl_ms * std::exp(noise * rng.normal());
    if (o.itl_per_sequence_ms) {
      o.itl_per_sequence_ms = *o.itl_per_sequence_ms * std::exp(noise * rng.normal());
    }
    if (columns == Columns::kBare) o = bare(o);
    const auto estimate = (*estimator)->update(std::span(&o, 1));
    if (i < kBefore || !estimate.values) continue;
    const auto found = after_.rate(*estimate.values, subject_.shape);
    out.error_at_end = found ? *found / truth - 1 : std::numeric_limits<double>::infinity();
    if (std::fabs(out.error_at_end) > kFollowed) {
      out.cycles.reset();
    } else if (!out.cycles) {
      out.cycles = i - kBefore + 1;
    }
  }
  return out;
}

std::vector<Bad> bad_cycles(const Subject& subject, const Observation& last) {
  std::vector<Bad> all;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  Observation next = last;
  next.time_s += 60;
  using Field = std::optional<double> Observation::*;
  const std::pair<const char*, Field> fields[] = {{"rate", &Observation::rate_per_s},
                                                  {"input", &Observation::input_tokens},
                                                  {"output", &Observation::output_tokens},
                                                  {"TTFT", &Observation::ttft_ms},
                                                  {"ITL", &Observation::itl_ms}};
  for (const auto& [name, field] : fields) {
    const std::pair<const char*, std::optional<double>> values[] = {{"missing", std::nullopt},
                                                                    {"zero", 0.0},
                                                                    {"NaN", nan},
                                                                    {"negative", -1.0},
                                                                    {"infinite", infinity}};
    for (const auto& [what, value] : values) {
      Observation o = next;
      o.*field = value;
      all.push_back({std::string(name) + " " + what, {o}});
    }
  }
  all.push_back({"nobody reports", {}});
  Observation stale = last;
  stale.ttft_ms = *stale.ttft_ms * 1.2;
  all.push_back({"stale: the same time again", {stale}});
  stale.time_s -= 600;
  all.push_back({"stale: ten minutes old", {stale}});
  Observation broken = next;
  broken.time_s = nan;
  all.push_back({"time is NaN", {broken}});
  // What an engine reports that gets 1.3 times what it can serve, from when its line is long.
  const Truth truth(subject);
  const double rate = 1.3 * truth.max_rate_per_s;
  const std::vector<Segment> overload(4, {rate, subject.shape, 2'000 / rate});
  const auto reports = serve(subject.engine, overload, kPaceWindow, 1);
  for (std::size_t i = 1; i < reports.size(); ++i) {
    Observation o = reports[i];
    o.time_s = next.time_s;
    o.pod = last.pod;
    const std::string which = " (" + std::to_string(i) + ")";
    all.push_back({"saturated" + which, {o}});
    all.push_back({"saturated, rate and latencies only" + which, {bare(o)}});
    // Some count what was served instead of what came.
    o.rate_per_s = *o.requests / (2'000 / rate);
    all.push_back({"saturated, rate of what was served" + which, {o}});
  }
  return all;
}

int print_injection(std::FILE* out, std::vector<Feeder>& feeders, const Options&) {
  int missed = 0;
  std::fprintf(
      out,
      "### A doubling of alpha\n\nCycles until lambda\\* is within 15 %% of the new truth "
      "and stays there; limit %d. Bare columns are there for comparison, and do not count as "
      "missed.\n\n"
      "| server | load | columns | noise | cycles | error at the end |\n"
      "|---|---|---|---|---|---|\n",
      kFollowedWithin);
  for (const Feeder& feeder : feeders) {
    Doubling doubling(feeder.subject());
    for (const bool varying : {false, true}) {
      for (const Columns columns : {Columns::kAll, Columns::kBare}) {
        for (const double noise : {0.0, 0.03}) {
          const Followed f = doubling.follow(varying, columns, noise, 1);
          const bool held = f.cycles && *f.cycles <= kFollowedWithin;
          if (columns == Columns::kAll && !held) ++missed;
          const std::string cycles = f.cycles ? std::to_string(*f.cycles) : "never";
          std::fprintf(out, "| %s | %s | %s | %.0f %% | %s | %+.1f %% |\n",
                       feeder.subject().name.c_str(), varying ? "sawtooth" : "constant 0.3",
                       columns == Columns::kAll ? "all" : "bare", 100 * noise,
                       held ? cycles.c_str() : ("**" + cycles + "**").c_str(),
                       100 * f.error_at_end);
        }
      }
    }
  }
  std::fprintf(out, "\n### What must not teach\n\n");
  int moved = 0, tried = 0;
  std::string which;
  for (Feeder& feeder : feeders) {
    const Subject& subject = feeder.subject();
    for (const Columns columns : {Columns::kAll, Columns::kBare}) {
      for (const bool varying : {true, false}) {
        Pattern pattern = learning_patterns(subject)[varying ? 5 : 2];
        pattern.cycles.resize(20);
        const auto fed = feeder.feed(pattern, Feed::kSteady, columns, 1);
        for (const Bad& bad : bad_cycles(subject, fed.back().back())) {
          auto estimator =
              tune::make_estimator(tune_config(subject, tune::EstimatorKind::kWindowed));
          TAILRACE_CHECK(estimator.has_value());
          for (const auto& cycle : fed) (*estimator)->update(cycle);
          const auto before = (*estimator)->current();
          const auto during = (*estimator)->update(bad.cycle);
          const auto after = (*estimator)->current();
          ++tried;
          if (same(before.values, during.values) && same(before.values, after.values) &&
              !during.accepted) {
            continue;
          }
          ++moved;
          which += "- " + subject.name + ", " + pattern.name + ": " + bad.name + "\n";
        }
      }
    }
  }
  std::fprintf(out,
               "Missing, zero, NaN, negative and infinite values, stale times and saturated "
               "servers, given after 20 good cycles: %d of %d moved a parameter.\n%s\n",
               moved, tried, which.c_str());
  return missed + moved;
}

}  // namespace tailrace::accuracy
