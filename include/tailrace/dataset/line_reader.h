// What is the next line of a recording, whatever it is packed in and however long it is?
//
// Lines of plain, gzip, zstd, xz and bzip2 files, told apart by their first bytes and never by
// their name, from a file or from standard input ("-"). Memory is one line and the decompressor's
// window. Compressed input that is damaged or cut short is an error, never a short file. One thread
// at a time; a view that `next` returns lives until the following call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tailrace/core/result.h"

namespace tailrace::dataset {

class LineReader {
 public:
  static constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20;

  /// Errors: kNotFound, kInternal naming the file. `max_line_bytes` bounds what one line may take.
  static Result<LineReader> open(const std::string& path,
                                 std::size_t max_line_bytes = kMaxLineBytes);
  /// The same over bytes in memory, packed or not; `name` stands in messages.
  static Result<LineReader> from_bytes(std::string bytes, std::string name,
                                       std::size_t max_line_bytes = kMaxLineBytes);

  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;
  ~LineReader();

  /// The next line without its end (LF or CR LF; a last line needs none) and, in the first one,
  /// without a UTF-8 byte order mark; nothing at the end. After an error every call repeats it.
  /// Errors: kDataLoss for damaged input, saying after which line; kResourceExhausted for a line
  /// over the limit; kInternal for a failed read.
  Result<std::optional<std::string_view>> next();

  /// Of the line that `next` returned last; 0 before the first.
  std::uint64_t line_number() const;
  /// For messages: the path, without what would steer a terminal, or "standard input".
  const std::string& name() const;
  /// An error of the caller's about the current line: "FILE: line 12: what".
  Error at_line(ErrorCode code, std::string_view what) const;

 private:
  struct Impl;
  explicit LineReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tailrace::dataset
