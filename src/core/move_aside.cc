#include "tailrace/core/move_aside.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "tailrace/core/text.h"

namespace tailrace::core {

Result<std::string> move_aside(const std::string& path) {
  std::error_code unknown;
  std::string aside = path + ".damaged";
  for (int i = 2; std::filesystem::exists(std::filesystem::symlink_status(aside, unknown)); ++i) {
    aside = fmt::format("{}.damaged-{}", path, i);
  }
  if (std::rename(path.c_str(), aside.c_str()) != 0) {
    return fail(ErrorCode::kInternal, fmt::format("{} cannot be moved aside: {}", quoted(path, 256),
                                                  std::strerror(errno)));
  }
  return aside;
}

}  // namespace tailrace::core
