#include "autoscaler/process_log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>

#include "tailrace/core/printable.h"
#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace {

std::optional<std::size_t> size_of(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return static_cast<std::size_t>(std::max<off_t>(0, info.st_size));
}

/// The last `bytes` of a file of `size`.
std::string tail(const std::string& path, std::size_t size, std::size_t bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  const std::size_t from = size > bytes ? size - bytes : 0;
  file.seekg(static_cast<std::streamoff>(from));
  std::string text(size - from, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return text;
}

}  // namespace

void trim_log(const std::string& path, std::size_t bytes_max) {
  const auto size = size_of(path);
  if (!size || *size <= bytes_max) return;
  {
    std::ofstream kept(path + ".1", std::ios::binary | std::ios::trunc);
    kept << tail(path, *size, bytes_max / 2);
  }
  // A full disk is no reason to let the file grow on.
  if (::truncate(path.c_str(), 0) != 0) return;
}

std::string last_line(const std::string& path, std::size_t bytes_max) {
  const auto size = size_of(path);
  if (!size) return {};
  const std::string text = tail(path, *size, 4096);
  std::string_view rest = core::trim(text);
  const std::size_t line_end = rest.rfind('\n');
  if (line_end != std::string_view::npos) rest.remove_prefix(line_end + 1);
  return core::printable(core::utf8_prefix(core::trim(rest), bytes_max));
}

}  // namespace tailrace::autoscaler
