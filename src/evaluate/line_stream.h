// What does each line of a file hold, plain or gzipped, without holding the file?
#pragma once

#include <zlib.h>

#include <memory>
#include <optional>
#include <string>

#include "tailrace/core/result.h"

namespace tailrace::evaluate {

class LineStream {
 public:
  /// Errors: kNotFound naming the file.
  static Result<LineStream> open(const std::string& path);

  /// The next line without its end; nothing after the last. Errors: kDataLoss (damaged or cut
  /// archive), kResourceExhausted (a line over `bytes_max`).
  Result<std::optional<std::string>> next(std::size_t bytes_max);
  std::size_t line() const { return line_; }  ///< of the last one that came, from 1

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  explicit LineStream(gzFile file) : file_(file), buffer_(1 << 16, '\0') {}
  Result<bool> fill();

  std::unique_ptr<gzFile_s, Close> file_;
  std::string buffer_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  std::size_t line_ = 0;
};

}  // namespace tailrace::evaluate
