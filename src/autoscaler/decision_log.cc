#include "tailrace/autoscaler/decision_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace {

constexpr std::uint64_t kTailBytes = std::uint64_t{1} << 20;
constexpr std::size_t kUnreadBytesMax = std::size_t{1} << 20;
/// At the end, for a reader that is behind.
constexpr int kLastWaitMillis = 500;

tl::unexpected<Error> failed(const std::string& file, std::string_view doing) {
  const int why = errno;
  const bool full = why == ENOSPC || why == EDQUOT || why == EFBIG;
  return fail(full ? ErrorCode::kResourceExhausted : ErrorCode::kInternal,
              fmt::format("decision log {}: {}: {}{}", core::quoted(file, 256), doing,
                          std::strerror(why), full ? "; free some space on its disk" : ""));
}

std::string tail_of(int descriptor, std::uint64_t bytes) {
  std::string tail(static_cast<std::size_t>(std::min(bytes, kTailBytes)), '\0');
  const ssize_t got =
      ::pread(descriptor, tail.data(), tail.size(), static_cast<off_t>(bytes - tail.size()));
  tail.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return tail;
}

}  // namespace

Result<std::unique_ptr<DecisionLog>> DecisionLog::open(const std::string& file,
                                                       std::size_t bytes_max, int files_kept,
                                                       bool later) {
  std::unique_ptr<DecisionLog> out(new DecisionLog(file, bytes_max, files_kept));
  if (auto opened = out->reopen(); !opened && !later) {
    return fail(ErrorCode::kInvalidArgument, opened.error().message);
  }
  return out;
}

DecisionLog::~DecisionLog() {
  drain(kLastWaitMillis);
  if (descriptor_ > STDERR_FILENO) ::close(descriptor_);
}

Result<void> DecisionLog::reopen() {
  if (file_ == "-") {
    descriptor_ = STDOUT_FILENO;
    return {};
  }
  descriptor_ =
      ::open(file_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644);
  if (descriptor_ < 0) return failed(file_, "it cannot be opened");
  struct stat facts{};
  const bool known = ::fstat(descriptor_, &facts) == 0;
  regular_ = known && S_ISREG(facts.st_mode);
  if (known && S_ISFIFO(facts.st_mode)) {
    ::close(descriptor_);
    descriptor_ = -1;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("decision log {}: it is a named pipe, whose reader could hold up all "
                            "decisions; name a regular file",
                            core::quoted(file_, 256)));
  }
  bytes_ = regular_ ? static_cast<std::uint64_t>(facts.st_size) : 0;
  const std::string tail = regular_ ? tail_of(descriptor_, bytes_) : "";
  const auto end = tail.rfind('\n');
  const std::size_t cut = tail.size() - (end == std::string::npos ? 0 : end + 1);
  // A whole megabyte without an end of line is no log of ours.
  if (cut == 0 || (end == std::string::npos && bytes_ > tail.size())) return {};
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes_ - cut)) != 0) {
    return failed(file_, "a line that was cut short cannot be removed");
  }
  bytes_ -= cut;
  return {};
}

Result<void> DecisionLog::rotate() {
  std::error_code error;
  namespace fs = std::filesystem;
  for (int i = files_kept_; i > 1; --i) {
    fs::rename(fmt::format("{}.{}", file_, i - 1), fmt::format("{}.{}", file_, i), error);
  }
  if (files_kept_ > 0) {
    fs::rename(file_, file_ + ".1", error);
  } else {
    fs::remove(file_, error);
  }
  ::close(descriptor_);
  descriptor_ = -1;
  return reopen();
}

Result<void> DecisionLog::append(std::span<const std::string> lines) {
  if (lines.empty()) return {};
  if (descriptor_ < 0) {
    if (auto opened = reopen(); !opened) return opened;
  }
  std::string bytes;
  for (const std::string& line : lines) bytes += line + "\n";
  if (file_ == "-") return print(bytes);
  if (regular_ && bytes_ > 0 && bytes_ + bytes.size() > bytes_max_) {
    if (auto rotated = rotate(); !rotated) return rotated;
  }
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t n = ::write(descriptor_, bytes.data() + written, bytes.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const auto error = failed(file_, "it cannot be written");
      if (regular_) (void)!::ftruncate(descriptor_, static_cast<off_t>(bytes_));
      return error;
    }
    written += static_cast<std::size_t>(n);
  }
  bytes_ += bytes.size();
  return {};
}

/// All or none: a reader that is slow must not hold up decisions.
Result<void> DecisionLog::print(std::string_view bytes) {
  drain(0);
  if (unread_.size() + bytes.size() > kUnreadBytesMax) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("decision log \"-\": {} bytes wait for whoever reads standard output, "
                            "and new lines are dropped; read it, or name a file",
                            unread_.size()));
  }
  unread_ += bytes;
  drain(0);
  return {};
}

/// A pipe that poll() calls ready takes PIPE_BUF bytes without waiting.
void DecisionLog::drain(int patience_ms) {
  std::size_t written = 0;
  while (written < unread_.size()) {
    pollfd ready{descriptor_, POLLOUT, 0};
    const int some = ::poll(&ready, 1, patience_ms);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) break;
    const std::size_t piece = std::min<std::size_t>(unread_.size() - written, PIPE_BUF);
    const ssize_t n = ::write(descriptor_, unread_.data() + written, piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    written += static_cast<std::size_t>(n);
  }
  unread_.erase(0, written);
}

bool DecisionLog::has(std::string_view id) const {
  if (!regular_ || descriptor_ < 0) return false;
  const auto wanted = "\"id\":" + boost::json::serialize(boost::json::string(core::valid_utf8(id)));
  return tail_of(descriptor_, bytes_).find(wanted) != std::string::npos;
}

}  // namespace tailrace::autoscaler
