#include "cli/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>

#include "tailrace/core/text.h"
#include "tailrace/core/write_target.h"

namespace tailrace::cli {

Result<void> may_write_file(const std::string& path) {
  namespace fs = std::filesystem;
  const auto refused = [&](std::string_view why) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot write {}: {}", core::quoted(path, 256), why));
  };
  const auto target = core::write_target(path);
  if (!target) return fail(target.error());
  std::error_code error;
  const fs::path file = target->path;
  if (fs::is_directory(file, error) || !file.has_filename()) {
    return refused("it is a folder; give a file");
  }
  if (target->in_place) {
    if (!target->descriptor && ::access(target->path.c_str(), W_OK) != 0) {
      return refused("it may not be written into");
    }
    return {};
  }
  const fs::path folder = target->folder();
  if (!fs::is_directory(folder, error)) {
    return refused(fmt::format("there is no folder {}", core::quoted(folder.string(), 256)));
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return refused(
        fmt::format("the folder {} may not be written into", core::quoted(folder.string(), 256)));
  }
  return {};
}

Result<void> may_write_all(std::span<const Output> outputs, std::span<const std::string> inputs) {
  const auto refused = [](const Output& output, std::string_view why) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} {}", output.flag, core::quoted(output.path, 256), why));
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Output& output = outputs[i];
    if (output.path.empty()) continue;
    if (const auto writable = may_write_file(output.path); !writable) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: {}", output.flag, writable.error().message));
    }
    for (const Output& other : outputs.first(i)) {
      if (!other.path.empty() && core::same_file(output.path, other.path)) {
        return refused(output, fmt::format("is the file of {} too; give two files", other.flag));
      }
    }
    for (const std::string& input : inputs) {
      if (core::same_file(output.path, input)) {
        return refused(output, "is read from, so it is not written over; give another file");
      }
    }
  }
  return {};
}

}  // namespace tailrace::cli
