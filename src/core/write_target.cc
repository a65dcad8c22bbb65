#include "tailrace/core/write_target.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tailrace/core/text.h"

namespace tailrace::core {
namespace {

namespace fs = std::filesystem;

constexpr int kLinksMax = 40;  // as Linux follows

/// The number N of /proc/self/fd/N, if `path` is one of ours.
std::optional<int> own_descriptor(const fs::path& path) {
  std::error_code error;
  const fs::path folder =
      fs::canonical(path.parent_path().empty() ? "." : path.parent_path(), error);
  if (error || folder != fmt::format("/proc/{}/fd", ::getpid())) return std::nullopt;
  const auto number = parse_int(path.filename().string());
  if (!number || *number < 0 || *number > 1 << 20) return std::nullopt;
  return static_cast<int>(*number);
}

}  // namespace

std::string WriteTarget::folder() const {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

Result<int> WriteTarget::open() const {
  const int file = descriptor ? ::fcntl(*descriptor, F_DUPFD_CLOEXEC, 0)
                              : ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file >= 0) return file;
  return fail(ErrorCode::kInternal,
              fmt::format("cannot open {}: {}", quoted(path, 256), std::strerror(errno)));
}

Result<WriteTarget> write_target(const std::string& path) {
  WriteTarget target{path, false, std::nullopt};
  fs::path at = path;
  for (int links = 0; links < kLinksMax; ++links) {
    // A descriptor looks like a link to a file, but it has a place in that file, which we keep.
    target.descriptor = own_descriptor(at);
    if (target.descriptor) break;
    std::error_code error;
    const fs::path next = fs::read_symlink(at, error);
    if (error) {
      struct stat there{};
      const bool exists = ::stat(at.c_str(), &there) == 0;
      target.path = at.string();
      target.in_place = exists && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
      return target;
    }
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  if (!target.descriptor) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is a link that leads in a circle", quoted(path, 256)));
  }
  target.path = at.string();
  target.in_place = true;
  return target;
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat one{};
  struct stat two{};
  if (::stat(a.c_str(), &one) == 0 && ::stat(b.c_str(), &two) == 0) {
    return S_ISREG(one.st_mode) && one.st_dev == two.st_dev && one.st_ino == two.st_ino;
  }
  const auto first = write_target(a);
  const auto second = write_target(b);
  if (!first || !second || first->in_place || second->in_place) return false;
  std::error_code error;
  return fs::weakly_canonical(fs::absolute(first->path, error), error) ==
         fs::weakly_canonical(fs::absolute(second->path, error), error);
}

}  // namespace tailrace::core
