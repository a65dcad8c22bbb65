// Which requests came to a real service, when, and how long were they?
//
// A TraceReader yields a recorded trace row by row, in memory bounded by one row, whatever the
// format: Azure 2023 and 2024, BurstGPT, Mooncake, vLLM request records and tailrace's own JSON
// lines, plain or packed, told apart by content (docs/traces.md). ServeGen's tables hold rates, not
// requests: dataset/servegen.h. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"

namespace tailrace::dataset {

/// The log-t law that a row says its length was drawn from: ln X = mu + sigma·T(nu).
struct TraceLaw {
  double mu = 0;
  double sigma = 1;
  double nu = 3.5;

  friend bool operator==(const TraceLaw&, const TraceLaw&) = default;
};

struct TraceRow {
  double arrival_s = 0;             ///< on the trace's own clock; 0 or more, never falls
  std::int64_t prompt_tokens = 1;   ///< ≥ 1
  std::int64_t output_tokens = 1;   ///< ≥ 1
  std::optional<std::int64_t> cap;  ///< the request's own limit, where the trace says it
  std::vector<std::uint64_t> prefix_ids;
  std::int64_t tokens_per_id = 512;  ///< of prefix_ids
  std::string tenant;                ///< BurstGPT: the model that was asked; empty where unknown
  std::uint64_t session = 0;         ///< equal for the turns of one conversation; 0: none known
  int priority = 0;                  ///< higher is more urgent
  double weight = 1;
  std::optional<double> deadline_s;  ///< from arrival
  std::optional<TraceLaw> law;

  friend bool operator==(const TraceRow&, const TraceRow&) = default;
};

enum class TraceFormat {
  kAuto,
  kAzure,     ///< CSV: TIMESTAMP,ContextTokens,GeneratedTokens or t_s,input_tokens,output_tokens
  kBurstGpt,  ///< CSV: Timestamp,Model,Request tokens,Response tokens,…
  kMooncake,  ///< JSON lines: timestamp or t_ms, input_length or input_tokens, …, hash_ids
  kVllmRequests,  ///< CSV: arrival_s,input_tokens,output_tokens,…
  kOwn,           ///< JSON lines: arrival_s, prompt_tokens, output_tokens, …
};

/// "azure", "burstgpt", "mooncake", "vllm", "tailrace"; "auto".
std::string_view to_string(TraceFormat format);

struct TraceOptions {
  TraceFormat format = TraceFormat::kAuto;
};

inline constexpr std::int64_t kTraceTokensMax = std::int64_t{1} << 40;
inline constexpr double kTraceSecondsMax = 1e9;       ///< of arrival_s: some 31 years
inline constexpr std::size_t kTraceIdsMax = 100'000;  ///< prefix ids of one row
inline constexpr std::size_t kTraceLineBytesMax = std::size_t{4} << 20;

class TraceReader {
 public:
  /// "-" is standard input. Errors: those of LineReader; kInvalidArgument for a first line of no
  /// known shape, or not of the shape asked for.
  static Result<TraceReader> open(const std::string& path, const TraceOptions& options = {});
  static Result<TraceReader> from_bytes(std::string bytes, std::string name,
                                        const TraceOptions& options = {});
  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;
  ~TraceReader();

  /// The next row in `row`, whose vector keeps its memory; false at the end. Errors name file,
  /// line, field, value and remedy, and come back on every later call: kInvalidArgument for a value
  /// out of bounds, an arrival before its predecessor's, a file without any request; those of
  /// LineReader.
  Result<bool> next(TraceRow& row);

  TraceFormat format() const;  ///< never kAuto
  /// Rows passed over so far, because the service answered them with nothing (0 output tokens) or
  /// was asked nothing (0 prompt tokens).
  std::uint64_t dropped() const;
  /// Where the trace gives dates: nanoseconds from 1970 to arrival_s = 0, its first row's. Known
  /// from that row on.
  std::optional<std::int64_t> epoch_ns() const;

 private:
  struct Impl;
  explicit TraceReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tailrace::dataset
