#include <fmt/ranges.h>

#include <array>

#include "dataset/date_time.h"
#include "dataset/trace_source.h"
#include "tailrace/core/rng.h"
#include "tailrace/dataset/csv.h"

namespace tailrace::dataset {
namespace {

/// What a format's columns are called. The first three are needed, the others read where they are.
struct Columns {
  TraceFormat format;
  std::string_view time, prompt, output;
  std::string_view tenant, session;
};

constexpr std::array<Columns, 4> kColumns{{
    {TraceFormat::kAzure, "TIMESTAMP", "ContextTokens", "GeneratedTokens", {}, {}},
    {TraceFormat::kAzure, "t_s", "input_tokens", "output_tokens", {}, {}},
    {TraceFormat::kBurstGpt, "Timestamp", "Request tokens", "Response tokens", "Model",
     "Session ID"},
    {TraceFormat::kVllmRequests, "arrival_s", "input_tokens", "output_tokens", {}, {}},
}};

class CsvTrace final : public TraceSource {
 public:
  explicit CsvTrace(CsvReader csv) : csv_(std::move(csv)) {}

  Result<void> find_columns(TraceFormat& format) {
    for (const Columns& names : kColumns) {
      if (format != TraceFormat::kAuto && format != names.format) continue;
      const auto time = csv_.column(names.time);
      const auto prompt = csv_.column(names.prompt);
      const auto output = csv_.column(names.output);
      if (!time || !prompt || !output) continue;
      format = names.format;
      time_ = *time;
      prompt_ = *prompt;
      output_ = *output;
      tenant_ = csv_.column(names.tenant);
      session_ = csv_.column(names.session);
      return {};
    }
    return bad(unknown_header(format));
  }

  Result<Read> next(TraceRow& row) override {
    auto more = csv_.next(cells_);
    if (!more) return fail(more.error());
    if (!*more) return Read::kEnd;
    const auto at = time();
    if (!at) return fail(at.error());
    const auto prompt = tokens(prompt_);
    if (!prompt) return fail(prompt.error());
    const auto output = tokens(output_);
    if (!output) return fail(output.error());
    if (*prompt == 0 || *output == 0) return Read::kDropped;
    clear(row);
    row.arrival_s = *at;
    row.prompt_tokens = *prompt;
    row.output_tokens = *output;
    if (tenant_) row.tenant = cells_[*tenant_];
    if (session_ && !cells_[*session_].empty()) row.session = stable_hash(cells_[*session_]) | 1;
    return Read::kRow;
  }

  const LineReader& lines() const override { return csv_.lines(); }
  std::optional<std::int64_t> epoch_ns() const override { return epoch_ns_; }

 private:
  tl::unexpected<Error> bad(std::string_view what) const {
    return fail(csv_.lines().at_line(ErrorCode::kInvalidArgument, what));
  }

  std::string unknown_header(TraceFormat format) const {
    const std::string header = core::quoted(fmt::format("{}", fmt::join(csv_.header(), ",")), 128);
    if (csv_.column("rate_rps") && csv_.column("family")) {
      return fmt::format(
          "the header {} is that of ServeGen's arrival windows, which hold rates and no requests; "
          "give the file as a ServeGen workload",
          header);
    }
    std::string known;
    for (const Columns& names : kColumns) {
      if (format != TraceFormat::kAuto && format != names.format) continue;
      known += fmt::format("{}{},{},{} ({})", known.empty() ? "" : " or ", names.time, names.prompt,
                           names.output, to_string(names.format));
    }
    if (known.empty()) {
      return fmt::format(
          "a CSV header {}, but a trace of format {} is JSON lines; give the format "
          "that the file has",
          header, to_string(format));
    }
    return fmt::format("the header {} does not name the columns of a trace; it must name {}",
                       header, known);
  }

  Result<std::int64_t> tokens(std::size_t column) const {
    const std::string_view cell = core::trim(cells_[column]);
    auto value = core::parse_int(cell);
    if (!value) {
      // Tables that had gaps once write whole numbers as 12.0.
      const auto real = core::parse_double(cell);
      if (real && *real >= 0 && *real <= static_cast<double>(kTraceTokensMax) &&
          *real == std::floor(*real)) {
        value = static_cast<std::int64_t>(*real);
      }
    }
    if (value && *value >= 0 && *value <= kTraceTokensMax) return *value;
    return bad(fmt::format("{} is {}; it must be a whole number of tokens, 0 to 2^40",
                           core::quoted(csv_.header()[column]), core::quoted(cells_[column])));
  }

  Result<double> time() {
    const std::string_view cell = core::trim(cells_[time_]);
    if (!is_date_) is_date_ = !core::parse_double(cell) && parse_date_time(cell);
    if (*is_date_) {
      const auto ns = parse_date_time(cell);
      if (!ns) {
        return bad(
            fmt::format("{} is {}; it must be a date and a time, as 2024-05-10 "
                        "00:00:00.009930",
                        core::quoted(csv_.header()[time_]), core::quoted(cells_[time_])));
      }
      if (!epoch_ns_) epoch_ns_ = *ns;
      if (*ns < *epoch_ns_) {
        return bad(
            fmt::format("the request came at {}, before the first one; sort the trace by "
                        "time of arrival",
                        core::quoted(cells_[time_])));
      }
      const double seconds = static_cast<double>(*ns - *epoch_ns_) * 1e-9;
      if (is_trace_time(seconds)) return seconds;
    } else if (const auto seconds = core::parse_double(cell); seconds && is_trace_time(*seconds)) {
      return *seconds;
    }
    return bad(fmt::format("{} is {}; {}, or a date and a time throughout",
                           core::quoted(csv_.header()[time_]), core::quoted(cells_[time_]),
                           kTimeRemedy));
  }

  CsvReader csv_;
  std::size_t time_ = 0, prompt_ = 0, output_ = 0;
  std::optional<std::size_t> tenant_, session_;
  std::vector<std::string> cells_;
  std::optional<bool> is_date_;  ///< of the time column, as its first cell shows
  std::optional<std::int64_t> epoch_ns_;
};

}  // namespace

Result<std::unique_ptr<TraceSource>> csv_trace(LineReader lines, std::string_view first_line,
                                               TraceFormat& format) {
  auto csv = CsvReader::with_header(std::move(lines), first_line);
  if (!csv) return fail(csv.error());
  auto source = std::make_unique<CsvTrace>(std::move(*csv));
  if (auto found = source->find_columns(format); !found) return fail(found.error());
  return source;
}

}  // namespace tailrace::dataset
