// Which requests, with which answers, is a predictor judged on?
//
// A Row is a request as a gateway would see it and the length that its answer had. They are read
// from JSON lines of our own or from public collections as they are published, plain or gzipped.
// What is read is bounded: rows, bytes a line. Errors name file, line, field and remedy.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/core/rng.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::evaluate {

struct Row {
  predict::RequestFeatures features;
  /// `censored` where the answer was cut: at the cap (length = cap) or before it (an abort).
  predict::Observation truth;
  std::uint64_t group = 0;  ///< the same prompt asked of the same model: repeated samples
};

struct RowSet {
  std::string name;
  std::vector<Row> rows;
};

struct ReadOptions {
  Tokens cap{4096};  ///< of a request that names none; what is longer counts as cut there
  /// Told, once a file, of members of rows that nothing reads, with file and line; may be empty.
  std::function<void(const std::string&)> warn;
};

inline constexpr std::size_t kRowsMax = 1'000'000;
inline constexpr std::size_t kLineBytesMax = std::size_t{16} << 20;

/// Reads one file ("-": JSON lines from standard input), or a folder whose files belong together.
/// Errors: kNotFound, kInvalidArgument (a line that is no row; nothing in the folder is
/// recognised), kDataLoss (a damaged archive), kResourceExhausted (over kRowsMax or kLineBytesMax).
Result<RowSet> read_rows(const std::string& path, const ReadOptions& options);

void shuffle(std::vector<Row>& rows, Rng rng);

/// Keeps the first `answers` rows of each group, in order; 0 keeps all.
void keep_per_group(std::vector<Row>& rows, std::size_t answers);

}  // namespace tailrace::evaluate
