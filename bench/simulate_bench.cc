// How many requests a second does the simulation get through, on one thread?
//
// Real traces, repeated, through simulate::run with the H100-8B preset, 256 sequences and 16-token
// blocks: Azure's conversations with one engine, Mooncake's with eight, round robin, without and
// with prefix cache. Reading the trace is part of it. A run counts only if every request completed
// with its whole answer. Then one engine alone, in the same process on the first requests of the
// same trace, beside the reference interpreter of the tests, which is written to be right and not
// to be fast, and beside itself when every iteration is begun and ended one by one, token events
// and all. Both must agree with it. Time is this thread's processor time. Where ../shared/data is
// absent, generated traces of the same shape stand in.
//
//   simulate_bench [--repeats N] [--case NAME]
#include <fmt/core.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/support/reference_engine.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/text.h"
#include "tailrace/dataset/trace.h"
#include "tailrace/engine/batch_engine.h"
#include "tailrace/engine/presets.h"
#include "tailrace/simulate/simulation.h"

namespace {

using namespace tailrace;
namespace fs = std::filesystem;

struct Case {
  std::string_view name;
  std::string_view file;  // below data/
  int engines = 1;
  bool prefix_caching = false;
  double target = 0;                 // requests a second
  std::size_t beside_reference = 0;  // requests in the comparison
};

constexpr Case kCases[] = {
    {"azure", "azure_llm_2023/conv.csv.gz", 1, false, 150'000, 8'000},
    {"mooncake", "mooncake/conversation.jsonl.gz", 8, false, 80'000, 1'500},
    {"mooncake-prefix", "mooncake/conversation.jsonl.gz", 8, true, 40'000, 1'500},
};

[[noreturn]] void wrong(std::string_view what) {
  fmt::print(stderr, "simulate_bench: {}\n", what);
  std::exit(1);
}

double thread_cpu_s() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

engine::EngineConfig engine_of(const Case& c) {
  auto preset = engine::find_preset("h100-8b");
  if (!preset) wrong(preset.error().message);
  engine::EngineConfig config = preset->config;
  config.max_num_seqs = 256;
  config.block_tokens = 16;
  config.prefix_caching = c.prefix_caching;
  return config;
}

std::vector<dataset::TraceRow> rows_of(const std::string& path) {
  auto reader = dataset::TraceReader::open(path);
  if (!reader) wrong(reader.error().message);
  std::vector<dataset::TraceRow> rows;
  dataset::TraceRow row;
  while (true) {
    auto more = reader->next(row);
    if (!more) wrong(more.error().message);
    if (!*more) return rows;
    rows.push_back(row);
  }
}

/// Log-normal with the given mean, in whole tokens.
std::int64_t drawn(Rng& rng, double mean, double sigma, double most) {
  const double value = mean * std::exp(sigma * rng.normal() - sigma * sigma / 2);
  return static_cast<std::int64_t>(std::clamp(std::ceil(value), 1.0, most));
}

/// A trace as long as the recorded one, with about its rate, lengths and shared beginnings.
std::string generated(const Case& c) {
  const std::string path =
      (fs::temp_directory_path() / fmt::format("tailrace_simulate_bench_{}", c.name)).string();
  std::ofstream out(path);
  Rng rng(1);
  double now_s = 0;
  if (c.engines == 1) out << "t_s,input_tokens,output_tokens\n";
  for (std::uint64_t i = 0; i < (c.engines == 1 ? 12'910u : 8'020u); ++i) {
    now_s += rng.exponential() / (c.engines == 1 ? 5.92 : 3.28);
    if (c.engines == 1) {
      out << fmt::format("{:.4f},{},{}\n", now_s, drawn(rng, 1226, 1, 8'000),
                         drawn(rng, 202, 0.7, 1'000));
      continue;
    }
    const std::int64_t input = drawn(rng, 12'384, 1, 100'000);
    const std::uint64_t conversation = rng.below(250);
    std::string ids;
    for (std::int64_t place = 0; 512 * place < input; ++place) {
      const bool shared = place < 12;
      ids += fmt::format(
          "{}{}", place == 0 ? "" : ",",
          (shared ? conversation : 10'000 + i) * 256 + static_cast<std::uint64_t>(place));
    }
    out << fmt::format(
        "{{\"t_ms\":{},\"input_tokens\":{},\"output_tokens\":{},\"hash_ids\":[{}]}}\n",
        std::llround(now_s * 1000), input, drawn(rng, 347, 0.8, 2'000), ids);
  }
  return path;
}

std::string trace_of(const Case& c) {
  const char* shared = std::getenv("TAILRACE_SHARED");
  const fs::path root = shared != nullptr ? shared : TAILRACE_SOURCE_DIR "/../shared";
  const fs::path file = root / "data" / std::string(c.file);
  if (fs::exists(file)) return file.string();
  fmt::print("{} is absent: a generated trace of its shape stands in\n", file.string());
  return generated(c);
}

/// CPU seconds of `repeats` passes.
double simulate(const Case& c, const std::string& path, std::uint64_t repeats,
                const std::vector<dataset::TraceRow>& rows, simulate::RunTotals& totals) {
  simulate::TraceSpec trace;
  trace.paths.push_back(path);
  trace.repeat = repeats;
  simulate::RunSpec spec;
  spec.workload.trace = std::move(trace);
  spec.fleet.engine = engine_of(c);
  spec.fleet.engines = c.engines;
  std::uint64_t records = 0;
  const double start = thread_cpu_s();
  auto result = simulate::run(spec, [&](const simulate::RequestRecord&) { ++records; });
  const double seconds = thread_cpu_s() - start;
  if (!result) wrong(result.error().message);
  totals = *result;
  std::int64_t tokens = 0;
  for (const dataset::TraceRow& row : rows) tokens += row.output_tokens;
  if (totals.completed != rows.size() * repeats || records != totals.completed) {
    wrong(fmt::format("{}: {} of {} requests completed", c.name, totals.completed,
                      rows.size() * repeats));
  }
  if (totals.output_tokens != tokens * static_cast<std::int64_t>(repeats)) {
    wrong(fmt::format("{}: {} output tokens instead of {}", c.name, totals.output_tokens,
                      tokens * static_cast<std::int64_t>(repeats)));
  }
  return seconds;
}

std::uint64_t mixed(std::uint64_t value, std::uint64_t part) {
  value = (value ^ part) * 0x9e3779b97f4a7c15ULL;
  return value ^ (value >> 29);
}

/// What an engine reports, folded into one number.
struct Digest final : engine::LifeSink {
  std::uint64_t value = 0;
  std::uint64_t ends = 0;  // who finished when, alone
  std::size_t finished = 0;
  void fold(std::uint64_t kind, engine::SequenceId id, MonoTime at, std::int64_t more) {
    for (const std::uint64_t part :
         {kind, id.count(), static_cast<std::uint64_t>(at.time_since_epoch().count()),
          static_cast<std::uint64_t>(more)}) {
      value = mixed(value, part);
    }
  }
  void on_admitted(engine::SequenceId id, MonoTime at, Tokens cached) override {
    fold(1, id, at, cached.count());
  }
  void on_first_token(engine::SequenceId id, MonoTime at) override { fold(2, id, at, 0); }
  void on_finished(engine::SequenceId id, MonoTime at) override {
    fold(3, id, at, 0);
    ends =
        mixed(mixed(ends, id.count()), static_cast<std::uint64_t>(at.time_since_epoch().count()));
    ++finished;
  }
  void on_preempted(engine::SequenceId id, MonoTime at, Tokens generated) override {
    fold(4, id, at, generated.count());
  }
};

/// CPU seconds of one engine over `specs`.
double drive(engine::EngineCore& core, const std::vector<engine::SequenceSpec>& specs,
             const std::vector<MonoTime>& arrivals, Digest& digest) {
  const double start = thread_cpu_s();
  std::optional<MonoTime> next;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (next) next = core.advance(*next, arrivals[i], false, digest);
    if (auto added = core.add(specs[i], arrivals[i]); !added) wrong(added.error().message);
    if (!next) next = arrivals[i];
  }
  if (next) core.advance(*next, MonoTime::max(), false, digest);
  return thread_cpu_s() - start;
}

/// The same, one iteration at a time, as the emulator does it.
double step(engine::EngineCore& core, const std::vector<engine::SequenceSpec>& specs,
            const std::vector<MonoTime>& arrivals, Digest& digest) {
  const double start = thread_cpu_s();
  MonoTime now{};
  for (std::size_t i = 0; i <= specs.size(); ++i) {
    const MonoTime until = i < specs.size() ? arrivals[i] : MonoTime::max();
    while (now < until) {
      const auto iteration = core.begin_iteration(now);
      if (!iteration) break;
      now = iteration->ends;
      for (const engine::TokenEvent& event : core.end_iteration()) {
        if (event.finished) digest.on_finished(event.id, now);
      }
    }
    if (i == specs.size()) break;
    now = std::max(now, until);
    if (auto added = core.add(specs[i], until); !added) wrong(added.error().message);
  }
  return thread_cpu_s() - start;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Ratios {
  double reference = 0;
  double steps = 0;
};

/// How many times faster than the others one engine is, on every engines-th of the first rows.
Ratios beside_others(const Case& c, const std::vector<dataset::TraceRow>& rows) {
  std::vector<engine::SequenceSpec> specs;
  std::vector<MonoTime> arrivals;
  const std::size_t count = std::min(rows.size(), c.beside_reference);
  for (std::size_t i = 0; i < count; i += static_cast<std::size_t>(c.engines)) {
    engine::SequenceSpec spec{engine::SequenceId(i), Tokens(rows[i].prompt_tokens),
                              Tokens(rows[i].output_tokens)};
    spec.prefix = {rows[i].prefix_ids, rows[i].tokens_per_id};
    specs.push_back(std::move(spec));
    arrivals.push_back(MonoTime{from_seconds(rows[i].arrival_s)});
  }
  const engine::EngineConfig config = engine_of(c);
  std::vector<double> ours;
  std::vector<double> stepwise;
  Digest expected;
  for (int i = 0; i < 5; ++i) {
    engine::BatchEngine core(config);
    Digest digest;
    ours.push_back(drive(core, specs, arrivals, digest));
    expected = digest;
    engine::BatchEngine stepped(config);
    Digest ends;
    stepwise.push_back(step(stepped, specs, arrivals, ends));
    if (ends.ends != digest.ends) wrong(fmt::format("{}: steps end otherwise", c.name));
  }
  engine::ReferenceEngine reference(config, engine::make_fcfs_scheduler());
  Digest digest;
  const double theirs = drive(reference, specs, arrivals, digest);
  if (digest.value != expected.value || digest.finished != specs.size()) {
    wrong(fmt::format("{}: the reference interpreter schedules otherwise", c.name));
  }
  return {theirs / median(ours), median(stepwise) / median(ours)};
}

void run(const Case& c, std::uint64_t repeats) {
  const std::string path = trace_of(c);
  const std::vector<dataset::TraceRow> rows = rows_of(path);
  simulate::RunTotals totals;
  const std::uint64_t fewer = std::max<std::uint64_t>(1, repeats / 5);
  simulate(c, path, fewer, rows, totals);
  const double early_mib = peak_mib();
  const double seconds = simulate(c, path, repeats, rows, totals);
  const double late_mib = peak_mib();
  const auto completed = static_cast<double>(totals.completed);
  const Ratios ratios = beside_others(c, rows);
  fmt::print(
      "{:<16} {:>9} {:>10.0f} {:>9.0f} {:>8.1f} {:>8.0f} {:>7.1f} {:>7.1f} {:>9.0f} {:>9.1f}\n",
      c.name, totals.completed, completed / seconds, c.target,
      static_cast<double>(totals.iterations) / completed,
      seconds * 1e9 / static_cast<double>(totals.iterations), early_mib, late_mib, ratios.reference,
      ratios.steps);
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t repeats = 50;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--repeats") {
      repeats = std::max<std::uint64_t>(1, std::strtoull(argv[i + 1], nullptr, 10));
    } else if (flag == "--case") {
      only = argv[i + 1];
    } else {
      wrong(fmt::format("unknown option {}; use --repeats N or --case NAME", flag));
    }
  }
  fmt::print(
      "{} repeats; CPU time of one thread; memory is the process's peak, after a fifth of them and "
      "after all\n",
      repeats);
  fmt::print("{:<16} {:>9} {:>10} {:>9} {:>8} {:>8} {:>7} {:>7} {:>9} {:>9}\n", "case", "requests",
             "requests/s", "target", "iter/req", "ns/iter", "MiB 1/5", "MiB", "x of ref.",
             "x of step");
  for (const Case& c : kCases) {
    if (only.empty() || only == c.name) run(c, repeats);
  }
}
