#include "tailrace/dataset/trace.h"

#include "dataset/trace_source.h"

namespace tailrace::dataset {

std::string_view to_string(TraceFormat format) {
  switch (format) {
    case TraceFormat::kAzure:
      return "azure";
    case TraceFormat::kBurstGpt:
      return "burstgpt";
    case TraceFormat::kMooncake:
      return "mooncake";
    case TraceFormat::kVllmRequests:
      return "vllm";
    case TraceFormat::kOwn:
      return "tailrace";
    case TraceFormat::kAuto:
      break;
  }
  return "auto";
}

struct TraceReader::Impl {
  TraceFormat format;
  std::unique_ptr<TraceSource> source;
  std::uint64_t rows = 0;
  std::uint64_t dropped = 0;
  double last_s = 0;
  std::optional<Error> failed;

  Result<bool> next(TraceRow& row) {
    for (;;) {
      const auto read = source->next(row);
      if (!read) return fail(read.error());
      if (*read == TraceSource::Read::kDropped) {
        ++dropped;
        continue;
      }
      if (*read == TraceSource::Read::kEnd) {
        if (rows > 0) return false;
        return fail(ErrorCode::kInvalidArgument,
                    fmt::format("{}: it holds no request that was answered; give at least one",
                                source->lines().name()));
      }
      if (row.arrival_s < last_s) {
        return fail(source->lines().at_line(
            ErrorCode::kInvalidArgument,
            fmt::format("the request came at {} s, but one before it at {} s; sort the trace by "
                        "time of arrival",
                        row.arrival_s, last_s)));
      }
      last_s = row.arrival_s;
      ++rows;
      return true;
    }
  }
};

namespace {

constexpr std::string_view kShapes =
    "the first line must be a JSON object with arrival_s (tailrace) or hash_ids (Mooncake), or one "
    "of the headers t_s,input_tokens,output_tokens and TIMESTAMP,ContextTokens,GeneratedTokens "
    "(Azure), Timestamp,Model,Request tokens,Response tokens,… (BurstGPT), "
    "arrival_s,input_tokens,output_tokens,… (vLLM)";

/// Tells a file's shape from its first line that is not blank.
Result<std::unique_ptr<TraceSource>> source_of(LineReader lines, TraceFormat& format) {
  for (;;) {
    const auto line = lines.next();
    if (!line) return fail(line.error());
    if (!*line) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: it is empty; {}", lines.name(), kShapes));
    }
    const std::string_view text = core::trim(**line);
    if (text.empty()) continue;
    const std::string first(**line);
    if (text.front() == '{') return json_trace(std::move(lines), first, format);
    if (text.front() == '[') {
      return fail(lines.at_line(ErrorCode::kInvalidArgument,
                                "a JSON list; give one object a line instead"));
    }
    return csv_trace(std::move(lines), first, format);
  }
}

}  // namespace

TraceReader::TraceReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&&) noexcept = default;
TraceReader::~TraceReader() = default;

namespace {

Result<std::pair<TraceFormat, std::unique_ptr<TraceSource>>> source_over(
    Result<LineReader> lines, const TraceOptions& options) {
  if (!lines) return fail(lines.error());
  TraceFormat format = options.format;
  auto source = source_of(std::move(*lines), format);
  if (!source) return fail(source.error());
  return std::pair(format, std::move(*source));
}

}  // namespace

Result<TraceReader> TraceReader::open(const std::string& path, const TraceOptions& options) {
  auto source = source_over(LineReader::open(path, kTraceLineBytesMax), options);
  if (!source) return fail(source.error());
  auto impl = std::make_unique<Impl>();
  impl->format = source->first;
  impl->source = std::move(source->second);
  return TraceReader(std::move(impl));
}

Result<TraceReader> TraceReader::from_bytes(std::string bytes, std::string name,
                                            const TraceOptions& options) {
  auto source = source_over(
      LineReader::from_bytes(std::move(bytes), std::move(name), kTraceLineBytesMax), options);
  if (!source) return fail(source.error());
  auto impl = std::make_unique<Impl>();
  impl->format = source->first;
  impl->source = std::move(source->second);
  return TraceReader(std::move(impl));
}

Result<bool> TraceReader::next(TraceRow& row) {
  if (impl_->failed) return fail(*impl_->failed);
  auto more = impl_->next(row);
  if (!more) impl_->failed = more.error();
  return more;
}

TraceFormat TraceReader::format() const {
  return impl_->format;
}

std::uint64_t TraceReader::dropped() const {
  return impl_->dropped;
}

std::optional<std::int64_t> TraceReader::epoch_ns() const {
  return impl_->source->epoch_ns();
}

}  // namespace tailrace::dataset
