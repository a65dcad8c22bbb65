// How does a recorded request become a row?
//
// The features are those that a gateway would see (predict/prompt.h). Lengths over the request's
// limit count as cut there.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "evaluate/line_fields.h"
#include "tailrace/evaluate/rows.h"

namespace tailrace::evaluate {

inline constexpr std::int64_t kTokensMax = 1 << 30;

/// A request without its answer, as far as the line tells.
struct Asked {
  predict::RequestFeatures features;
  std::uint64_t prompt_hash = 0;  ///< tells prompts apart: of the text, or of an id where none is
};

/// Sets head, tail and fingerprint of one user turn, and the prompt's tokens where they are not
/// set.
void set_single_turn(std::string_view prompt, predict::RequestFeatures& features);

/// Reads the fields of tailrace's own lines but for the answer.
Result<Asked> read_asked(const LineFields& fields);

class RowMaker {
 public:
  RowMaker(const ReadOptions& options, RowSet& out) : options_(options), out_(out) {}

  /// `cap`: the limit that the request named, if any. Errors: kResourceExhausted over kRowsMax.
  Result<void> add(const Asked& asked, std::optional<std::int64_t> cap, std::int64_t length,
                   bool censored = false);

 private:
  const ReadOptions& options_;
  RowSet& out_;
};

}  // namespace tailrace::evaluate
