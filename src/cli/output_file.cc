#include "cli/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>

#include "tailrace/core/text.h"

namespace tailrace::cli {

Result<void> may_write_file(const std::string& path) {
  namespace fs = std::filesystem;
  const auto refused = [&](std::string_view why) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot write {}: {}", core::quoted(path, 256), why));
  };
  std::error_code error;
  fs::path file = path;
  const fs::file_status there = fs::status(file, error);
  if (fs::is_directory(there) || !file.has_filename()) {
    return refused("it is a folder; give a file");
  }
  if (fs::exists(there) && !fs::is_regular_file(there)) {  // a device or a pipe is written into
    if (::access(path.c_str(), W_OK) != 0) return refused("it may not be written into");
    return {};
  }
  // Through a link the file that it names is replaced, in its own folder.
  if (fs::exists(there)) file = fs::canonical(file, error);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error)) {
    return refused(fmt::format("there is no folder {}", core::quoted(folder.string(), 256)));
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return refused(
        fmt::format("the folder {} may not be written into", core::quoted(folder.string(), 256)));
  }
  return {};
}

}  // namespace tailrace::cli
