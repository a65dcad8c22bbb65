// Where do bytes wait until they take a file's place?
#pragma once

#include <sys/types.h>

#include <string>

namespace tailrace::core {

/// A new file in `folder` without a name, to be read and written: whoever is killed leaves nothing
/// behind. -1 and errno where there can be none; some file systems know no such files.
int nameless_file(const std::string& folder, mode_t mode);

/// Gives it a name that begins with `path`; empty where the file system does not.
std::string give_name(int nameless, const std::string& path);

struct NamedFile {
  int fd = -1;  ///< -1 and errno where there can be none
  std::string name;
};
/// A new file of mode 0600 whose name begins with `path`, to be read and written.
NamedFile named_file(const std::string& path);

}  // namespace tailrace::core
