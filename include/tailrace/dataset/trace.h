// Which requests came to a real service, when, and how long were they?
//
// A TraceReader yields a recorded trace row by row, in memory bounded by one row, whatever the
// format: Azure 2023 and 2024, BurstGPT, Mooncake, ServeGen's windows, vLLM benchmark records and
// tailrace's own JSON lines, told apart by content (docs/traces.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/core/result.h"

namespace tailrace::dataset {

struct TraceRow {
  double arrival_s = 0;  ///< from the trace's start; never falls from row to row
  std::int64_t prompt_tokens = 1;
  std::int64_t output_tokens = 1;
  std::optional<std::int64_t> cap;  ///< the request's own limit, where the trace says it
  std::vector<std::uint64_t> prefix_ids;
  std::int64_t tokens_per_id = 512;  ///< of prefix_ids
  std::string client;                ///< tenant, session or client; empty where unknown
};

enum class TraceFormat {
  kAuto,
  kAzure,     ///< CSV: TIMESTAMP,ContextTokens,GeneratedTokens or t_s,input_tokens,output_tokens
  kBurstGpt,  ///< CSV: Timestamp,Model,Request tokens,Response tokens,…
  kMooncake,  ///< JSON lines: timestamp or t_ms, input_length, output_length, hash_ids
  kVllmRequests,  ///< CSV: arrival_s,input_tokens,output_tokens,…
  kOwn,           ///< JSON lines: arrival_s, prompt_tokens, output_tokens, …
};

struct TraceOptions {
  TraceFormat format = TraceFormat::kAuto;
};

class TraceReader {
 public:
  /// "-" is standard input. Errors: those of LineReader; kInvalidArgument for a first line of no
  /// known shape.
  static Result<TraceReader> open(const std::string& path, const TraceOptions& options = {});
  static Result<TraceReader> from_bytes(std::string bytes, std::string name,
                                        const TraceOptions& options = {});
  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;
  ~TraceReader();

  /// The next row in `row`; false at the end. Errors name file, line, field, value and remedy.
  Result<bool> next(TraceRow& row);

 private:
  struct Impl;
  explicit TraceReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tailrace::dataset
