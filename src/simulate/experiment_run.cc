#include "tailrace/simulate/experiment_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>

#include "simulate/parallel.h"
#include "tailrace/core/text.h"
#include "tailrace/report/replicates.h"

namespace tailrace::simulate {
namespace {

constexpr std::uint64_t kCapacityPerSlot = 20;
constexpr std::uint64_t kCapacityLeast = 2'000;
constexpr std::uint64_t kCapacityMost = 200'000;
constexpr std::uint64_t kTurnsSeen = 20'000;
/// So much faster, a trace's requests come all but at once.
constexpr double kAtOnceSpeed = 1e6;

std::string rate_key(const RunSpec& spec) {
  const WorkloadSpec& workload = spec.workload;
  return fmt::format("{} {} {} {}", workload.arrivals.rate,
                     workload.trace ? workload.trace->speed : 0.0,
                     workload.servegen ? workload.servegen->rate_scale : 0.0,
                     spec.horizon_s ? *spec.horizon_s : -1.0);
}

/// What is read more than once must begin anew each time: standard input and pipes do not.
Result<void> check_files(const WorkloadSpec& workload) {
  std::vector<std::pair<std::string_view, std::string>> files;
  if (workload.trace) {
    for (const std::string& path : workload.trace->paths) {
      files.emplace_back("workload.trace.files", path);
    }
  }
  if (workload.servegen) {
    files.emplace_back("workload.servegen.arrivals", workload.servegen->arrivals);
    files.emplace_back("workload.servegen.lengths", workload.servegen->lengths);
    files.emplace_back("workload.servegen.histograms", workload.servegen->histograms);
  }
  for (const auto& [key, path] : files) {
    std::error_code none;
    const auto status = std::filesystem::status(path, none);
    const bool there = std::filesystem::exists(status);  // else its reader says so
    if (path != "-" && (!there || std::filesystem::is_regular_file(status))) continue;
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: {} is {}, and every run reads it anew; save it to a file", key,
                    core::quoted(path, 256), path == "-" ? "standard input" : "no regular file"));
  }
  return {};
}

/// Requests that a conversation brings, on average. It ends by chance, with 1 / turns after every
/// turn, or because its context is full; how often that is, the workload itself tells.
Result<double> mean_turns(WorkloadSpec spec, std::uint64_t seed) {
  const SessionSpec& sessions = *spec.sessions;
  // Only few go on at once, so that few have not met their end.
  const double turn_s = sessions.think_s + sessions.token_s * static_cast<double>(spec.lengths.cap);
  spec.arrivals = {};
  spec.arrivals.rate = 1 / (1 + sessions.turns * turn_s);
  spec.arrivals.count = kTurnsSeen;
  auto workload = make_workload(spec, Rng(seed));
  if (!workload) return fail(workload.error());
  Request request;
  std::uint64_t requests = 0;
  while (true) {
    auto more = (*workload)->next(request);
    if (!more) return fail(more.error());
    if (!*more) break;
    ++requests;
  }
  const double cut =
      static_cast<double>((*workload)->cut_sessions()) / static_cast<double>(requests);
  return 1 / (1 / sessions.turns + cut);
}

/// What a predictor of stated quality must know of the lengths that it is to foretell, where they
/// are recorded and no setting says it.
Result<void> tell_population(const WorkloadFacts& facts, RunSpec& spec) {
  PredictorSpec& predictor = spec.predictor;
  if (predictor.kind == PredictorSpec::Kind::kOracleLaw && facts.requests > 0 &&
      facts.log_length.count == facts.requests) {
    return fail(ErrorCode::kInvalidArgument,
                "predictor.kind: oracle-law needs the law that each length was drawn from, and no "
                "recorded request has one; give rows a law, let workload.trace.draw_lengths draw "
                "the lengths, or use noisy-law or true-length");
  }
  if (facts.log_length.count > 0) {
    constexpr double kLeastSd = 1e-6;
    if (!predictor.log_mean) predictor.log_mean = facts.log_length.mean;
    if (!predictor.log_sd) predictor.log_sd = std::max(kLeastSd, facts.log_length.sd());
  }
  const bool recorded = spec.workload.trace && !spec.workload.trace->draw_lengths;
  if (recorded && facts.mu.count > 0) {
    LengthSpec& lengths = spec.workload.lengths;
    lengths.mu_mean = facts.mu.mean;
    lengths.mu_sd = facts.mu.sd();
    lengths.sigma_median = std::exp(facts.log_sigma.mean);
    lengths.sigma_spread = facts.log_sigma.sd();
  }
  return {};
}

/// Gives each distinct text a number, in order of appearance.
class Numbering {
 public:
  std::size_t of(const std::string& text, std::size_t from) {
    const auto [it, added] = numbers_.try_emplace(text, firsts_.size());
    if (added) firsts_.push_back(from);
    return it->second;
  }
  const std::vector<std::size_t>& firsts() const { return firsts_; }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::size_t> firsts_;  // who had it first
};

class Conductor {
 public:
  Conductor(const Experiment& experiment, const RunOptions& options)
      : experiment_(experiment), options_(options) {
    for (const Cell& cell : experiment.cells) specs_.push_back(cell.spec);
    result_.cells.resize(experiment.cells.size());
  }

  Result<ExperimentResult> conduct() {
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      if (auto good = check_files(specs_[i].workload); !good) return failed(i, good.error());
    }
    if (auto done = capacities(); !done) return fail(done.error());
    if (auto done = rates(); !done) return fail(done.error());
    if (auto done = facts(); !done) return fail(done.error());
    if (auto done = runs(); !done) return fail(done.error());
    return std::move(result_);
  }

 private:
  using Work = std::function<Result<void>(std::size_t)>;

  Result<void> each(std::string_view what, std::size_t pieces, const Work& work,
                    const Work& in_order = nullptr) {
    ParallelWork parallel;
    parallel.pieces = pieces;
    parallel.jobs = options_.jobs;
    parallel.work = work;
    parallel.in_order = in_order;
    if (options_.progress) {
      parallel.tick = [&](std::size_t done) {
        options_.progress({what, done, pieces, ended_.load(std::memory_order_relaxed)});
      };
    }
    return run_parallel(parallel);
  }

  tl::unexpected<Error> failed(std::size_t cell, const Error& error) const {
    return fail(error.with_context(experiment_.label(experiment_.cells[cell])));
  }

  Result<void> capacities() {
    Numbering numbering;
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      const Cell& cell = experiment_.cells[i];
      if (cell.maximum_rate.kind == MaximumRate::Kind::kMeasure) {
        result_.cells[i].capacity = numbering.of(cell.capacity_key, i);
      } else if (cell.maximum_rate.kind == MaximumRate::Kind::kGiven) {
        result_.cells[i].maximum_rate = cell.maximum_rate.per_second;
      }
    }
    const auto& firsts = numbering.firsts();
    result_.capacities.resize(firsts.size());
    auto done = each("maximum rates", firsts.size(), [&](std::size_t i) -> Result<void> {
      RunSpec spec = specs_[firsts[i]];
      spec.seed = experiment_.seeds.front();
      auto capacity = measure_capacity(spec);
      if (!capacity) return failed(firsts[i], capacity.error());
      result_.capacities[i] = *capacity;
      return {};
    });
    if (!done) return done;
    for (CellResult& cell : result_.cells) {
      if (cell.capacity) cell.maximum_rate = result_.capacities[*cell.capacity].per_second;
    }
    return {};
  }

  /// Turns loads into rates: a trace is sped up from its own rate, which takes reading it.
  Result<void> rates() {
    Numbering traces;
    std::vector<std::size_t> number(specs_.size());
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      const Cell& cell = experiment_.cells[i];
      if (!cell.load) continue;
      if (specs_[i].workload.trace) {
        number[i] = traces.of(cell.capacity_key, i);
      } else {
        WorkloadSpec& workload = specs_[i].workload;
        double turns = 1;
        if (workload.sessions) {
          // Arrivals of conversations bring several requests each.
          auto found = mean_turns(workload, experiment_.seeds.front());
          if (!found) return failed(i, found.error());
          turns = *found;
        }
        set_mean_rate(workload.arrivals, *cell.load * *result_.cells[i].maximum_rate / turns);
      }
    }
    std::vector<double> natural(traces.firsts().size());
    auto done = each("traces", natural.size(), [&](std::size_t i) -> Result<void> {
      const std::size_t cell = traces.firsts()[i];
      RunSpec spec = specs_[cell];
      spec.workload.trace->speed = 1;
      spec.seed = experiment_.seeds.front();
      spec.horizon_s.reset();
      auto facts = describe_workload(spec);
      if (!facts) return failed(cell, facts.error());
      if (!facts->rate) {
        return failed(cell, {ErrorCode::kInvalidArgument,
                             "workload.load: the trace has no rate of its own; give speed"});
      }
      natural[i] = *facts->rate;
      return {};
    });
    if (!done) return done;
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      const Cell& cell = experiment_.cells[i];
      if (cell.load && specs_[i].workload.trace) {
        specs_[i].workload.trace->speed =
            *cell.load * *result_.cells[i].maximum_rate / natural[number[i]];
      }
    }
    return {};
  }

  std::size_t run_count() const { return specs_.size() * experiment_.seeds.size(); }
  std::size_t cell_of(std::size_t run) const { return run / experiment_.seeds.size(); }
  RunSpec spec_of(std::size_t run) const {
    RunSpec spec = specs_[cell_of(run)];
    spec.seed = experiment_.seeds[run % experiment_.seeds.size()];
    return spec;
  }

  Result<void> facts() {
    Numbering numbering;
    facts_of_.resize(run_count());
    for (std::size_t i = 0; i < run_count(); ++i) {
      const RunSpec spec = spec_of(i);
      facts_of_[i] = numbering.of(fmt::format("{} {} {}", spec.seed, rate_key(spec),
                                              experiment_.cells[cell_of(i)].capacity_key +
                                                  experiment_.cells[cell_of(i)].workload_key),
                                  i);
    }
    facts_.resize(numbering.firsts().size());
    return each("workloads", facts_.size(), [&](std::size_t i) -> Result<void> {
      const std::size_t run = numbering.firsts()[i];
      auto facts = describe_workload(spec_of(run));
      if (!facts) return failed(cell_of(run), facts.error());
      facts_[i] = std::move(*facts);
      return {};
    });
  }

  struct Finished {
    RunResult result;
    std::unique_ptr<RunRecorder> recorder;
    std::unique_ptr<RequestLog::Part> part;
  };

  Result<void> runs() {
    std::vector<Finished> finished(run_count());
    return each(
        "runs", run_count(),
        [&](std::size_t i) -> Result<void> {
          auto done = one(i);
          if (!done) return failed(cell_of(i), done.error());
          finished[i] = std::move(*done);
          return {};
        },
        [&](std::size_t i) { return put_together(i, std::move(finished[i])); });
  }

  Result<Finished> one(std::size_t i) {
    RunSpec spec = spec_of(i);
    const WorkloadFacts& facts = facts_[facts_of_[i]];
    if (auto told = tell_population(facts, spec); !told) return fail(told.error());
    Finished finished;
    finished.recorder =
        std::make_unique<RunRecorder>(spec, facts, experiment_.warm_up, experiment_.slo);
    if (options_.requests != nullptr) {
      auto part = options_.requests->begin(cell_of(i), spec.seed);
      if (!part) return fail(part.error());
      finished.part = std::move(*part);
    }
    const auto totals = run(spec, [&](const RequestRecord& record) {
      finished.recorder->add(record);
      if (finished.part) finished.part->add(record);
      ended_.fetch_add(1, std::memory_order_relaxed);
    });
    if (!totals) return fail(totals.error());
    finished.result = finished.recorder->result(*totals);
    return finished;
  }

  Result<void> put_together(std::size_t i, Finished finished) {
    CellResult& cell = result_.cells[cell_of(i)];
    if (finished.result.rate && cell.maximum_rate) {
      finished.result.load = *finished.result.rate / *cell.maximum_rate;
    }
    if (cell.runs.empty()) cell.facts = facts_[facts_of_[i]];
    cell.runs.push_back(finished.result);
    cell.ttft.merge(finished.recorder->ttft());
    cell.e2e.merge(finished.recorder->e2e());
    cell.per_token.merge(finished.recorder->per_token());
    cell.heat.merge(finished.recorder->heat());
    if (finished.part) return options_.requests->end(std::move(finished.part));
    return {};
  }

  const Experiment& experiment_;
  const RunOptions& options_;
  std::vector<RunSpec> specs_;         // of the cells, with their rates
  std::vector<std::size_t> facts_of_;  // of the runs, in facts_
  std::vector<WorkloadFacts> facts_;
  ExperimentResult result_;
  std::atomic<std::uint64_t> ended_{0};
};

}  // namespace

Result<Capacity> measure_capacity(const RunSpec& given) {
  RunSpec spec = given;
  spec.fleet.line = FleetSpec::Line::kFcfs;
  spec.front = {};
  spec.predictor = {};
  spec.horizon_s.reset();
  const auto slots = static_cast<std::uint64_t>(given.fleet.engine.max_num_seqs) *
                     static_cast<std::uint64_t>(given.fleet.engines);
  const std::uint64_t count = std::clamp(kCapacityPerSlot * slots, kCapacityLeast, kCapacityMost);
  spec.workload.arrivals = {};
  spec.workload.arrivals.kind = ArrivalSpec::Kind::kAtOnce;
  spec.workload.arrivals.count = count;
  if (spec.workload.trace) {
    spec.workload.trace->speed = kAtOnceSpeed;
    spec.workload.trace->repeat = std::max<std::uint64_t>(spec.workload.trace->repeat, count);
  }
  if (spec.workload.servegen) spec.workload.servegen->rate_scale = kAtOnceSpeed;
  if (spec.workload.sessions) {
    // Conversations whose turns follow at once: all at time 0 they would never reach their second.
    spec.workload.arrivals.kind = ArrivalSpec::Kind::kPoisson;
    spec.workload.arrivals.rate = kAtOnceSpeed;
    spec.workload.sessions->think_s = 0;
    spec.workload.sessions->token_s = 0;
  }
  // A large fleet that serves nobody says so after a few.
  const bool try_few = count >= 10 * kCapacityLeast;
  if (try_few) spec.workload.arrivals.count = kCapacityLeast;
  std::vector<double> finished;
  const RecordSink note = [&](const RequestRecord& record) {
    if (record.finished) finished.push_back(to_seconds(*record.finished));
  };
  auto totals = run(spec, note);
  if (!totals) return fail(totals.error());
  if (try_few && totals->refused < totals->offered) {
    spec.workload.arrivals.count = count;
    finished.clear();
    totals = run(spec, note);
    if (!totals) return fail(totals.error());
  }
  const std::size_t first = finished.size() / 5;
  const std::size_t last = finished.size() * 4 / 5;
  if (last <= first || !(finished[last] > finished[first])) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("workload.maximum_rate: cannot be measured, {} of {} requests "
                            "completed and {} were refused, being longer than an engine holds; "
                            "give a number, or off",
                            finished.size(), totals->offered, totals->refused));
  }
  const double seconds = finished[last] - finished[first];
  return Capacity{static_cast<double>(last - first) / seconds, totals->offered, seconds};
}

std::optional<report::Interval> CellResult::mean(const Metric& metric) const {
  std::vector<double> values;
  for (const RunResult& run : runs) {
    const auto value = metric.of(run);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  auto found = report::mean_of_replicates(values);
  if (found && std::isfinite(found->low)) {
    found->low = std::max(found->low, metric.least);
    found->high = std::min(found->high, metric.most);
  }
  return found;
}

bool CellResult::overloaded() const {
  const auto n =
      std::count_if(runs.begin(), runs.end(), [](const RunResult& run) { return run.overloaded; });
  return 2 * static_cast<std::size_t>(n) > runs.size();
}

std::string_view CellResult::verdict() const {
  const bool refusing = std::any_of(runs.begin(), runs.end(),
                                    [](const RunResult& run) { return run.totals.refused > 0; });
  if (overloaded()) return refusing ? "overloaded, refusing" : "overloaded";
  if (refusing) return "refusing";
  const bool known = std::any_of(runs.begin(), runs.end(),
                                 [](const RunResult& run) { return run.totals.completed > 0; });
  return known ? "stable" : "unknown";
}

std::optional<report::Interval> ratio(const CellResult& cell, const CellResult& baseline,
                                      const Metric& metric) {
  std::vector<double> ours;
  std::vector<double> theirs;
  for (std::size_t i = 0; i < std::min(cell.runs.size(), baseline.runs.size()); ++i) {
    const auto a = metric.of(cell.runs[i]);
    const auto b = metric.of(baseline.runs[i]);
    if (!a || !b) return std::nullopt;
    ours.push_back(*a);
    theirs.push_back(*b);
  }
  return report::ratio_of_replicates(ours, theirs);
}

Result<ExperimentResult> run_experiment(const Experiment& experiment, const RunOptions& options) {
  return Conductor(experiment, options).conduct();
}

}  // namespace tailrace::simulate
