#include "tailrace/core/open_files.h"

#include <sys/resource.h>

#include <algorithm>

#include "tailrace/core/log.h"

namespace tailrace::core {

void allow_open_files(std::size_t connections) {
  constexpr rlim_t kSpare = 64;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = static_cast<rlim_t>(connections) + kSpare;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted) {
    log::warn("open_files_limited", {{"wanted", static_cast<std::uint64_t>(wanted)},
                                     {"allowed", static_cast<std::uint64_t>(limit.rlim_cur)}});
  }
}

}  // namespace tailrace::core
