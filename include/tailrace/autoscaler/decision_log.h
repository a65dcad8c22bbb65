// Where can every decision be read later, one line each?
//
// JSON lines, appended whole. A file that has grown to its bound is put aside as FILE.1, the one
// before as FILE.2, and so on. A line that a crash cut short is removed when the file is opened.
// Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tailrace/core/result.h"

namespace tailrace::autoscaler {

class DecisionLog {
 public:
  /// `file` "-" is standard output; what is not read there is kept, up to a megabyte, and then
  /// refused. With `later`, one that cannot be opened is tried again by each append(). Errors:
  /// kInvalidArgument, it cannot be written.
  static Result<std::unique_ptr<DecisionLog>> open(const std::string& file, std::size_t bytes_max,
                                                   int files_kept, bool later = false);
  ~DecisionLog();
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;

  /// All lines or, as far as the disk lets it, none. Errors: kResourceExhausted, kInternal.
  Result<void> append(std::span<const std::string> lines);
  /// Is there a line with this id among the last megabyte?
  bool has(std::string_view id) const;

 private:
  DecisionLog(std::string file, std::size_t bytes_max, int files_kept)
      : file_(std::move(file)), bytes_max_(bytes_max), files_kept_(files_kept) {}
  Result<void> reopen();
  Result<void> rotate();
  Result<void> print(std::string_view bytes);
  void drain(int patience_ms);

  std::string file_;
  std::size_t bytes_max_;
  int files_kept_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
  bool regular_ = false;
  std::string unread_;  ///< for standard output, which does not take it yet
};

}  // namespace tailrace::autoscaler
