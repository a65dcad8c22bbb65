// Where do the bytes go that are written to a path?
//
// A path may be a symbolic link, to be written through and never to be replaced, or name something
// that no file may take the place of: a pipe, a device, one of our own descriptors (/dev/stdout).
#pragma once

#include <optional>
#include <string>

#include "tailrace/core/result.h"

namespace tailrace::core {

struct WriteTarget {
  std::string path;  ///< every link followed, the last one too, whether or not its target exists
  bool in_place = false;          ///< written into as it is; otherwise replaced by a whole new file
  std::optional<int> descriptor;  ///< in place: ours, which the path names

  /// The folder that a new file must be made in before it is renamed to `path`.
  std::string folder() const;
  /// In place: a descriptor to write to, the caller's to close. Errors: kInternal.
  Result<int> open() const;
};

/// Looks, and writes nothing. Errors: kInvalidArgument where links lead in a circle.
Result<WriteTarget> write_target(const std::string& path);

/// Would writing to `a` change what `b` names: are they the same file, or the same place for one?
/// Pipes and devices have nothing to lose, so they are never the same.
bool same_file(const std::string& a, const std::string& b);

}  // namespace tailrace::core
