#include "evaluate/line_stream.h"

#include <fmt/format.h>

#include <cstring>

namespace tailrace::evaluate {

Result<LineStream> LineStream::open(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return fail(ErrorCode::kNotFound, path + ": cannot be opened");
  return LineStream(file);
}

Result<bool> LineStream::fill() {
  const int got = gzread(file_.get(), buffer_.data(), static_cast<unsigned>(buffer_.size()));
  int code = Z_OK;
  gzerror(file_.get(), &code);
  if (got < 0 || (got == 0 && code == Z_BUF_ERROR)) {
    return fail(ErrorCode::kDataLoss, "the archive is damaged or cut short; fetch it again");
  }
  at_ = 0;
  end_ = static_cast<std::size_t>(got);
  return got > 0;
}

Result<std::optional<std::string>> LineStream::next(std::size_t bytes_max) {
  std::string line;
  bool any = false;
  while (true) {
    if (at_ == end_) {
      const auto more = fill();
      if (!more) return fail(more.error());
      if (!*more) break;
    }
    any = true;
    const char* from = buffer_.data() + at_;
    const void* found = std::memchr(from, '\n', end_ - at_);
    const std::size_t size = found == nullptr
                                 ? end_ - at_
                                 : static_cast<std::size_t>(static_cast<const char*>(found) - from);
    if (line.size() + size > bytes_max) {
      ++line_;
      return fail(ErrorCode::kResourceExhausted,
                  fmt::format("the line is longer than {} bytes", bytes_max));
    }
    line.append(from, size);
    at_ += size + (found == nullptr ? 0 : 1);
    if (found != nullptr) break;
  }
  if (!any) return std::nullopt;
  ++line_;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

}  // namespace tailrace::evaluate
