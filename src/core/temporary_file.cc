#include "tailrace/core/temporary_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace tailrace::core {

int nameless_file(const std::string& folder, mode_t mode) {
  return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
}

std::string give_name(int nameless, const std::string& path) {
  static std::atomic<std::uint64_t> next{0};
  const std::string open_file = fmt::format("/proc/self/fd/{}", nameless);
  constexpr int kNamesTried = 100;
  for (int i = 0; i < kNamesTried; ++i) {
    std::string name = fmt::format("{}.{}-{}", path, ::getpid(), next++);
    if (::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      return name;
    }
    if (errno != EEXIST) break;
  }
  return {};
}

NamedFile named_file(const std::string& path) {
  NamedFile made;
  made.name = path + ".XXXXXX";
  made.fd = ::mkostemp(made.name.data(), O_CLOEXEC);
  return made;
}

}  // namespace tailrace::core
