#include "simulate/trace_workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "simulate/arrivals.h"
#include "simulate/field_check.h"
#include "simulate/prefix_words.h"
#include "simulate/token_draws.h"
#include "tailrace/dataset/trace.h"

namespace tailrace::simulate {
namespace {

using dataset::TraceReader;
using dataset::TraceRow;

constexpr double kMost = 1e9;
constexpr std::uint64_t kRepeatMax = 1'000'000;
constexpr std::size_t kFilesMax = 100;  ///< they are open at once

/// The files of a trace as one stream in order of arrival. Holds one row of each.
class MergedTrace {
 public:
  explicit MergedTrace(const std::vector<std::string>& paths) : paths_(paths) {}

  /// Begins from the first row again.
  Result<void> rewind() {
    dropped_before_ = dropped();
    files_.clear();
    for (const std::string& path : paths_) {
      auto reader = TraceReader::open(path);
      if (!reader) return fail(reader.error());
      files_.push_back(File{std::move(*reader), {}, false, 0});
      File& file = files_.back();
      if (auto read = advance(file); !read) return fail(read.error());
    }
    std::optional<std::int64_t> earliest_ns;
    for (const File& file : files_) {
      const auto epoch_ns = file.reader.epoch_ns();
      if (epoch_ns) earliest_ns = std::min(earliest_ns.value_or(*epoch_ns), *epoch_ns);
    }
    for (File& file : files_) {
      const auto epoch_ns = file.reader.epoch_ns();
      if (epoch_ns) file.shift_s = static_cast<double>(*epoch_ns - *earliest_ns) * 1e-9;
    }
    return {};
  }

  /// The next row, on the common clock, in `row`, and the file it is from; nothing at the end.
  /// Ties fall to the file named first.
  Result<std::optional<std::size_t>> next(TraceRow& row) {
    File* first = nullptr;
    for (File& file : files_) {
      if (file.has_row && (first == nullptr || file.arrival_s() < first->arrival_s())) {
        first = &file;
      }
    }
    if (first == nullptr) return std::nullopt;
    const double arrival_s = first->arrival_s();
    std::swap(row, first->row);
    row.arrival_s = arrival_s;
    if (auto read = advance(*first); !read) return fail(read.error());
    return static_cast<std::size_t>(first - files_.data());
  }

  std::uint64_t dropped() const {
    std::uint64_t sum = dropped_before_;
    for (const File& file : files_) sum += file.reader.dropped();
    return sum;
  }

 private:
  struct File {
    TraceReader reader;
    TraceRow row;
    bool has_row = false;
    double shift_s = 0;  ///< of its clock against the common one

    double arrival_s() const { return row.arrival_s + shift_s; }
  };

  static Result<void> advance(File& file) {
    auto more = file.reader.next(file.row);
    if (!more) return fail(more.error());
    file.has_row = *more;
    return {};
  }

  std::vector<std::string> paths_;
  std::vector<File> files_;
  std::uint64_t dropped_before_ = 0;  ///< in earlier passes
};

class TraceWorkload final : public Workload {
 public:
  TraceWorkload(const WorkloadSpec& spec, const Rng& rng)
      : spec_(*spec.trace),
        context_(spec.context),
        drawn_(spec.lengths),
        trace_(spec_.paths),
        sampling_(rng.fork("trace sample")),
        lengths_(rng.fork("lengths")) {}

  Result<void> start() { return trace_.rewind(); }

  Result<bool> next(Request& out) override {
    for (;;) {
      auto file = trace_.next(row_);
      if (!file) return fail(file.error());
      if (!*file || (spec_.until_s && row_.arrival_s >= *spec_.until_s)) {
        auto again = begin_pass();
        if (!again) return fail(again.error());
        if (!*again) return false;
        continue;
      }
      if (row_.arrival_s < spec_.from_s) continue;
      if (pass_ == 0) note_arrival();
      if (spec_.sample < 1 && sampling_.uniform() >= spec_.sample) continue;
      fill(out, **file);
      return true;
    }
  }

  std::uint64_t dropped() const override { return trace_.dropped(); }

 private:
  void note_arrival() {
    if (rows_++ == 0) first_s_ = row_.arrival_s;
    last_s_ = row_.arrival_s;
  }

  /// False when all passes are done.
  Result<bool> begin_pass() {
    if (rows_ == 0) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("trace: no request came between from_s = {} and until_s = {}; widen "
                      "the window",
                      spec_.from_s, spec_.until_s ? fmt::format("{}", *spec_.until_s) : "the end"));
    }
    if (++pass_ >= spec_.repeat) return false;
    if (auto rewound = trace_.rewind(); !rewound) return fail(rewound.error());
    return true;
  }

  /// From one pass's first arrival to the next one's: the span and one mean gap more.
  double period_s() const {
    const double span_s = last_s_ - first_s_;
    return rows_ > 1 ? span_s + span_s / static_cast<double>(rows_ - 1) : 0;
  }

  void fill(Request& out, std::size_t file) {
    const double recorded_s =
        row_.arrival_s - spec_.from_s + static_cast<double>(pass_) * period_s();
    // A file that grew while it was read could otherwise fall back in time.
    now_s_ = std::max(now_s_, recorded_s / spec_.speed);
    out.id = made_++;
    out.arrival = MonoTime{from_seconds(now_s_)};
    out.prompt = Tokens(row_.prompt_tokens);
    std::swap(out.tenant, row_.tenant);
    out.priority = row_.priority;
    out.weight = row_.weight;
    out.deadline.reset();
    if (row_.deadline_s) out.deadline = out.arrival + from_seconds(*row_.deadline_s);
    out.session = row_.session;
    std::swap(out.prefix.ids, row_.prefix_ids);
    out.prefix.tokens_per_id = row_.tokens_per_id;
    if (const std::uint64_t copy = pass_ * spec_.paths.size() + file; copy > 0) {
      if (out.session != 0) out.session = permute(out.session + copy) | 1;
      if (spec_.fresh_prefixes) {
        const std::uint64_t salt = copy * 0x9e3779b97f4a7c15ULL;
        for (std::uint64_t& id : out.prefix.ids) id = permute(id + salt);
      }
    }
    set_length(out);
  }

  void set_length(Request& out) {
    if (spec_.draw_lengths) {
      out.cap_is_own = true;
      return draw_length(drawn_, lengths_, out);
    }
    set_recorded_length(row_.output_tokens, row_.cap.value_or(spec_.cap), context_, out);
    out.truth.reset();
    if (!row_.law) return;
    if (auto law = length::LengthLaw::log_t(row_.law->mu, row_.law->sigma, row_.law->nu)) {
      out.truth = *law;
    }
  }

  TraceSpec spec_;
  std::int64_t context_;
  LengthSpec drawn_;
  MergedTrace trace_;
  Rng sampling_, lengths_;
  TraceRow row_;
  std::uint64_t made_ = 0;
  std::uint64_t pass_ = 0;
  std::uint64_t rows_ = 0;  ///< in the window, of the first pass
  double first_s_ = 0, last_s_ = 0;
  double now_s_ = 0;
};

Result<void> check(const TraceSpec& spec) {
  const FieldCheck in("trace");
  if (spec.paths.empty()) return in.missing("paths", "which file, or files, to read");
  if (spec.paths.size() > kFilesMax) {
    return in.bad("paths", fmt::format("{} files", spec.paths.size()), "at most 100 of them");
  }
  if (!in_range(spec.from_s, 0, kMost)) return in.bad("from_s", spec.from_s, "seconds, 0 to 1e9");
  if (spec.until_s && !(*spec.until_s > spec.from_s && *spec.until_s <= kMost)) {
    return in.bad("until_s", *spec.until_s, "seconds, above from_s and at most 1e9");
  }
  if (!(spec.sample > 0 && spec.sample <= 1)) {
    return in.bad("sample", spec.sample, "a probability above 0 and at most 1");
  }
  if (!in_range(spec.speed, 1e-6, kMost)) {
    return in.bad("speed", spec.speed, "a factor, 1e-6 to 1e9");
  }
  if (spec.repeat < 1 || spec.repeat > kRepeatMax) {
    return in.bad("repeat", spec.repeat, "a number of passes, 1 to 1000000");
  }
  const bool reads_standard_input =
      std::find(spec.paths.begin(), spec.paths.end(), "-") != spec.paths.end();
  if (reads_standard_input && spec.repeat > 1) {
    return in.bad("repeat", spec.repeat,
                  "1 for standard input, which can be read once; give a file");
  }
  if (spec.cap < 0 || spec.cap > dataset::kTraceTokensMax) {
    return in.bad("cap", spec.cap, "a number of tokens up to 2^40, or 0 for none");
  }
  return {};
}

/// No field is passed over in silence.
Result<void> check_alone(const WorkloadSpec& spec) {
  if (spec.sessions || !spec.classes.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} are given beside trace, whose rows say themselves; leave one out",
                            spec.sessions ? "sessions" : "classes"));
  }
  if (auto ok = check_end(spec.arrivals); !ok) return ok;
  if (spec.trace->draw_lengths) return check(spec.lengths, "lengths");
  return {};
}

}  // namespace

Result<std::unique_ptr<Workload>> make_trace_workload(const WorkloadSpec& spec, const Rng& rng) {
  if (auto ok = check(*spec.trace); !ok) return fail(ok.error());
  if (auto ok = check_alone(spec); !ok) return fail(ok.error());
  auto workload = std::make_unique<TraceWorkload>(spec, rng);
  if (auto started = workload->start(); !started) return fail(started.error());
  return workload;
}

}  // namespace tailrace::simulate
