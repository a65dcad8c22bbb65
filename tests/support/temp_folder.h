// Where may a test write? In a folder or a file of its own, which is gone when the test is over.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "tailrace/core/check.h"

namespace tailrace {

/// An empty folder that nobody else uses; removed with all that is in it.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tailrace-XXXXXX").string();
    TAILRACE_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// The path of what has this name here, whether it is there or not.
  std::string file(std::string_view name) const { return (path_ / name).string(); }
  /// Writes a file here, in place of one that was there; its path.
  std::string write(std::string_view name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

/// A file with these bytes.
class TempFile {
 public:
  explicit TempFile(std::string_view bytes) : path_(folder_.write("file", bytes)) {}
  const std::string& path() const { return path_; }

 private:
  TempFolder folder_;
  std::string path_;
};

}  // namespace tailrace
